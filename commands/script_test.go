package commands

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"choria-provision/internal/fake"
	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"
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
// command that must end with that exit code; `plant STATE IDENTITY FILE` stores
// the file's text as a record; `recorded STATE IDENTITY` holds that there is one;
// `report STATE FILE` stores the file as the report of the last run.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup:               ownEnvironment,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"plant":    plant,
			"recorded": hasRecord,
			"report":   plantReport,
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

// inState runs do on the state in a directory of the script.
func inState(ts *testscript.TestScript, dir string, do func(*installstate.Store) error) {
	store := installstate.NewStore(ts.MkAbs(dir))
	ts.Check(store.CheckWritable())
	ts.Check(errors.Join(do(store), store.Close()))
}

// plant is the script command `plant STATE IDENTITY FILE`.
func plant(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: plant STATE IDENTITY FILE")
	}
	inState(ts, args[0], func(store *installstate.Store) error {
		return fake.PlantRecord(store.Dir(), args[1], []byte(ts.ReadFile(args[2])))
	})
}

// hasRecord is the script command `[!] recorded STATE IDENTITY`.
func hasRecord(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] recorded STATE IDENTITY")
	}
	inState(ts, args[0], func(store *installstate.Store) error {
		_, err := store.Load(args[1])
		if found := !errors.Is(err, installstate.ErrNotFound); found == neg {
			return fmt.Errorf("%s: got a record: %v, want %v", args[1], found, !neg)
		}
		return nil
	})
}

// plantReport is the script command `report STATE FILE`.
func plantReport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: report STATE FILE")
	}
	inState(ts, args[0], func(store *installstate.Store) error {
		var packed bytes.Buffer
		packer := gzip.NewWriter(&packed)
		if _, err := packer.Write([]byte(ts.ReadFile(args[1]))); err != nil {
			return err
		}
		return errors.Join(packer.Close(), store.SaveLastReport(packed.Bytes()))
	})
}
