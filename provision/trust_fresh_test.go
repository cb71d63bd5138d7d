package provision

import (
	"encoding/hex"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// The next write may give a file the time that it has now, so its key is kept
// only when the file is older than the coarsest clock of a file system. The age
// is told by the bubble's clock, which begins at the file's own time: however
// long the test takes, no other clock decides.
func TestAKeyIsKeptOnceItsFileIsOlderThanAnyClocksStep(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		age  time.Duration
		kept bool
	}{
		{"just written", 0, false},
		{"a second old", time.Second, false},
		{"two seconds old: another write may have the same time", 2 * time.Second, false},
		{"older", 2*time.Second + time.Nanosecond, true},
		{"of yesterday", 24 * time.Hour, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, beforePrivate := newKey(t)
			after, afterPrivate := newKey(t)
			path := writeFile(t, hex.EncodeToString(before))
			var file unix.Stat_t
			if err := unix.Stat(path, &file); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Unix(file.Ctim.Unix()).Add(tt.age)))
				var key siteKey
				if _, err := key.claims(signed(t, provisioningClaims(t, time.Hour), beforePrivate), path); err != nil {
					t.Fatal(err)
				}
				if kept := key.key != nil; kept != tt.kept {
					t.Errorf("kept the key: %v, want %v", kept, tt.kept)
				}
				// A write that nothing tells of: only a key that was kept survives it.
				state, err := stateOf(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(hex.EncodeToString(after)), 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := key.read(path, state)
				if err != nil {
					t.Fatal(err)
				}
				want := afterPrivate.Public()
				if tt.kept {
					want = beforePrivate.Public()
				}
				if !sameKey(got, want) {
					t.Errorf("got the other key, want that of before the write: %v", tt.kept)
				}
			})
		})
	}
}
