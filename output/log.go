package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sirupsen/logrus"
)

// maxLogText bounds, in runes, a message or field of a log line.
const maxLogText = 8000

// LogOptions say where log lines go and how they look.
type LogOptions struct {
	Level  string // debug, info, warn, error
	Format string // text or json
	File   string // appended to; empty: Stderr
	Stderr io.Writer
	Mask   Mask // what is never shown, whoever logs it
}

// NewLogger returns the one logger of a process. go-choria takes it as its
// CustomLogger, so that its lines and ours go the same way. Every text is
// escaped. The returned function closes the log file, if there is one.
func NewLogger(o LogOptions) (*logrus.Logger, func() error, error) {
	level, err := logrus.ParseLevel(o.Level)
	if err != nil {
		return nil, nil, fmt.Errorf("loglevel %q: use debug, info, warn or error", o.Level)
	}
	logger := logrus.New()
	logger.SetLevel(level)
	logger.SetFormatter(&careful{formatter(o.Format), o.Mask})
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

// Division says who tells on stderr how nodes fare, so that nobody reads it
// twice.
type Division struct {
	Log   bool // LogEvents tells everything
	Lines bool // Lines writes to stderr
	Live  bool // Live draws on stderr
}

// Divide decides it. A log file hears everything, and people see lines or the
// live view on stderr as well. Without one stderr is shared: JSON log lines
// must be able to stand alone, so they tell everything and nothing else does;
// text log lines leave the nodes to the lines or the live view.
func Divide(logFile, logFormat string, terminal bool) Division {
	switch {
	case logFile == "" && logFormat == "json":
		return Division{Log: true}
	default:
		return Division{Log: logFile != "", Lines: !terminal, Live: terminal}
	}
}

// careful formats log lines after escaping what is in them and masking secrets.
type careful struct {
	logrus.Formatter
	mask Mask
}

// Format implements logrus.Formatter.
func (c *careful) Format(entry *logrus.Entry) ([]byte, error) {
	safe := *entry
	safe.Message = c.text(entry.Message)
	safe.Data = make(logrus.Fields, len(entry.Data))
	for key, value := range entry.Data {
		safe.Data[Escape(key)] = c.field(value)
	}
	return c.Formatter.Format(&safe)
}

func (c *careful) field(value any) any {
	switch v := value.(type) {
	case string:
		return c.text(v)
	case bool, int, int32, int64, uint, uint32, uint64, float64:
		return v
	default:
		return c.text(fmt.Sprint(v))
	}
}

func (c *careful) text(text string) string {
	return EscapeTo(c.mask.Replace(strings.TrimRight(text, "\r\n")), maxLogText)
}
