package commands

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"choria-provision/internal/lab"
)

// docRun says how a block of commands in the documents is tested.
type docRun struct {
	page, first string // the page and the block's first line
	run         func(*testing.T, codeBlock)
	needs       string // why it is parsed only
}

// docRuns classifies every block of commands: it runs, or it needs what a test
// does not have.
var docRuns = []docRun{
	{page: "README.md", first: "make demo   # five real Choria servers on this machine, brought into service", needs: "the whole source: .ci/run runs both"},
	{page: "README.md", first: "make build", run: runsLabUntilStopped},
	{page: "README.md", first: "$ provision discover", run: runsInLab(lab.Options{Nodes: 3, Enrollment: lab.Issuer})},
	{page: "README.md", first: "provision config check                      # every problem, with line and remedy", run: runsInLab(lab.Options{Nodes: 1, Enrollment: lab.Issuer})},
	{page: "docs/ci.md", first: `provision lab --nodes 5 --helper "$PWD/helper.sh" --junit provision.xml -- provision once`, run: runsBesideHelper},
	{page: "docs/getting-started.md", first: "apt-get install ./choria-provision_*_amd64.deb", needs: "a package manager: packaging/build tests it"},
	{page: "docs/getting-started.md", first: "install -m 0600 provisioning.jwt /etc/choria/provisioning.jwt", needs: "a machine with a real server"},
	{page: "docs/getting-started.md", first: "systemctl enable --now provision.timer", needs: "systemd: TestUnits runs the units"},
	{page: "docs/helper.md", first: "while read -r input; do", run: answersLine},
	{page: "docs/helper.md", first: "#!/bin/sh", needs: "nothing: it is examples/helper.sh, which TestHelperDocumentHoldsTheExample holds it to"},
	{page: "docs/helper.md", first: `provision lab --nodes 2 --helper "$PWD/examples/helper.sh" -- sh -c '`, run: runsInSource},
	{page: "docs/install.md", first: "make packages", needs: "minutes: packaging/build tests it"},
	{page: "docs/install.md", first: "apt-get install ./choria-provision_*_amd64.deb", needs: "a package manager: packaging/build tests it"},
	{page: "docs/install.md", first: "cd /etc/choria-provision", needs: "root and systemd"},
	{page: "docs/install.md", first: "skopeo copy --all oci-archive:choria-provision_VERSION_oci.tar docker://registry.example.net/choria-provision-base:VERSION", needs: "a registry"},
	{page: "docs/install.md", first: "make build", needs: "root: packaging/build tests it"},
	{page: "docs/install.md", first: "systemd-sysusers choria-provision.conf          # or: useradd --system choria-provision", needs: "root and systemd"},
	{page: "docs/metrics.md", first: "curl -X DELETE http://pushgateway.example.net:9091/metrics/job/choria_provision/site/eu", needs: "a Pushgateway: tools tests its addresses"},
	{page: "docs/migration.md", first: "export PROVISION_CHORIA_CONFIG=/path/to/the/daemons/choria.cfg", run: runsInLab(lab.Options{Nodes: 1, Enrollment: lab.Issuer})},
	{page: "docs/operations.md", first: "install -m 0755 bin/provision /usr/bin/provision", needs: "root and systemd"},
	{page: "docs/troubleshooting.md", first: "provision config check                   # files, keys and tokens, with line and hint", run: runsInLab(lab.Options{Nodes: 1, Enrollment: lab.PKI})},
	{page: "docs/operations.md", first: "choria kv add CHORIA_PROVISION_RECORDS --history 1 --no-direct --replicas 3", needs: "a cluster of brokers"},
}

// TestEveryDocumentedBlockRuns leaves no block of commands unclassified, and runs
// those that can be.
func TestEveryDocumentedBlockRuns(t *testing.T) {
	t.Parallel()
	known, met := map[[2]string]docRun{}, map[[2]string]bool{}
	for _, d := range docRuns {
		known[[2]string{d.page, d.first}] = d
	}
	for _, b := range commandBlocks(t) {
		key := [2]string{b.page, b.first()}
		d, found := known[key]
		met[key] = true
		switch {
		case !found && gettingStarted(b):
		case !found:
			t.Errorf("%s: the block %q is not in docRuns: add how it is tested", b.page, b.first())
		case d.run == nil && d.needs == "":
			t.Errorf("%s: the block %q is neither run nor said to need anything", b.page, b.first())
		case d.run != nil:
			t.Run(b.page+"/"+b.first(), func(t *testing.T) {
				t.Parallel()
				d.run(t, b)
			})
		}
	}
	for key := range known {
		if met[key] {
			continue
		}
		t.Errorf("docRuns holds the block %q of %s, which is not there", key[1], key[0])
	}
}

