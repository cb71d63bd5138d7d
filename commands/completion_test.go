package commands

import (
	"bytes"
	"strings"
	"testing"
)

// TestFishCompletesEverything holds that the script of our own knows what fisk's
// ask the program for.
func TestFishCompletesEverything(t *testing.T) {
	t.Parallel()
	model := newApp(Streams{}).cli.Model()
	script := fishScript(model)
	for command, flags := range flagsIn(model) {
		words := strings.Fields(command)
		if n := len(words); n > 0 && !strings.Contains(script, " -a "+words[n-1]+" ") {
			t.Errorf("the script does not complete %s", command)
		}
		for _, flag := range flags {
			if !strings.Contains(script, " -l "+flag+" ") {
				t.Errorf("the script does not complete %s --%s", command, flag)
			}
		}
	}
}

func TestCompletionScriptsNameTheProgram(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, want string }{
		{"bash", "complete -F _provision_bash_autocomplete"},
		{"zsh", "#compdef provision\n"},
		{"fish", "complete -c provision -f\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := Run(t.Context(), []string{"completion", test.name}, Streams{Out: &out, Err: &errs})
			if code != exitDone || errs.Len() > 0 || !strings.Contains(out.String(), test.want) {
				t.Errorf("got code %d, stderr %q and a script without %q:\n%s", code, &errs, test.want, &out)
			}
		})
	}
}
