// Package commands knows the command line: flags, exit codes and how the parts
// are wired together. It does not know how a node is provisioned.
package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"choria-provision/config"
	"choria-provision/output"

	"github.com/choria-io/fisk"
)

// Streams are where a command reads from and writes to.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is one invocation: the parsed command line and what it chose to run.
type app struct {
	Streams
	result *result // where Out goes
	cli    *fisk.Application

	configFile string
	choriaFile string
	stateDir   string
	debug      bool
	logFormat  string
	output     string
	color      string
	unattended bool

	// loaded is the configuration in force, for the secrets that no message may
	// show; nil until load read it.
	loaded atomic.Pointer[config.Config]

	// reloads is set by a command for which SIGHUP is no end.
	reloads bool

	// run is set by the chosen command's action; answers counts how often help,
	// version, completion or usage was the answer, which is kept in usage.
	run     func(stop context.Context) error
	answers int
	usage   bytes.Buffer
}

// Run executes one command line and returns the exit code. stop ends with the
// first signal: no new work starts then, work under way is finished.
func Run(stop context.Context, args []string, streams Streams) int {
	a := newApp(streams)
	err := a.parse(args)
	switch {
	case a.answers == 1 && errors.Is(err, fisk.ErrCommandNotSpecified):
		_, _ = a.usage.WriteTo(streams.Err)
		return exitUsage
	case a.answers > 0:
		_, err := a.usage.WriteTo(a.Out)
		return a.fail(err)
	case err != nil:
		return a.fail(err)
	case a.reloads:
		return a.fail(a.run(stop))
	default:
		stop, end := orHangup(stop)
		defer end()
		return a.fail(a.run(stop))
	}
}

func newApp(streams Streams) *app {
	a := &app{Streams: streams, result: &result{Writer: streams.Out}}
	if !output.IsTerminal(streams.Out) { // pages must know one, and none is ever full
		a.Out = a.result
	}
	a.cli = fisk.New("provision", "Brings Choria fleet nodes into service").
		UsageWriter(&a.usage).ErrorWriter(streams.Err).Terminate(func(int) { a.answer() })
	a.cli.UsageTemplate(helpTemplate()).ErrorUsageTemplate(helpTemplate()).UsageFuncs(helpFuncs())
	a.cli.Version(version())
	a.cli.HelpFlag.Short('h')
	a.globals()
	for _, declare := range declarations {
		declare(a)
	}
	return a
}

// answer notes that all is said. fisk goes on after that as if it had ended the
// process, and adds its usage: only the first answer counts.
func (a *app) answer() {
	a.answers++
	a.cli.UsageWriter(io.Discard)
}

func (a *app) globals() {
	a.cli.Flag("config", "Configuration file").PlaceHolder("FILE").Envar("PROVISION_CONFIG").StringVar(&a.configFile)
	a.cli.Flag("choria-config", "Choria client configuration file").PlaceHolder("FILE").Envar("PROVISION_CHORIA_CONFIG").StringVar(&a.choriaFile)
	a.cli.Flag("state-dir", "Directory for records, locks and reports").PlaceHolder("DIR").Envar("PROVISION_STATE_DIR").StringVar(&a.stateDir)
	a.cli.Flag("debug", "Log at debug level").UnNegatableBoolVar(&a.debug)
	wordFlag(a.cli.Flag("log-format", "Format of log lines (default: text)").Default("text"), &a.logFormat, "text", "json")
	wordFlag(a.cli.Flag("output", "Format of the result on stdout (default: text)").Default("text"), &a.output, "text", "json")
	wordFlag(a.cli.Flag("color", "When to use colour (default: auto, at a terminal)").Default("auto"), &a.color, "auto", "always", "never")
	yesFlag(a.cli.Flag("unattended", "Called by a timer: a lock, a pause or a standby role is no failure").Envar("PROVISION_UNATTENDED"), &a.unattended)
}

// declarations lists the commands in the order --help shows them.
var declarations = []func(*app){
	(*app).once,
	(*app).node,
	(*app).watch,
	(*app).discover,
	(*app).status,
	(*app).reset,
	(*app).restart,
	(*app).shutdown,
	(*app).pause,
	(*app).resume,
	(*app).initialize,
	(*app).configure,
	(*app).helper,
	(*app).lab,
	(*app).version,
	(*app).completion,
}

func (a *app) parse(args []string) error {
	if _, err := a.cli.Parse(args); err != nil {
		return usageError{a.withSuggestion(err)}
	}
	if os.Getenv("INVOCATION_ID") != "" && !output.IsTerminal(a.Err) { // systemd is the caller, not a shell that it started
		a.unattended = true
	}
	return nil
}

// chooses makes a command's action note what is to be run, and nothing else.
func (a *app) chooses(c *fisk.CmdClause, run func(stop context.Context) error) {
	c.Action(func(*fisk.ParseContext) error {
		a.run = run
		return nil
	})
}

// usageError is a command line that cannot be run.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// fail shows err, once and in one place, and returns its exit code. A result
// that was lost on the way to stdout makes a failure of what was none.
func (a *app) fail(err error) int {
	code := exitCode(err, a.unattended)
	lost := a.result.err
	var quiet silent
	ordinary := a.unattended && errors.Is(err, errNothing) // met every minute: not worth a mail of cron's
	if err != nil && !errors.As(err, &quiet) && !ordinary {
		a.say("error", err.Error())
		if errors.Is(err, lost) {
			lost = nil
		}
	}
	if lost != nil && !errors.Is(lost, syscall.EPIPE) { // a reader such as head had enough
		a.say("error", lost.Error())
	}
	if code == exitDone && a.result.err != nil {
		return exitRun
	}
	return code
}

// say tells on stderr what no run's logger does: a line for people, or one that
// goes with the other lines of --log-format json.
func (a *app) say(level, text string) {
	text = a.redactor().Replace(text)
	if a.logFormat != "json" {
		fmt.Fprintf(a.Err, "provision: %s\n", text)
		return
	}
	line, _ := json.Marshal(map[string]string{"level": level, "msg": text, "time": time.Now().Format(time.RFC3339)})
	fmt.Fprintf(a.Err, "%s\n", line)
}

// silent is an error whose report was already shown.
type silent struct{ error }

func (s silent) Unwrap() error { return s.error }
