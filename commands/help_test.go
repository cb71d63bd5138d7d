package commands

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// helpOf is what a command's --help prints, without empty lines.
func helpOf(t *testing.T, command ...string) []string {
	t.Helper()
	var out, err bytes.Buffer
	if code := Run(t.Context(), append(command, "--help"), Streams{In: strings.NewReader(""), Out: &out, Err: &err}); code != 0 || err.Len() > 0 {
		t.Fatalf("%v --help: got exit code %d\n%s", command, code, &err)
	}
	return slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

func TestTheHelpOfACommandIsAboutTheCommand(t *testing.T) {
	t.Parallel()
	commands := newApp(Streams{}).cli.Model().FlattenedCommands()
	if len(commands) < 15 {
		t.Fatalf("got %d commands, want all", len(commands))
	}
	for _, c := range commands {
		lines := helpOf(t, strings.Fields(c.FullCommand)...)
		global := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.ToLower(line), "global flags") })
		switch {
		case global < 0:
			t.Errorf("%s: got no global flags\n%s", c.FullCommand, strings.Join(lines, "\n"))
		case 2*(len(lines)-global) > len(lines):
			t.Errorf("%s: got %d of %d lines on global flags, want at most half\n%s", c.FullCommand, len(lines)-global, len(lines), strings.Join(lines, "\n"))
		}
	}
}

func TestTheChoicesOfAFlagAreInItsHelp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command []string
		want    []string
	}{
		{nil, []string{"--log-format=text|json", "--output=text|json", "--color=auto|always|never"}},
		{[]string{"lab"}, []string{"insecure, pki or issuer"}},
		{[]string{"init"}, []string{"insecure, pki or issuer"}},
		{[]string{"completion"}, []string{"bash, zsh or fish"}},
	} {
		help := strings.Join(strings.Fields(strings.Join(helpOf(t, tt.command...), "\n")), " ")
		for _, want := range tt.want {
			if !strings.Contains(help, want) {
				t.Errorf("%v: got no %q\n%s", tt.command, want, help)
			}
		}
	}
	if help := strings.Join(helpOf(t), "\n"); !strings.Contains(help, "Configuration file ($PROVISION_CONFIG)") {
		t.Errorf("got global flags that are not described:\n%s", help)
	}
}
