package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/sirupsen/logrus"
)

// maxLogText bounds, in runes, a message or field of a log line.
const maxLogText = 8000

// LogOptions select the destination and the form of log lines.
type LogOptions struct {
	Level    string // debug, info, warn, error
	Format   string // text or json
	File     string // appended to; empty: Stderr
	Stderr   io.Writer
	Redactor Redactor // applies to the lines of libraries, too
}

// NewLogger returns the one logger of a process, which is also go-choria's
// CustomLogger. Every text is redacted and escaped. The returned function closes
// the log file, if there is one.
func NewLogger(o LogOptions) (*logrus.Logger, func() error, error) {
	level, err := logrus.ParseLevel(o.Level)
	if err != nil {
		return nil, nil, fmt.Errorf("loglevel %q: use debug, info, warn or error", o.Level)
	}
	logger := logrus.New()
	logger.SetLevel(level)
	logger.SetFormatter(&redactingFormatter{formatter(o.Format), o.Redactor})
	if o.File == "" {
		logger.SetOutput(o.Stderr)
		return logger, func() error { return nil }, nil
	}
	file, err := os.OpenFile(o.File, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, nil, fmt.Errorf("logfile: %w", err)
	}
	logger.SetOutput(file)
	return logger, file.Close, nil
}

func formatter(format string) logrus.Formatter {
	if format == "json" {
		return &logrus.JSONFormatter{}
	}
	return &logrus.TextFormatter{DisableColors: true, FullTimestamp: true}
}

// Sinks are the observers that show the results of nodes on stderr or in the log.
type Sinks struct {
	Log   bool // LogEvents logs results and warnings
	Lines bool // LineLog writes to stderr
	Live  bool // Live draws on stderr
}

// SelectSinks decides which observers write to stderr, so that no event is shown
// twice. A log file has everything, and stderr has lines or the live view as
// well. Without a log file the log shares stderr: JSON log lines must be complete
// for the program that reads them, so nothing else is shown; text log lines leave
// the results to the lines or the live view.
func SelectSinks(logFile, logFormat string, terminal bool) Sinks {
	switch {
	case logFile == "" && logFormat == "json":
		return Sinks{Log: true}
	default:
		return Sinks{Log: logFile != "", Lines: !terminal, Live: terminal}
	}
}

// redactingFormatter redacts and escapes the texts of a log line before it formats
// the line. A field that is neither a text nor a number is made a text first, so
// that no type carries a secret past it.
type redactingFormatter struct {
	logrus.Formatter
	redactor Redactor
}

// Format implements logrus.Formatter.
func (f *redactingFormatter) Format(entry *logrus.Entry) ([]byte, error) {
	safe := *entry
	safe.Message = f.text(entry.Message)
	safe.Data = make(logrus.Fields, len(entry.Data))
	for key, value := range entry.Data {
		safe.Data[Escape(key)] = f.field(value)
	}
	return f.Formatter.Format(&safe)
}

func (f *redactingFormatter) field(value any) any {
	switch v := value.(type) {
	case string:
		return f.text(v)
	case bool, int, int32, int64, uint, uint32, uint64, float64:
		return v
	default:
		return f.text(fmt.Sprint(v))
	}
}

func (f *redactingFormatter) text(text string) string {
	return EscapeTo(f.redactor.Replace(strings.TrimRight(text, "\r\n")), maxLogText)
}

// LineLog observes a run where the terminal cannot move the cursor: it writes one
// plain line for each finished node and each warning, without escape sequences.
type LineLog struct {
	w io.Writer
	LineLogOptions
}

// LineLogOptions leave lines out. Quiet leaves out nodes that are skipped because
// they are on hold or claimed by another run, which a timer meets every minute.
// Brief leaves out errors, where the summary follows in the same stream.
type LineLogOptions struct{ Quiet, Brief bool }

// NewLineLog returns an observer that writes to w.
func NewLineLog(w io.Writer, o LineLogOptions) *LineLog { return &LineLog{w, o} }

// Observe implements Observer.
func (l *LineLog) Observe(event any) {
	switch e := event.(type) {
	case discovery.Refused:
		_, hint := Hint(e.Err)
		l.line("warning: %s: %s (%s). %s", EscapeTo(e.Identity, maxName), escapeError(e.Err), plural(e.Count, "answer"), hint)
	case provision.Notice:
		l.line("warning: %s: %s: %s", EscapeTo(e.Node, maxName), e.Step, EscapeTo(e.Text, maxText))
	case provision.NodeDone:
		n := nodeOf(e.Result)
		if l.Quiet && isOrdinarySkip(n) {
			return
		}
		if l.Brief && n.Error != "" {
			n.Error, n.Version = "", ""
		}
		l.line("%s", nodeLine(n))
	}
}

func (l *LineLog) line(format string, args ...any) {
	_, _ = fmt.Fprintln(l.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// nodeLine returns the result of a node on one line: identity, outcome, step,
// duration and reason.
func nodeLine(n Node) string {
	text := n.Identity + ": " + n.Outcome
	if n.Step != "" {
		text += " at " + n.Step
	}
	if n.Duration > 0 {
		text += " after " + FormatDuration(FromSeconds(n.Duration))
	}
	if more := detail(n); more != "" {
		text += ": " + more
	}
	return text
}
