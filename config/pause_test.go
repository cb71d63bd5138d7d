package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAPauseOutlastsTheProcessAndEndsWithResume(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "provision")
	if p, err := LoadPause(dir); p != nil || err != nil {
		t.Fatalf("got %v and error %v without a flag, want nothing", p, err)
	}
	want := Pause{Reason: "disk \x1b[1mfull", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if err := SetPause(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := LoadPause(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, PauseFile): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: got %v and error %v, want %v", path, info.Mode().Perm(), err, mode)
		}
	}
	for _, want := range []bool{true, false} {
		if was, err := Resume(dir); was != want || err != nil {
			t.Errorf("resume: got %v and error %v, want %v", was, err, want)
		}
	}
	if p, err := LoadPause(dir); p != nil || err != nil {
		t.Errorf("got %v and error %v after resume, want nothing", p, err)
	}
}

func TestAPauseEndsByItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		if err := SetPause(dir, Pause{Since: time.Now(), Until: time.Now().Add(2 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Hour - time.Second)
		if p, err := LoadPause(dir); p == nil || err != nil {
			t.Errorf("a second before its end: got %v and error %v, want a pause", p, err)
		}
		time.Sleep(time.Second)
		if p, err := LoadPause(dir); p != nil || err != nil {
			t.Errorf("at its end: got %v and error %v, want nothing", p, err)
		}
	})
}

func TestABrokenFlagCountsAsPause(t *testing.T) {
	t.Parallel()
	const good = `{"reason": "x", "since": "2026-01-02T03:04:05Z"}`
	tests := []struct{ name, text string }{
		{"empty", ""},
		{"NULs", strings.Repeat("\x00", 40)},
		{"half", good[:20]},
		{"two", good + good},
		{"a list", "[]"},
		{"null", "null"},
		{"without a beginning", `{"reason": "x"}`},
		{"an end that is none", `{"since": "2026-01-02T03:04:05Z", "until": "soon"}`},
		{"huge", good + strings.Repeat(" ", maxPause)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, PauseFile)
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := LoadPause(dir)
			if p == nil || !errors.Is(err, ErrPauseFlag) {
				t.Fatalf("got %v and error %v, want a pause and ErrPauseFlag", p, err)
			}
			for _, part := range []string{path, "provision resume"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q in it", err, part)
				}
			}
			if was, err := Resume(dir); !was || err != nil {
				t.Errorf("resume: got %v and error %v, want it to take the flag away", was, err)
			}
		})
	}
}

func TestAFlagThatIsADirectoryCountsAsPause(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, PauseFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if p, err := LoadPause(dir); p == nil || !errors.Is(err, ErrPauseFlag) {
		t.Errorf("got %v and error %v, want a pause and ErrPauseFlag", p, err)
	}
}

func TestAPauseThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := SetPause(filepath.Join(file, "state"), Pause{Since: time.Now()}); err == nil {
		t.Error("got no error for a state directory below a file")
	}
}

func BenchmarkLoadPauseWithoutFlag(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		if _, err := LoadPause(dir); err != nil {
			b.Fatal(err)
		}
	}
}
