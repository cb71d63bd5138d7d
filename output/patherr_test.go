package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/renameio/v2"
)

func TestWithPathHasThePathThatWasAskedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "nowhere", "file")
	other := errors.New("another error")
	replaced := func(path string) error {
		return renameio.WriteFile(path, nil, 0o600, renameio.WithTempDir(filepath.Dir(path)))
	}
	tests := []struct {
		name, path string
		err        error
		is         error
		want       string
	}{
		{"no directory", nowhere, replaced(nowhere), fs.ErrNotExist, "open " + nowhere + ": no such file or directory"},
		{"in the way", dir, replaced(dir), fs.ErrExist, "rename " + dir + ": file exists"},
		{"wrapped", nowhere, fmt.Errorf("deep: %w", &os.LinkError{Op: "rename", Old: "a", New: "b", Err: fs.ErrPermission}), fs.ErrPermission, "rename " + nowhere + ": permission denied"},
		{"no path in it", nowhere, other, other, "another error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := WithPath(tt.err, tt.path)
			if got == nil || got.Error() != tt.want || !errors.Is(got, tt.is) {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
	if err := WithPath(nil, nowhere); err != nil {
		t.Errorf("got %v of no error", err)
	}
}
