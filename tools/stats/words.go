package main

import (
	"fmt"
	"go/ast"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// stepFile matches the files of the steps, by their names before and after
	// the sequence is split by topic. The loop over them is not one.
	stepFile    = regexp.MustCompile(`^(actions|upgrade|step_\w+)\.go$`)
	dryName     = regexp.MustCompile(`^[dD]ry|Dry`)
	personWords = regexp.MustCompile(`(?i)\b(nobody|whoever|strangers?)\b`)
)

// measureLiterals counts what is to be said in one place: that this is a dry
// run, and how a secret is shown.
func measureLiterals(t *tree) []row {
	dry, masks := 0, 0
	for _, u := range t.product() {
		for _, f := range u.code() {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if u.name == "provision" && stepFile.MatchString(f.name) && dryName.MatchString(n.Name) {
						dry++
					}
				case *ast.BasicLit:
					if n.Value == `"****"` {
						masks++
					}
				}
				return true
			})
		}
	}
	return []row{
		{"mentions of dry in step files", strconv.Itoa(dry), "0"},
		{`"****" literals`, strconv.Itoa(masks), "1"},
	}
}

// measureComments counts the lines of comments that make persons of programs, in
// code and tests alike.
func measureComments(t *tree) []row {
	found := 0
	for _, u := range t.packages {
		for _, f := range u.files {
			for _, group := range f.ast.Comments {
				for _, c := range group.List {
					for line := range strings.Lines(c.Text) {
						if personWords.MatchString(line) {
							found++
						}
					}
				}
			}
		}
	}
	return []row{{"comment lines with nobody, whoever, stranger", strconv.Itoa(found), "0"}}
}

// commitSubjects returns the first lines of the commit messages, newest first.
func commitSubjects(dir string) ([]string, error) {
	cmd := exec.Command("git", "log", "--no-merges", "--format=%s")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git log: %w", err)
	}
	return slices.Collect(strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == '\n' })), nil
}

// area matches a subject in the form "area: what it does".
var area = regexp.MustCompile(`^[a-z][\w/., *-]*: \S`)

// measureSubjects counts the commits whose subjects are too long or name no
// area: in the whole history, and among the latest.
func measureSubjects(subjects []string) []row {
	const latest, longest = 50, 72
	var rows []row
	for _, span := range []struct {
		of       string
		subjects []string
		target   string
	}{
		{"all commits", subjects, ""},
		{fmt.Sprintf("the last %d commits", latest), subjects[:min(latest, len(subjects))], "0"},
	} {
		long, bare := 0, 0
		for _, s := range span.subjects {
			if len([]rune(s)) > longest {
				long++
			}
			if !area.MatchString(s) {
				bare++
			}
		}
		of := fmt.Sprintf(" of %d", len(span.subjects))
		rows = append(rows,
			row{fmt.Sprintf("subjects over %d characters, %s", longest, span.of), strconv.Itoa(long) + of, span.target},
			row{"subjects without area, " + span.of, strconv.Itoa(bare) + of, span.target})
	}
	return rows
}
