package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"
)

// onDisk runs a command of the product whose state directory is a small disk of
// its own, prepared by a shell script, and returns what is on it afterwards.
func onDisk(t *testing.T, l *lab.Lab, prepare string, args ...string) (ran, string) {
	t.Helper()
	left := filepath.Join(t.TempDir(), "left")
	script := `set -e
mkdir -p "$PROVISION_STATE_DIR"
mount -t tmpfs -o size=256k,mode=0700 none "$PROVISION_STATE_DIR"
` + prepare + `
set +e
provision ` + strings.Join(args, " ") + `
code=$?
cp -r "$PROVISION_STATE_DIR" ` + left + `
exit $code`
	cmd, stdout, stderr := provisionCommand(t, l)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return ended(t, cmd.Run(), stdout, stderr), left
}

func TestADiskThatCannotBeWrittenIsFoundBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	for prepare, want := range map[string]string{
		`mount -o remount,ro "$PROVISION_STATE_DIR"`:                      "read-only file system",
		`cat /dev/zero > "$PROVISION_STATE_DIR/fill" 2>/dev/null || true`: "no space is left for ",
	} {
		r, _ := onDisk(t, l, prepare, "once")
		if r.code != 1 || !strings.Contains(r.stderr, "the state cannot be used: ") || !strings.Contains(r.stderr, want) {
			t.Errorf("got exit code %d, want 1 and %q\n%s", r.code, want, r.stderr)
		}
	}
	if got := asked(t, l, l.NodeNames()[0]); len(got) != 0 {
		t.Errorf("the node was asked for %v, want nothing", got)
	}
}

func TestADiskThatFillsInMidRunStartsNoNewNode(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 3, Enrollment: lab.Insecure})
	script := filepath.Join(t.TempDir(), "helper.sh")
	text := `cat /dev/zero > "$PROVISION_STATE_DIR/fill" 2>/dev/null
exec ` + filepath.Join(l.Dir(), "bin", "lab-helper") + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.SetConfig(map[string]any{"workers": 1, "helper": "/bin/sh " + script}); err != nil {
		t.Fatal(err)
	}
	r, left := onDisk(t, l, "", "once")
	if r.code != 1 || !strings.Contains(r.stderr, "provision: the state cannot be used: no space is left for ") {
		t.Errorf("got exit code %d, want 1 and the reason\n%s", r.code, r.stderr)
	}
	for _, name := range l.NodeNames() { // a node that waited meanwhile may have been asked for what changes nothing
		if got := asked(t, l, name); slices.Contains(got, "choria_provision#configure") {
			t.Errorf("%s was configured without a record", name)
		}
	}
	entries, err := installstate.NewStore(left).List()
	if err != nil || len(entries) != 0 {
		t.Errorf("got records %v, %v, want none, half or whole", entries, err)
	}
}
