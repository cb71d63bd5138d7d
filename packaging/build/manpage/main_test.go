package main

import (
	"bytes"
	"os"
	"testing"
)

// TestPageIsCurrent holds docs/provision.yaml.5 to docs/configuration.md.
func TestPageIsCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/provision.yaml.5")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page(text), got) {
		t.Error("docs/provision.yaml.5 is not made from docs/configuration.md as it is: run make man")
	}
}

func TestTablesBecomeTerms(t *testing.T) {
	t.Parallel()
	in := "| key | default | meaning |\n|---|---|---|\n| `a` | `1` | one |\n\n| needed | |\n|---|---|\n| b | two |\n"
	want := "`a` (default: `1`)\n: one\n\n\nb\n: two\n\n"
	if got := listed(in); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
