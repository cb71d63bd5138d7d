package lab

import (
	"bytes"
	"compress/bzip2"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/choria-io/go-choria/server/agents"
	"github.com/google/go-cmp/cmp"
)

func TestStateFollowsTheJournal(t *testing.T) {
	t.Parallel()
	waits, serves := Action{Started: "provisioning"}, Action{Started: "production"}
	restart := Action{Name: "choria_provision#restart"}
	refused := Action{Name: "choria_provision#restart", Status: 1}
	asked := Action{Name: "rpcutil#inventory"}
	tests := []struct {
		name    string
		entries []Action
		want    State
	}{
		{"nothing yet", nil, Lost},
		{"started", []Action{waits, asked}, Waiting},
		{"refused restart", []Action{waits, refused}, Waiting},
		{"restarting", []Action{waits, restart}, Lost},
		{"restarted", []Action{waits, restart, serves, asked}, InService},
		{"sent back", []Action{waits, restart, serves, {Name: "choria_provision#reprovision"}}, Lost},
		{"back", []Action{waits, restart, serves, {Name: "choria_provision#reprovision"}, waits}, Waiting},
		{"upgrading", []Action{waits, {Name: "choria_provision#release_update"}}, Lost},
		{"upgrade refused", []Action{waits, {Name: "choria_provision#release_update", Status: 1}}, Waiting},
		{"stopping", []Action{waits, {Name: "choria_provision#shutdown"}}, Lost},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := stateAfter(test.entries); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestConnectionMustBeTheOneInProduction(t *testing.T) {
	t.Parallel()
	good := connection{name: "n1", account: "choria", subjects: []string{"choria.node.n1"}}
	other := connection{name: "n2", account: "provisioning", subjects: []string{"provisioning.node.n2"}}
	tests := []struct {
		name string
		all  []connection
		want string
	}{
		{"good", []connection{other, good}, ""},
		{"absent", []connection{other}, "0 connections"},
		{"twice", []connection{good, good}, "2 connections"},
		{"in the provisioning account", []connection{{name: "n1", account: "provisioning", subjects: good.subjects}}, "in provisioning"},
		{"in the provisioning collective too", []connection{{name: "n1", subjects: []string{"choria.node.n1", "provisioning.node.n1"}}}, "in provisioning"},
		{"in another collective", []connection{{name: "n1", subjects: []string{"other.node.n1"}}}, "no requests in collective choria"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := connectionOf("n1", "choria", test.all)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case test.want == "" && got.account != good.account:
				t.Errorf("got %+v, want %+v", got, good)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestConnectionMustUseTheCredentialsOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := pki{files{dir, dir}}
	ca, err := selfSigned("CA", true)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.issue("n1")
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyPEM(leaf.key)
	if err != nil {
		t.Fatal(err)
	}
	ssl := filepath.Join(nodeDir(dir, "n1"), "ssl")
	if err := os.MkdirAll(ssl, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ca.save(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	if err := saveFiles(ssl, map[string][]byte{"private.pem": key, "certificate.pem": certPEM(leaf.cert)}); err != nil {
		t.Fatal(err)
	}
	seen := connection{subject: "CN=n1", certificate: fingerprint(leaf.cert.Raw)}
	if _, err := n.verify("n1", seen); err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	for _, wrong := range []connection{{}, {subject: "CN=n2", certificate: seen.certificate}, {subject: "CN=n1", certificate: fingerprint(ca.cert.Raw)}} {
		if _, err := n.verify("n1", wrong); err == nil {
			t.Errorf("got no error for %+v, want one", wrong)
		}
	}
}

func TestPackedReleaseIsTheScript(t *testing.T) {
	t.Parallel()
	packed, err := base64.StdEncoding.DecodeString(releaseBzip2)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(packed)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(releaseScript, string(got)); diff != "" {
		t.Errorf("release (-want +got):\n%s", diff)
	}
}

func TestJournalSkipsALineBeingWritten(t *testing.T) {
	t.Parallel()
	j := journal{t.TempDir()}
	want := Action{Name: "agent#action", Caller: "c", Status: 1, Message: "m"}
	if err := j.write(want); err != nil {
		t.Fatal(err)
	}
	file, err := openLog(filepath.Join(j.dir, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"action": "ag`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := j.read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Action{want}, got); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestStatusOfAReply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		reply   agents.AgentReply
		code    int
		message string
	}{
		{"good", agents.AgentReply{Body: json.RawMessage(`{"statuscode":0,"statusmsg":"OK"}`)}, 0, ""},
		{"discovery's", agents.AgentReply{Body: []byte("pong")}, 0, ""},
		{"refused", agents.AgentReply{Body: json.RawMessage(`{"statuscode":1,"statusmsg":"no"}`)}, 1, "no"},
		{"broken", agents.AgentReply{Error: io.ErrUnexpectedEOF}, 5, io.ErrUnexpectedEOF.Error()},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if code, message := status(&test.reply); code != test.code || message != test.message {
				t.Errorf("got %d %q, want %d %q", code, message, test.code, test.message)
			}
		})
	}
}
