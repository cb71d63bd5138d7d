package lab

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAJournalNobodyWroteToIsEmptyAndAHalfLineIsNotRead(t *testing.T) {
	t.Parallel()
	j := journal{t.TempDir()}
	if list, err := j.read(); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v before the first entry, want none", list, err)
	}
	if err := j.write(Action{Name: "rpcutil#inventory"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.dir, journalFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"action":"half`...), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := j.read(); err != nil || len(list) != 1 || list[0].Name != "rpcutil#inventory" {
		t.Errorf("got %v, %v, want the whole line", list, err)
	}
}
