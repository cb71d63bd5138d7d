package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path that our imports begin with.
const module = "choria-provision"

// importsOf maps each package to its direct imports, and each of these to the
// files that make it. It reads the product's files for every operating system,
// and neither tests nor other modules.
type importsOf map[string]map[string][]string

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	for _, problem := range violations(readImports(t), exceptions) {
		t.Error(problem)
	}
}

func TestEveryRuleHasItsReasonAndKnownNames(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, r := range packageRules {
		if known[r.pkg] {
			t.Errorf("%s has two rows in packageRules", r.pkg)
		}
		known[r.pkg] = true
	}
	name := func(names ...string) {
		for _, n := range names {
			if !known[n] && families[n] == nil {
				t.Errorf("%s is neither a package with a row nor a family", n)
			}
		}
	}
	reason := func(about, text string) {
		if text == "" {
			t.Errorf("the rule about %s has no reason", about)
		}
	}
	for _, r := range packageRules {
		name(append(r.may, r.never...)...)
		reason(r.pkg, r.reason)
	}
	for _, r := range familyRules {
		name(append(r.only, r.family)...)
		reason(r.family, r.reason)
	}
	for _, r := range fileRules {
		name(r.pkg, r.imports)
		reason(r.file, r.reason)
	}
	for _, e := range exceptions {
		name(e.pkg, e.imports)
		reason(e.pkg+" -> "+e.imports, e.goes)
	}
}

func TestBrokenRulesAreReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pkg, imported, file string
		exceptions          []exception
		want                string // a part of the only problem; empty for none
	}{
		"allowed package":          {"discovery", module + "/internal/network", "broadcast.go", nil, ""},
		"foreign package":          {"discovery", "context", "broadcast.go", nil, ""},
		"package of ours":          {"discovery", module + "/config", "match.go", nil, "discovery imports config (match.go): finding nodes"},
		"package without a rule":   {"internal/new", "context", "new.go", nil, "internal/new has no row in packageRules"},
		"family that is banned":    {"config", "github.com/nats-io/nats.go", "check.go", nil, "config imports NATS (check.go): a configuration"},
		"family of other package":  {"internal/lab", "github.com/choria-io/fisk", "lab.go", nil, "internal/lab imports fisk (lab.go): only the command line"},
		"path that only begins so": {"config", "github.com/nats-iot/x", "check.go", nil, ""},
		"the one file":             {"provision", module + "/internal/network", "choria.go", nil, ""},
		"another file":             {"provision", module + "/internal/network", "steps.go", nil, "provision imports internal/network (steps.go): one file"},
		"known exception":          {"discovery", module + "/config", "match.go", []exception{{"discovery", "config", "identity.go"}}, ""},
		"exception of the past":    {"discovery", "context", "match.go", []exception{{"discovery", "config", "identity.go"}}, "the exception discovery -> config is no longer needed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := violations(importsOf{tc.pkg: {tc.imported: {tc.file}}}, tc.exceptions)
			if tc.want == "" && len(got) > 0 {
				t.Errorf("got %q, want no problem", got)
			}
			if tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("got %q, want one problem that contains %q", got, tc.want)
			}
		})
	}
}

// violations returns each import that breaks a rule without being an exception, and
// each exception that no import needs.
func violations(imports importsOf, exceptions []exception) []string {
	var problems []string
	needed := map[int]bool{}
	for pkg, imported := range imports {
		row := slices.IndexFunc(packageRules, func(r packageRule) bool { return r.pkg == pkg })
		if row < 0 {
			problems = append(problems, pkg+" has no row in packageRules: say what it may import, and why")
			continue
		}
		for path, files := range imported {
			name, reason := violation(packageRules[row], path, files)
			if reason == "" {
				continue
			}
			known := slices.IndexFunc(exceptions, func(e exception) bool { return e.pkg == pkg && e.imports == name })
			if known >= 0 {
				needed[known] = true
				continue
			}
			problems = append(problems, fmt.Sprintf("%s imports %s (%s): %s", pkg, name, strings.Join(files, ", "), reason))
		}
	}
	for i, e := range exceptions {
		if !needed[i] {
			problems = append(problems, fmt.Sprintf("the exception %s -> %s is no longer needed: remove it", e.pkg, e.imports))
		}
	}
	slices.Sort(problems)
	return problems
}

// violation returns the rule's name for an import and the reason of the rule that
// it breaks; an empty reason means that it breaks none.
func violation(rule packageRule, imported string, files []string) (name, reason string) {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		return ours, violationByOurs(rule, ours, files)
	}
	for family, prefixes := range families {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return imported == p || strings.HasPrefix(imported, p+"/") }) {
			continue
		}
		if i := slices.IndexFunc(familyRules, func(r familyRule) bool { return r.family == family }); i >= 0 && !slices.Contains(familyRules[i].only, rule.pkg) {
			return family, familyRules[i].reason
		}
		if slices.Contains(rule.never, family) {
			return family, rule.reason
		}
		return family, ""
	}
	return imported, ""
}

// violationByOurs returns the reason of the rule that an import of a package of
// ours breaks.
func violationByOurs(rule packageRule, ours string, files []string) string {
	if !slices.Contains(rule.may, ours) {
		return rule.reason
	}
	for _, r := range fileRules {
		if r.pkg == rule.pkg && r.imports == ours && slices.ContainsFunc(files, func(f string) bool { return f != r.file }) {
			return r.reason
		}
	}
	return ""
}

// readImports parses the product's files. The Go tool would leave out files of
// other operating systems.
func readImports(t *testing.T) importsOf {
	t.Helper()
	found := importsOf{}
	err := walkProduct(func(file string) error { return addImports(found, file) })
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// walkProduct calls visit for each file of the product: for every operating
// system, without tests and without what the Go tool ignores.
func walkProduct(visit func(file string) error) error {
	return filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipDirectory(file)
		case !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"):
			return nil
		}
		return visit(file)
	})
}

// skipDirectory returns fs.SkipDir for what the Go tool ignores, and for modules
// of their own.
func skipDirectory(dir string) error {
	base := filepath.Base(dir)
	if dir == "." {
		return nil
	}
	if base == "testdata" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// addImports adds the imports of one file.
func addImports(found importsOf, file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	pkg := path.Dir(filepath.ToSlash(file))
	if found[pkg] == nil {
		found[pkg] = map[string][]string{}
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		found[pkg][imported] = append(found[pkg][imported], filepath.Base(file))
	}
	return nil
}
