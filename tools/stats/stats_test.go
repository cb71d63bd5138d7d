package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTreeIsMeasured(t *testing.T) {
	t.Parallel()
	measured, err := load("testdata/tree")
	if err != nil {
		t.Fatal(err)
	}
	want := []row{
		{"product lines", "71", "15500"}, // all but lab and the test
		{"product lines of installstate", "4", "1300"},
		{"files of provision", "3", "16"},
		{"files of commands", "2", "22"}, // with the one for Linux
		{"files of provision/installstate", "1", "10"},
		{"files under 40 lines, except GOOS files", "8", "0"},
		// the one is start of commands; main, what Secret has and the other starts
		// are used nowhere, the rest at two places or more
		{"functions used exactly once", "9 % of 11", "30 %"},
		{"function length: median", "1", "9-12"},
		{"function length: p90", "7", "25-35"},
		{"function length: max", "15 (provision.Run)", "60"},
		{"cyclomatic complexity: max", "7 (provision.Run)", "12"},
		{"names defined in 3 packages or more", "2 (Run, start)", "10"},
		{"references in provision against its file layers; import cycles", "1; 0", "0; 0"},
		{"fields of node", "3", "14"},
		{"mentions of dry in step files", "1", "0"},
		{`"****" literals`, "1", "1"}, // the lab's is none of the product
		{"comment lines with nobody, whoever, stranger", "3", "0"},
		{"test lines per product line of .", "0.00", "at least 1.2"},
		{"test lines per product line of commands", "0.58", "at least 1.2"},
		{"test lines per product line of config", "0.00", "at least 1.2"},
		{"test lines per product line of provision", "0.00", "at least 1.2"},
		{"test lines per product line of provision/installstate", "0.00", "at least 1.2"},
	}
	if diff := cmp.Diff(want, measure(measured), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestSubjectsAreMeasured(t *testing.T) {
	t.Parallel()
	subjects := []string{
		"config: read it",
		"output, provision: say it",
		"config: " + strings.Repeat("é", 72-len("config: ")),
		"config: " + strings.Repeat("é", 73-len("config: ")),
		"Read the file: all of it",
	}
	for range 46 {
		subjects = append(subjects, "Say what it does")
	}
	want := []row{
		{"subjects over 72 characters, all commits", "1 of 51", ""},
		{"subjects without area, all commits", "47 of 51", ""},
		{"subjects over 72 characters, the last 50 commits", "1 of 50", "0"},
		{"subjects without area, the last 50 commits", "46 of 50", "0"},
	}
	if diff := cmp.Diff(want, measureSubjects(subjects), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestCycleIsOrderedByItsWeights(t *testing.T) {
	t.Parallel()
	g := graph{
		"a": {"b": 5, "c": 1},
		"b": {"c": 4},
		"c": {"a": 2, "d": 9},
		"d": {},
	}
	order := layers(g)
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, order); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if got := against(g, order); got != 2 {
		t.Errorf("got %d references against the order, want the 2 from c to a", got)
	}
}

func TestColumnsAreAligned(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := write(&out, []row{{"a long measure", "1", "2"}, {"short", "100", "0"}}); err != nil {
		t.Fatal(err)
	}
	want := "MEASURE         NOW  TARGET\na long measure  1    2\nshort           100  0\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestBrokenTreeIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := load("testdata/none"); err == nil {
		t.Error("got no error for a directory that does not exist")
	}
}