// TestDocumentedTargetsExist has make plan each of its lines in the documents.
func TestDocumentedTargetsExist(t *testing.T) {
	t.Parallel()
	targets := regexp.MustCompile(`(?m)^(?:sudo )?make( [^#\n]*)`)
	for _, b := range commandBlocks(t) {
		for _, match := range targets.FindAllStringSubmatch(b.text, -1) {
			cmd := exec.Command("make", append([]string{"-n"}, strings.Fields(match[1])...)...)
			cmd.Dir = ".."
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: make%s: %v\n%s", b.page, match[1], err, out)
			}
		}
	}
}

// shell is bash about to run a script as a reader would type it, with the product
// as provision.
func shell(t *testing.T, script string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = t.TempDir()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// runsInLab runs the block where the nodes of a lab wait, and compares the output
// of a console block.
func runsInLab(o lab.Options) func(*testing.T, codeBlock) {
	return func(t *testing.T, b codeBlock) {
		l := startLab(t, o)
		steps := b.session()
		if b.language == "sh" {
			steps = []typed{{command: strings.ReplaceAll(b.text, "/path/to/the/daemons/choria.cfg", "$PROVISION_CHORIA_CONFIG")}}
		}
		for _, step := range steps {
			cmd, out := shell(t, step.command)
			cmd.Env = l.Env()
			if err := cmd.Run(); err != nil {
				t.Fatalf("%s: %v\n%s", step.command, err, out)
			}
			if got := strings.TrimRight(out.String(), "\n"); step.output != "" && got != step.output {
				t.Errorf("%s: got\n%s\nwant, as documented,\n%s", step.command, got, step.output)
			}
		}
	}
}

// runsLabUntilStopped starts a lab that stays, provisions its nodes with what it
// says to export, and ends it as Ctrl-C does.
func runsLabUntilStopped(t *testing.T, b codeBlock) {
	cmd, _ := shell(t, b.text)
	product, err := exec.LookPath("provision")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(cmd.Dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(product, filepath.Join(bin, "provision")); err != nil {
		t.Fatal(err)
	}
	putScript(t, filepath.Join(bin, "make"), "#!/bin/sh\n") // it would build what is there already
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // servers, too
	exports := startUntil(t, cmd, "Ctrl-C ends the lab")
	other, out := shell(t, exports+"\nprovision discover && provision once")
	if err := other.Run(); err != nil || !strings.Contains(out.String(), "3 provisioned") {
		t.Errorf("in the other terminal: %v\n%s\nwant 3 provisioned", err, out)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v when the lab was ended, want no error\n%s", err, cmd.Stderr)
	}
}

// startUntil starts the command and returns the lines that it has a reader export,
// once it wrote last.
func startUntil(t *testing.T, cmd *exec.Cmd, last string) (exports string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.Stdout = write
	err = cmd.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "    export ") {
			exports += lines.Text() + "\n"
		}
		if strings.Contains(lines.Text(), last) {
			return exports
		}
	}
	t.Fatalf("the command ended: %v\n%s", cmd.Wait(), cmd.Stderr)
	return ""
}

// runsInSource runs the block in the root of the source.
func runsInSource(t *testing.T, b codeBlock) {
	cmd, out := shell(t, b.text)
	cmd.Dir = ".."
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// runsBesideHelper runs the block where a site keeps its helper.
func runsBesideHelper(t *testing.T, b codeBlock) {
	example, err := filepath.Abs("../examples/helper.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := shell(t, b.text)
	putScript(t, filepath.Join(cmd.Dir, "helper.sh"), "#!/bin/sh\n"+labValues+"exec "+example+"\n")
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// labValues has a script find what the example helpers need to know of a site.
const labValues = `ISSUER=$(cat "${PROVISION_CONFIG%/*}/keys/issuer.public")
BROKER=$(sed -n "s/.*middleware_hosts = //p" "$PROVISION_CHORIA_CONFIG")
export ISSUER BROKER
`

// answersLine runs the block as a persistent helper that is asked twice.
func answersLine(t *testing.T, b codeBlock) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not here")
	}
	cmd, out := shell(t, b.text)
	cmd.Stdin = strings.NewReader("{\"identity\": \"a.example.net\"}\n{\"identity\": \"b.example.net\"}\n")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answer := func(name string) string {
		return `{"identity":"` + name + `","configuration":{"identity":"` + name + `","plugin.choria.server.provision":"false"}}` + "\n"
	}
	if want := answer("a.example.net") + answer("b.example.net"); out.String() != want {
		t.Errorf("got %s, want %s", out, want)
	}
}

func putScript(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}
