package installstate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecodeRecord holds that a record which is read is a valid one, and that
// writing it again loses nothing.
func FuzzDecodeRecord(f *testing.F) {
	files, err := filepath.Glob("testdata/records/*/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{"", "null", "{}", `{"schema_version":1}`, `{"schema_version":2}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data)
		if err != nil {
			return
		}
		if err := got.Validate(); err != nil {
			t.Fatalf("read a record that is not valid: %v", err)
		}
		text, err := got.encode()
		if err != nil {
			t.Fatalf("read a record that cannot be written: %v", err)
		}
		again, err := decode(text)
		if err != nil {
			t.Fatalf("wrote %s, which cannot be read: %v", text, err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("written and read again (-first +second):\n%s", diff)
		}
	})
}

// FuzzParsePause holds that a pause which is read has a time, and that writing
// it again loses nothing: a pause must not end by what it says.
func FuzzParsePause(f *testing.F) {
	for _, text := range []string{`{"since":"2026-01-02T03:04:05Z","reason":"broker"}`, "", "null", "{}", `{"since":"2026-01-02T03:04:05Z"} x`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parsePause(data)
		if err != nil {
			return
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parsePause(text)
		if err != nil || got.Since.IsZero() || !cmp.Equal(got, again) {
			t.Errorf("read %+v, and %+v of what it was written as (%v)", got, again, err)
		}
	})
}
