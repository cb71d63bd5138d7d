package commands

import (
	"strings"
	"testing"
)

// TestTroubleshootingListsEveryRemedy holds docs/troubleshooting.md to what is
// said of a broker that cannot be used.
func TestTroubleshootingListsEveryRemedy(t *testing.T) {
	t.Parallel()
	page := document(t, "../docs/troubleshooting.md")
	plain := strings.ReplaceAll(page, "`", "")
	for _, row := range remedies {
		if !strings.Contains(plain, "\n| "+strings.ReplaceAll(row.cause.Error(), "`", "")) {
			t.Errorf("docs/troubleshooting.md has no row for %q", row.cause)
		}
		if !strings.Contains(strings.ToLower(plain), strings.ToLower(strings.ReplaceAll(row.remedy, "`", ""))) {
			t.Errorf("docs/troubleshooting.md does not say of %q: %s", row.cause, row.remedy)
		}
	}
}
