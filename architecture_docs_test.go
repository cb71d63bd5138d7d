package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is the document that shows every package.
const page = "docs/architecture.md"

func TestArchitectureShowsEveryPackage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range pictureProblems(string(text), readPackages(t)) {
		t.Error(problem)
	}
	if lines := strings.Count(string(text), "\n"); lines > 90 {
		t.Errorf("%s has %d lines, want one page: depth belongs in docs/internals.md", page, lines)
	}
}

func TestFalsePicturesAreReported(t *testing.T) {
	t.Parallel()
	imports := importsOf{
		".":         {module + "/commands": {"main.go"}},
		"commands":  {module + "/a/config": {"run.go"}},
		"a/config":  {},
		"discovery": {},
	}
	for name, tc := range map[string]struct{ picture, want string }{
		"all":           {"root[\"main.go\"] --> c[\"commands\"]\nc --> conf[\"a/config\"]\nd[\"discovery\"] -. tests .-> conf", ""},
		"several":       {"root[\"main.go\"] --> c[\"commands\"]\nc --> conf[\"a/config\"] & d[\"discovery\"]", "commands does not import discovery"},
		"one missing":   {"root[\"main.go\"] --> c[\"commands\"]\nc --> conf[\"a/config\"]", "discovery is missing"},
		"one too many":  {"root[\"main.go\"] --> c[\"commands\"]\nc --> conf[\"a/config\"]\nd[\"discovery\"]\no[\"old\"]", "there is no package old"},
		"wrong way":     {"c[\"commands\"] --> root[\"main.go\"]\nconf[\"a/config\"]\nd[\"discovery\"]", "commands does not import ."},
		"unnamed":       {"root[\"main.go\"] --> c[\"commands\"]\nc --> conf[\"a/config\"]\nd[\"discovery\"] -. tests .-> x", "x has no label"},
		"other picture": {"```\n```mermaid\nroot[\"main.go\"]", "2 pictures"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pictureProblems("text\n```mermaid\nflowchart TD\n"+tc.picture+"\n```\n", imports)
			if tc.want == "" && len(got) > 0 {
				t.Errorf("got %q, want no problem", got)
			}
			if tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("got %q, want one problem that contains %q", got, tc.want)
			}
		})
	}
}

// readPackages returns the packages of the module with their imports, those
// among them that have only tests.
func readPackages(t *testing.T) importsOf {
	t.Helper()
	found := readImports(t)
	for _, r := range packageRules {
		if tests, err := os.ReadDir(r.pkg); err == nil && len(tests) > 0 && found[r.pkg] == nil {
			found[r.pkg] = map[string][]string{}
		}
	}
	return found
}

var (
	picture  = regexp.MustCompile("(?s)```mermaid\n(.*?)```")
	labelled = regexp.MustCompile(`(\w+)\["([^"]+)"\]`)
	arrow    = regexp.MustCompile(`^\s*(\w+)\s+(-->|-\. tests \.->)\s+(\w+(?: & \w+)*)\s*$`)
)

// pictureProblems returns what the document's picture leaves out or shows
// falsely: packages, and imports between them.
func pictureProblems(text string, imports importsOf) []string {
	pictures := picture.FindAllStringSubmatch(text, -1)
	if len(pictures) != 1 {
		return []string{fmt.Sprintf("%s has %d pictures, want one", page, len(pictures))}
	}
	labels := map[string]string{}
	for _, found := range labelled.FindAllStringSubmatch(pictures[0][1], -1) {
		labels[found[1]] = strings.Replace(found[2], "main.go", ".", 1)
	}
	problems := packageProblems(labels, imports)
	for line := range strings.Lines(labelled.ReplaceAllString(pictures[0][1], "$1")) {
		problems = append(problems, arrowProblems(line, labels, imports)...)
	}
	return problems
}

// packageProblems compares the picture's labels with the packages.
func packageProblems(labels map[string]string, imports importsOf) []string {
	var shown, problems []string
	for _, label := range labels {
		shown = append(shown, label)
		if imports[label] == nil {
			problems = append(problems, fmt.Sprintf("%s: there is no package %s", page, label))
		}
	}
	for pkg := range imports {
		if !slices.Contains(shown, pkg) {
			problems = append(problems, fmt.Sprintf("%s: %s is missing in the picture", page, pkg))
		}
	}
	return problems
}

// arrowProblems returns the arrows of one line that are no imports. Those of
// tests are not checked.
func arrowProblems(line string, labels map[string]string, imports importsOf) []string {
	found := arrow.FindStringSubmatch(line)
	if found == nil {
		return nil
	}
	var problems []string
	from := labels[found[1]]
	for to := range strings.SplitSeq(found[3], " & ") {
		switch {
		case labels[to] == "":
			problems = append(problems, fmt.Sprintf("%s: %s has no label", page, to))
		case found[2] == "-->" && imports[from][module+"/"+labels[to]] == nil:
			problems = append(problems, fmt.Sprintf("%s: %s does not import %s", page, from, labels[to]))
		}
	}
	return problems
}
