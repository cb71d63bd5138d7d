package output

import (
	"errors"
	"strings"
	"testing"
)

// A report in shared records may be another program's: a few bytes must not
// become gigabytes.
func TestReportThatUnpacksToTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	text := `{"schema_version":1,"nodes":[]` + strings.Repeat(" ", 5000) + `}`
	for _, tt := range []struct {
		name  string
		limit int64
		want  string
	}{
		{"within the limit", int64(len(text)), ""},
		{"beyond the limit", int64(len(text)) - 1, "it unpacks to more than 5030 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := readReport(packed([]byte(text)), tt.limit)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case tt.want != "" && (!errors.Is(err, ErrUnreadableReport) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}
