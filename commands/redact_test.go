package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/config"
	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// rpcFunc is a node that answers as the function says.
type rpcFunc func() ([]provision.Reply, error)

func (f rpcFunc) Request(context.Context, string, string, any) ([]provision.Reply, error) { return f() }

func TestNodesThatRepeatTheTokenDoNotShowIt(t *testing.T) {
	t.Parallel()
	const token = "s3cret-token"
	tests := []struct {
		name string
		rpc  rpcFunc
		is   error
		want string
	}{
		{"refusal", func() ([]provision.Reply, error) {
			return []provision.Reply{{Message: "the token " + token + " is of another site"}}, nil
		}, provision.ErrRefused, "the token **** is of another site"},
		{"network", func() ([]provision.Reply, error) {
			return nil, fmt.Errorf("%w: dialing with %s", provision.ErrTooLarge, token)
		}, provision.ErrTooLarge, "dialing with ****"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Token = config.NewSecret(token)
			l := provision.Lifecycle{
				RPC: redactingRPC{tt.rpc, output.NewRedactor(secretsOf(cfg))}, Config: cfg, Stop: t.Context(),
				Tell: func(any) {}, May: func() error { return nil },
			}
			store := installstate.NewStore(t.TempDir())
			defer store.Close()
			err := underMutationLock(store, "web1", func() error { return l.Restart(t.Context(), "web1") })
			result := lifecycleStep{name: "restart", does: "restarts"}.result("web1", err)
			if shown := fmt.Sprint(err, result); strings.Contains(shown, "s3cret") || !strings.Contains(result.Error, tt.want) {
				t.Errorf("got %s, want %s without the token", shown, tt.want)
			}
			if !errors.Is(err, tt.is) {
				t.Errorf("got %v, want an error that unwraps to %v", err, tt.is)
			}
		})
	}
}

// The secret is in the error by way of a path, as it may be by way of a library.
func TestErrorsOfACommandDoNotShowTheToken(t *testing.T) {
	t.Parallel()
	const token = "s3cret-token"
	file := filepath.Join(t.TempDir(), "provision.yaml")
	state := filepath.Join(t.TempDir(), token)
	text := "token: " + token + "\nhelper: /bin/cat\nstate_dir: " + state + "\n"
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{file: text, filepath.Join(state, "state.db"): "no database"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{{"pause"}, {"once"}, {"reset", "web1"}} {
		for _, format := range []string{"text", "json"} {
			var stdout, stderr bytes.Buffer
			code := Run(t.Context(), append([]string{"--config", file, "--log-format", format, "--output", "json"}, command...), Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
			shown := stdout.String() + stderr.String()
			if code == 0 || strings.Contains(shown, "s3cret") || !strings.Contains(shown, "****") {
				t.Errorf("%v, %s: got exit code %d and %s, want an error without the token", command, format, code, shown)
			}
		}
	}
}
