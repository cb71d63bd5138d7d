package lab

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"
)

func TestStrangersHandOutATokenTheSiteDidNotSign(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{PKI, Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, Options{Nodes: 2, Enrollment: enrollment, Strangers: 1})
			var genuine []bool
			for _, node := range l.NodeNames() {
				genuine = append(genuine, signedBySite(t, l, node))
			}
			if diff := cmp.Diff([]bool{true, false}, genuine); diff != "" {
				t.Errorf("signed by the site (-want +got):\n%s", diff)
			}
			if f := finding(t, l, l.NodeNames()[1]); f.State != Waiting {
				t.Errorf("got %+v, want the stranger let in and waiting", f)
			}
		})
	}
}

func signedBySite(t *testing.T, l *Lab, node string) bool {
	t.Helper()
	key := filepath.Join(l.Dir(), "keys", "signer.pem")
	if l.site.Enrollment == Issuer {
		key = filepath.Join(l.Dir(), "keys", "issuer.public")
	}
	_, err := tokens.ParseProvisioningTokenWithKeyfile(readFile(t, filepath.Join(l.NodeDir(node), jwtFile)), key)
	return err == nil
}

func TestTwinsBothTakeEveryRequest(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 2, Enrollment: Issuer, Twins: true})
	nodes := l.NodeNames()
	provisionNodes(t, l, nodes[0])
	for _, name := range []string{nodes[0], nodes[0] + ".twin"} {
		if diff := cmp.Diff([]string{"jwt", "gen25519", "configure", "restart"}, requestsOnceRestarted(t, l, name)); diff != "" {
			t.Errorf("requests to %s (-want +got):\n%s", name, diff)
		}
	}
	if got := requests(t, l, nodes[1]); got != nil {
		t.Errorf("got requests %v to the other node, want none", got)
	}
	if f := finding(t, l, nodes[0]); f.State == InService {
		t.Errorf("got %+v, want two of one name not to pass", f)
	}
}

// requestsOnceRestarted waits for the request to restart: who was asked takes the
// first twin's reply and does not wait for the other's.
func requestsOnceRestarted(t *testing.T, l *Lab, node string) []string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		names := requests(t, l, node)
		if slices.Contains(names, "restart") {
			return names
		}
		select {
		case <-tick.C:
		case <-limit:
			return names
		}
	}
}

func TestSetConfigChangesWhatStartWrote(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 1, Enrollment: PKI, Helper: "./own 'a b'"})
	own, err := filepath.Abs("own")
	if err != nil {
		t.Fatal(err)
	}
	if text := readFile(t, l.ConfigFile()); !strings.Contains(text, own+" 'a b'") {
		t.Errorf("got\n%s\nwant the helper's path made absolute", text)
	}
	before := readFile(t, l.ConfigFile())
	if err := l.SetConfig(map[string]any{"token": "wrong", "broker_provisioning_password": nil}); err != nil {
		t.Fatal(err)
	}
	text := readFile(t, l.ConfigFile())
	if !strings.Contains(text, "token: wrong\n") || strings.Contains(text, "broker_provisioning_password") {
		t.Errorf("got\n%s\nwant another token and no password", text)
	}
	if err := l.SetConfig(nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, readFile(t, l.ConfigFile())); diff != "" {
		t.Errorf("configuration set back (-want +got):\n%s", diff)
	}
	if err := l.SetChoria(map[string]string{"plugin.security.file.ca": "/stranger.pem", "plugin.security.file.key": ""}); err != nil {
		t.Fatal(err)
	}
	text = readFile(t, l.ChoriaFile())
	if !strings.Contains(text, "plugin.security.file.ca = /stranger.pem\n") || strings.Contains(text, "plugin.security.file.key") {
		t.Errorf("got\n%s\nwant another ca and no key", text)
	}
}
