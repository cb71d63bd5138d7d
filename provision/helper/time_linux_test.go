package helper

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/config"
)

// A helper has helper_timeout from its start to its answer, to the nanosecond of
// the test's own clock: one that cannot be started, since it stays open for
// writing, waits for as long as it may.
func TestHelperHasExactlyItsTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		configured time.Duration
		want       time.Duration
	}{
		{"configured", 300 * time.Millisecond, 300 * time.Millisecond},
		{"configured for long", 2 * time.Hour, 2 * time.Hour},
		{"not configured", 0, config.Default().HelperTimeout.Duration},
		{"no choice", -time.Second, config.Default().HelperTimeout.Duration},
	}
	for _, tt := range tests {
		for _, mode := range []string{"exec", "persistent"} {
			t.Run(tt.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				path := newProgram(t, "#!/bin/sh\n")
				writer, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer writer.Close()
				synctest.Test(t, func(t *testing.T) {
					h := both(t, Exec{
						Command: config.Command{Args: []string{path}}, Timeout: tt.configured,
						wait: func(ctx context.Context) { <-ctx.Done() },
					})[mode]
					began := time.Now()
					_, err := h.Answer(t.Context(), Input{Identity: "n1"})
					if took := time.Since(began); took != tt.want {
						t.Errorf("ended after %s, want exactly %s", took, tt.want)
					}
					wantCause(t, err, ErrTimeout, "after "+tt.want.String())
				})
			})
		}
	}
}
