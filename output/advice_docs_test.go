package output

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshootingListsEveryHint holds docs/troubleshooting.md to the table of
// causes: each message has a row with its id and its advice, and each id in the
// page is one of the table's.
func TestTroubleshootingListsEveryHint(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, c := range causes {
		row := "\n| `" + c.err.Error() + "` | `" + c.id + "` | " + c.hint
		if !strings.Contains(page, row) {
			t.Errorf("docs/troubleshooting.md lacks the row%s", row)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `[^`]+` \\| `([a-z0-9_]+)` \\|").FindAllStringSubmatch(page, -1)
	for _, row := range rows {
		if _, known := causeOf(row[1]); !known {
			t.Errorf("docs/troubleshooting.md explains the cause %s, which does not exist", row[1])
		}
	}
	if len(rows) != len(causes) {
		t.Errorf("docs/troubleshooting.md has %d rows of causes, want %d", len(rows), len(causes))
	}
}
