package commands

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"choria-provision/internal/fake"
	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"
)

var update = flag.Bool("update", false, "rewrite what scripts and goldens expect")

func TestMain(m *testing.M) {
	// The race detector would have each helper and server sleep for a second at
	// its end, and each helper occupies a worker.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	lab.RunIfChild()
	nameUser()
	testscript.Main(m, map[string]func(){"provision": provisionMain, "choria": choriaMain})
}

// provisionMain is the product's main as scripts call it.
func provisionMain() {
	if code, done := AsProcess1(); done {
		os.Exit(code)
	}
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
// `report STATE FILE` stores the file as the report of the last run;
// `valid SCHEMA [FILE]` holds a JSON document to its schema.
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
			"valid":    validate,
		},
	})
}

// ownEnvironment completes the few variables a script gets, nothing of this
// process's own among them, and puts a client's credentials below tls.
func ownEnvironment(env *testscript.Env) error {
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("USER", "operator")
	repository, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	env.Setenv("REPOSITORY", repository)
	return writeCredentials(filepath.Join(env.WorkDir, "tls"))
}

// clientCredentials makes a self-signed certificate and its key, in PEM, once.
var clientCredentials = sync.OnceValues(func() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "provisioner.mcollective"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return map[string][]byte{"certificate.pem": certificate, "key.pem": private, "ca.pem": certificate}, nil
})

func writeCredentials(dir string) error {
	files, err := clientCredentials()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
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
