package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RunIfChild()
	if work, asked := os.LookupEnv(childVariable); asked {
		if err := runTestChild(work, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func startLab(t *testing.T, o Options) *Lab {
	t.Helper()
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// finding is what Verify says of one node.
func finding(t *testing.T, l *Lab, node string) Finding {
	t.Helper()
	findings, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Node == node {
			return f
		}
	}
	t.Fatalf("got no finding for %s in %+v", node, findings)
	return Finding{}
}

// requests are the names of all requests to choria_provision that a node saw.
func requests(t *testing.T, l *Lab, node string) (names []string) {
	t.Helper()
	actions, err := l.Actions(node)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range actions {
		if short, found := strings.CutPrefix(a.Name, "choria_provision#"); found {
			names = append(names, short)
		}
	}
	return names
}

func TestProvisionedServersAreInServiceAndTheOthersWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, collective, credential string
		requests                     []string
	}{
		{Insecure, "mcollective", "no credentials", []string{"jwt", "configure", "restart"}},
		{PKI, "mcollective", "certificate", []string{"jwt", "gencsr", "configure", "restart"}},
		{Issuer, "choria", "server.jwt", []string{"jwt", "gen25519", "configure", "restart"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, Options{Nodes: 3, Enrollment: test.name})
			nodes := l.NodeNames()
			provisionNodes(t, l, nodes[:2]...)

			findings, err := l.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var states []State
			for _, f := range findings {
				states = append(states, f.State)
				t.Log(f)
			}
			if diff := cmp.Diff([]State{InService, InService, Waiting}, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			seen := strings.Join(findings[0].Seen, "; ")
			if !strings.Contains(seen, "collective "+test.collective) || !strings.Contains(seen, test.credential) {
				t.Errorf("got %q, want it to name %s and %s", seen, test.collective, test.credential)
			}
			if diff := cmp.Diff(test.requests, requests(t, l, nodes[0])); diff != "" {
				t.Errorf("requests to a provisioned node (-want +got):\n%s", diff)
			}
			if got := requests(t, l, nodes[2]); got != nil {
				t.Errorf("got requests %v to the node left alone, want none", got)
			}
		})
	}
}

func TestSwappedKeyIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		swap    func(t *testing.T, dir string)
		problem string
	}{
		{PKI, func(t *testing.T, dir string) {
			other, err := selfSigned("other", false)
			if err != nil {
				t.Fatal(err)
			}
			key, err := keyPEM(other.key)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, filepath.Join(dir, "ssl", "private.pem"), key)
		}, "does not fit the private key"},
		{Issuer, func(t *testing.T, dir string) {
			if _, err := newSeed(dir, "server"); err != nil {
				t.Fatal(err)
			}
		}, "does not fit the key in server.seed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, Options{Nodes: 1, Enrollment: test.name})
			node := l.NodeNames()[0]
			provisionNodes(t, l, node)
			if f := finding(t, l, node); f.State != InService {
				t.Fatalf("got %+v, want it in service before the swap", f)
			}
			test.swap(t, l.NodeDir(node))
			f := finding(t, l, node)
			if f.State != Wrong || !strings.Contains(f.Problem, test.problem) {
				t.Errorf("got %+v, want state %q and a problem with %q", f, Wrong, test.problem)
			}
		})
	}
}

func overwrite(t *testing.T, path string, text []byte) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKeySentByTheHelperArrivesReadable(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 1, Enrollment: PKI})
	node := l.NodeNames()[0]
	if err := l.Behave(node, Behaviour{Do: SendKey}); err != nil {
		t.Fatal(err)
	}
	provisionNodes(t, l, node)
	f := finding(t, l, node)
	if f.State != InService || !strings.Contains(strings.Join(f.Seen, ";"), "the key the helper sent") {
		t.Errorf("got %+v, want it in service with the key the helper sent", f)
	}

	// a key and certificate that fit each other, but are not what was sent
	ca, err := loadAuthority(filepath.Join(l.Dir(), "keys"), "ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := ca.issue(node)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyPEM(other.key)
	if err != nil {
		t.Fatal(err)
	}
	ssl := filepath.Join(l.NodeDir(node), "ssl")
	overwrite(t, filepath.Join(ssl, "private.pem"), key)
	overwrite(t, filepath.Join(ssl, "certificate.pem"), certPEM(other.cert))
	if f := finding(t, l, node); f.State != Wrong {
		t.Errorf("got %+v with another pair on disk, want state %q", f, Wrong)
	}
}

func TestServerThatCannotStartAgainIsFound(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 1, Enrollment: PKI})
	node := l.NodeNames()[0]
	if err := l.Behave("*", Behaviour{Set: map[string]any{"ca": nil}}); err != nil {
		t.Fatal(err)
	}
	provisionNodes(t, l, node)
	f := finding(t, l, node)
	if f.State != Ended || !strings.Contains(f.Problem, "does not exist") {
		t.Errorf("got %+v, want state %q and the missing file", f, Ended)
	}
}

func TestUpgradedServerComesBackWithTheVersion(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 1, Enrollment: Issuer, Upgrades: true})
	node := l.NodeNames()[0]
	if err := l.Behave(node, Behaviour{Do: Upgrade, Version: "1.2.3-4"}); err != nil {
		t.Fatal(err)
	}
	provisionNodes(t, l, node)
	if f := finding(t, l, node); f.State != Waiting {
		t.Fatalf("got %+v after the upgrade, want it waiting", f)
	}
	if err := l.Behave(node, Behaviour{}); err != nil {
		t.Fatal(err)
	}
	provisionNodes(t, l, node)
	f := finding(t, l, node)
	if f.State != InService || !slices.Contains(f.Seen, "answers in collective choria with version 1.2.3-4") {
		t.Errorf("got %+v, want it in service with version 1.2.3-4", f)
	}
	want := []string{"jwt", "gen25519", "release_update", "jwt", "gen25519", "configure", "restart"}
	if diff := cmp.Diff(want, requests(t, l, node)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestServerSentBackWaitsAgain(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Nodes: 1, Enrollment: Insecure})
	node := l.NodeNames()[0]
	provisionNodes(t, l, node)
	if f := finding(t, l, node); f.State != InService {
		t.Fatalf("got %+v, want it in service", f)
	}
	if out, err := runChild(t, l, childReprovision, node); err != nil {
		t.Fatalf("reprovisioning: %v\n%s", err, out)
	}
	if f := finding(t, l, node); f.State != Waiting {
		t.Errorf("got %+v, want it waiting", f)
	}
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"no node", Options{Enrollment: PKI}, "at least one"},
		{"unknown enrollment", Options{Nodes: 1, Enrollment: "magic"}, `"magic"`},
		{"more strangers than nodes", Options{Nodes: 1, Enrollment: PKI, Strangers: 2}, "2 strangers"},
		{"directory in use", Options{Nodes: 1, Enrollment: Insecure, Dir: used}, "in use"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Start(t.Context(), test.o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Nodes: 1, Enrollment: Issuer}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func TestElectionsWork(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{Insecure, PKI, Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, Options{Nodes: 1, Enrollment: enrollment})
			if out, err := runChild(t, l, childElect); err != nil {
				t.Errorf("got no leader: %v\n%s", err, out)
			}
		})
	}
}
