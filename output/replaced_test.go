package output

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

func TestErrorsOfTheReportHaveTheRequestedPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nowhere", "last-run.json")
	_, err := Document{}.Save(path)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path+": ") {
		t.Errorf("got %v, want an error of %s", err, path)
	}
}
