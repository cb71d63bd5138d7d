package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

// installed is a lab whose configuration names no secrets, as one whose service
// gets them as credentials, and the directory with these.
func installed(t *testing.T) (l *lab.Lab, credentials string) {
	t.Helper()
	l = startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Issuer})
	credentials = t.TempDir()
	for _, name := range []string{"token", "broker_provisioning_password"} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(labSetting(t, l, name)), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetConfig(map[string]any{"token": nil, "broker_provisioning_password": nil}); err != nil {
		t.Fatal(err)
	}
	return l, credentials
}

// labSetting is the value of a text in the lab's configuration.
func labSetting(t *testing.T, l *lab.Lab, key string) string {
	t.Helper()
	value := regexp.MustCompile(`(?m)^` + key + `: *(.+)$`).FindStringSubmatch(document(t, l.ConfigFile()))
	if value == nil {
		t.Fatalf("the lab's configuration has no %s", key)
	}
	return strings.Trim(value[1], `"`)
}

// unitSettings returns the values of a setting in a unit.
func unitSettings(t *testing.T, unit, name string) (values []string) {
	t.Helper()
	for _, line := range strings.Split(document(t, unit), "\n") {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

// TestUnitRunsAsInstalled runs the command line of provision.service in the
// environment that systemd gives it. The configuration is the lab's, since
// /etc/choria-provision is not a test's to make.
func TestUnitRunsAsInstalled(t *testing.T) {
	t.Parallel()
	const unit = "../packaging/systemd/provision.service"
	command := unitSettings(t, unit, "ExecStart")
	if len(command) != 1 || !strings.HasPrefix(command[0], "/usr/bin/provision ") {
		t.Fatalf("got ExecStart %q, want one of /usr/bin/provision", command)
	}
	if got := unitSettings(t, unit, "StateDirectory"); len(got) != 1 {
		t.Fatalf("got StateDirectory %q, want one", got)
	}
	l, credentials := installed(t)
	cmd, stdout, stderr := provisionCommand(t, l, strings.Fields(command[0])[1:]...)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG=C.UTF-8", "INVOCATION_ID=0123456789abcdef0123456789abcdef",
		"HOME=/var/lib/nobody", "LOGNAME=choria-provision", "USER=choria-provision", "SHELL=/usr/sbin/nologin",
		"STATE_DIRECTORY=" + filepath.Join(t.TempDir(), "state"), "CREDENTIALS_DIRECTORY=" + credentials,
		"PROVISION_CONFIG=" + l.ConfigFile(),
	}
	cmd.Dir = "/"
	if r := ended(t, cmd.Run(), stdout, stderr); r.code != 0 {
		t.Errorf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if got := inService(t, l); len(got) != 1 {
		t.Errorf("in service: %v, want the node", got)
	}
}

// TestCronTableRunsAsInstalled runs the line of the cron table as cron does: by
// /bin/sh, with the variables of the table and few others.
func TestCronTableRunsAsInstalled(t *testing.T) {
	t.Parallel()
	l, credentials := installed(t)
	table := document(t, "../packaging/cron/choria-provision")
	line := regexp.MustCompile(`(?m)^(?:\S+ +){5} *choria-provision +(.*)$`).FindStringSubmatch(table)
	if line == nil {
		t.Fatalf("the table has no line:\n%s", table)
	}
	env := []string{
		"HOME=/", "LOGNAME=choria-provision", // the account has no other home
		"PROVISION_CONFIG=" + l.ConfigFile(), "CREDENTIALS_DIRECTORY=" + credentials,
	}
	named := ""
	for _, set := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(table, -1) {
		switch set[1] {
		case "PATH":
			set[2] = filepath.Join(l.Dir(), "bin") + ":" + set[2]
		case "PROVISION_STATE_DIR":
			named, set[2] = set[2], filepath.Join(t.TempDir(), "state")
		}
		env = append(env, set[1]+"="+set[2])
	}
	if named != "/var/lib/choria-provision" { // what the packages make for the account
		t.Errorf("the table's state directory is %q", named)
	}
	cmd, _, _ := provisionCommand(t, l)
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir = "/bin/sh", []string{"sh", "-c", line[1]}, env, "/"
	var mail bytes.Buffer
	cmd.Stdout, cmd.Stderr = &mail, &mail
	if r := ended(t, cmd.Run(), &mail, &bytes.Buffer{}); r.code != 0 {
		t.Errorf("got exit code %d\n%s", r.code, r.stdout)
	}
	if got := inService(t, l); len(got) != 1 {
		t.Errorf("in service: %v, want the node", got)
	}
	mail.Reset()
	again, _, _ := provisionCommand(t, l)
	again.Path, again.Args, again.Env, again.Dir = cmd.Path, cmd.Args, env, "/"
	again.Stdout, again.Stderr = &mail, &mail
	if r := ended(t, again.Run(), &mail, &bytes.Buffer{}); r.code != 0 || r.stdout != "" {
		t.Errorf("got exit code %d and %q to be mailed when no node waits, want 0 and nothing", r.code, r.stdout)
	}
}
