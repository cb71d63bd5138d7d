package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/choria-io/fisk"
)

// completion declares the command that prints a shell's completion script. fisk
// has those of bash and zsh; they ask the program again at each completion.
func (a *app) completion() {
	shells := []string{"bash", "zsh", "fish"}
	var shell string
	c := a.cli.Command("completion", "Prints the completion script for a shell: bash, zsh or fish")
	c.Arg("shell", "bash, zsh or fish").Required().HintOptions(shells...).EnumVar(&shell, shells...)
	c.Action(func(parsed *fisk.ParseContext) error {
		a.run = func(context.Context) error { return a.runCompletion(parsed, shell) }
		return nil
	})
}

func (a *app) runCompletion(parsed *fisk.ParseContext, shell string) error {
	switch shell {
	case "fish":
		_, err := fmt.Fprint(a.Out, fishScript(a.cli.Model()))
		return err
	case "zsh":
		return a.completionScript(parsed, fisk.ZshCompletionTemplate+zshTail)
	default:
		return a.completionScript(parsed, fisk.BashCompletionTemplate)
	}
}

func (a *app) completionScript(parsed *fisk.ParseContext, template string) error {
	a.cli.UsageWriter(a.Out)
	return a.cli.UsageForContextWithTemplate(parsed, 2, template)
}

// zshTail has a file on the fpath complete: zsh runs the file in place of the
// function the first time, and fisk's only defines it then.
const zshTail = `
if [[ "$funcstack[1]" == "_{{.App.Name}}" ]]; then
    _{{.App.Name}} "$@"
fi
`

// fishScript lists every command and flag for fish, each under the condition
// that its command was typed.
func fishScript(model *fisk.ApplicationModel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %s\ncomplete -c %[1]s -f\n", model.Name)
	fishFlags(&b, model.Name, "", model.Flags)
	top := commandNames(model.Commands)
	for _, c := range model.Commands {
		fishCommand(&b, model.Name, c, "not __fish_seen_subcommand_from "+strings.Join(top, " "))
		seen := "__fish_seen_subcommand_from " + c.Name
		fishFlags(&b, model.Name, seen, c.Flags)
		fishArgs(&b, model.Name, seen, c)
		for _, below := range c.Commands {
			fishCommand(&b, model.Name, below, seen+"; and not __fish_seen_subcommand_from "+strings.Join(commandNames(c.Commands), " "))
			fishFlags(&b, model.Name, seen+"; and __fish_seen_subcommand_from "+below.Name, below.Flags)
		}
	}
	return b.String()
}

func fishCommand(b *strings.Builder, program string, c *fisk.CmdModel, when string) {
	if !c.Hidden {
		fmt.Fprintf(b, "complete -c %s -n %s -a %s -d %s\n", program, fishQuote(when), c.Name, fishQuote(c.Help))
	}
}

func fishFlags(b *strings.Builder, program, when string, flags []*fisk.FlagModel) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		fmt.Fprintf(b, "complete -c %s", program)
		if when != "" {
			fmt.Fprintf(b, " -n %s", fishQuote(when))
		}
		if f.Short != 0 {
			fmt.Fprintf(b, " -s %c", f.Short)
		}
		fmt.Fprintf(b, " -l %s%s -d %s\n", f.Name, fishValue(f), fishQuote(f.Help))
	}
}

// fishValue says what may follow a flag: nothing, one of a few words, a file or
// anything.
func fishValue(f *fisk.FlagModel) string {
	switch {
	case f.Boolean:
		return ""
	case len(f.Completions) > 0:
		return " -x -a " + fishQuote(strings.Join(f.Completions, " "))
	case slices.Contains([]string{"FILE", "DIR"}, f.PlaceHolder):
		return " -r -F"
	default:
		return " -x"
	}
}

// fishArgs offers the words of the one argument that has a fixed set.
func fishArgs(b *strings.Builder, program, seen string, c *fisk.CmdModel) {
	if c.Name == "completion" {
		fmt.Fprintf(b, "complete -c %s -n %s -a %s\n", program, fishQuote(seen), fishQuote("bash zsh fish"))
	}
}

func commandNames(commands []*fisk.CmdModel) []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}

// fishQuote puts text between single quotes, where fish knows two escapes.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
