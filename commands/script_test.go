package commands

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"choria-provision/internal/lab"
)

var update = flag.Bool("update", false, "rewrite what scripts and goldens expect")

func TestMain(m *testing.M) {
	lab.RunIfChild()
	nameUser()
	testscript.Main(m, map[string]func(){"provision": provisionMain})
}

// provisionMain is the product's main as scripts call it.
func provisionMain() {
	streams := Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if dir := os.Getenv(storyMarker); dir != "" {
		os.Exit(runWatchTelling(Signals(), os.Args[1:], streams, dir))
	}
	os.Exit(Run(Signals(), os.Args[1:], streams))
}

// TestScripts runs every script below testdata/script, each in a directory of
// its own. Commands there beside testscript's: `exits CODE COMMAND…` runs a
// command that must end with that exit code.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup:               ownEnvironment,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

// ownEnvironment completes the few variables a script gets; nothing of whoever
// runs the tests is among them.
func ownEnvironment(env *testscript.Env) error {
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("USER", "operator")
	return nil
}

// exits is the script command `exits CODE COMMAND [ARGUMENT…]`.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	default:
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}
