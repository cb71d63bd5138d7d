package output

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestErrorsNameTheFileThatWasToBeReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nowhere", "file.prom")
	tests := []struct {
		name string
		err  error
	}{
		{"textfile", WriteTextfile(path, prometheus.NewRegistry())},
		{"report", saved(Document{}.Save(path))},
	}
	for _, tt := range tests {
		if tt.err == nil || !errors.Is(tt.err, fs.ErrNotExist) || !strings.Contains(tt.err.Error(), path+": ") {
			t.Errorf("%s: got %v, want an error of %s", tt.name, tt.err, path)
		}
	}
}

func saved(_ []byte, err error) error { return err }
