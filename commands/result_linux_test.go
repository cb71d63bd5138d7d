package commands

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/choria-io/fisk"

	"choria-provision/internal/lab"
)

// unwrittenRow is a command line whose result must not get lost unnoticed.
type unwrittenRow struct {
	args []string
	code int // without a full disk
}

// unwrittenRows has every command, in an order that suits the lab's first node.
func unwrittenRows(node string) []unwrittenRow {
	rows := []unwrittenRow{
		{[]string{"version"}, exitDone},
		{[]string{"config", "check"}, exitDone},
		{[]string{"config", "show"}, exitDone},
		{[]string{"helper", "run"}, exitDone},
		{[]string{"discover"}, exitDone},
		{[]string{"once", "--dry-run"}, exitDone},
		{[]string{"node", node, "--dry-run"}, exitDone},
		{[]string{"resume"}, exitDone}, // was not paused
		{[]string{"pause"}, exitDone},
		{[]string{"resume"}, exitDone},
		{[]string{"status"}, exitDone},
		{[]string{"reset", node}, exitDone},
		{[]string{"reset", "--all"}, exitDone}, // no records
	}
	for _, row := range slices.Clone(rows) {
		rows = append(rows, unwrittenRow{append(slices.Clone(row.args), "--output", "json"), row.code})
	}
	return append(rows,
		unwrittenRow{[]string{"restart", node, "--output", "json"}, exitNodes},
		unwrittenRow{[]string{"completion", "bash"}, exitDone},
		unwrittenRow{[]string{"completion", "zsh"}, exitDone},
		unwrittenRow{[]string{"completion", "fish"}, exitDone},
		unwrittenRow{[]string{"--help"}, exitDone},
		unwrittenRow{[]string{"--version"}, exitDone},
		unwrittenRow{[]string{"discover", "--names"}, exitDone},
		unwrittenRow{[]string{"lab", "--nodes", "0", "--simulate", "1", "--enrollment", lab.Insecure}, exitDone},
		unwrittenRow{[]string{"shutdown", node}, exitDone},
	)
}

func TestAResultThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	rows := append(unwrittenRows(l.NodeNames()[0]), unwrittenRow{[]string{"init", "--dir", t.TempDir()}, exitDone})
	for _, row := range rows {
		ctx, cancel := context.WithTimeout(t.Context(), patience) // lab would wait
		var stderr bytes.Buffer
		args := append([]string{"--config", l.ConfigFile(), "--choria-config", l.ChoriaFile(), "--state-dir", l.StateDir()}, row.args...)
		code := Run(ctx, args, Streams{In: strings.NewReader(""), Out: full, Err: &stderr})
		if ctx.Err() != nil {
			t.Errorf("%v: went on", row.args)
		}
		cancel()
		want := row.code
		if want == exitDone {
			want = exitRun
		}
		const told = "the result could not be written: write /dev/full: no space left on device"
		if code != want || strings.Count(stderr.String(), told) != 1 {
			t.Errorf("%v: got exit code %d, want %d and to be told why, once\n%s", row.args, code, want, &stderr)
		}
	}
	for _, c := range newApp(Streams{}).cli.Model().FlattenedCommands() {
		words := strings.Fields(c.FullCommand)
		covered := slices.ContainsFunc(rows, func(row unwrittenRow) bool { return slices.Equal(row.args[:min(len(words), len(row.args))], words) })
		if !covered && runnable(c) {
			t.Errorf("%s is not tried here", c.FullCommand)
		}
	}
}

// runnable leaves out help and what only groups commands; watch has no result.
func runnable(c *fisk.CmdModel) bool {
	return c.Name != "help" && c.Name != "watch" && len(c.Commands) == 0 && !c.Hidden
}
