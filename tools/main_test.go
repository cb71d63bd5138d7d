package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds every process of these tests; none takes a fraction of it.
const patience = 2 * time.Minute

// programs are what the tests run as processes of their own.
var programs = []struct{ name, dir, pkg string }{
	{"provision", "..", "."},
	{"pushgateway", ".", "github.com/prometheus/pushgateway"},
}

// built is the directory they are built to; TestMain alone writes it.
var built string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "provision-tools-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	for _, program := range programs {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, program.name), program.pkg)
		cmd.Dir = program.dir
		if text, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("building %s: %w\n%s", program.name, err, text)
		}
	}
	built = dir
	return m.Run(), nil
}
