package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// tree is a module's source.
type tree struct {
	fset     *token.FileSet
	packages []*unit             // in the order of their paths
	checked  []*packages.Package // what the Go tool builds of them, tests included
}

// unit is one package: its files, and the types of those that this operating
// system builds.
type unit struct {
	name  string // its path within the module; "." for the root
	files []*file
	typed *packages.Package
}

// file is one source file, parsed with its comments.
type file struct {
	name  string // without directory
	lines int
	test  bool
	goos  bool // for certain operating systems only
	ast   *ast.File
}

// aside are the packages that are not a part of what runs in production.
func (u *unit) aside() bool {
	return slices.Contains([]string{"internal/lab", "internal/fleet", "internal/fake", "internal/bench", "internal/crash"}, u.name)
}

// product returns the packages that run in production.
func (t *tree) product() []*unit {
	return slices.DeleteFunc(slices.Clone(t.packages), (*unit).aside)
}

// unit returns the package of that name, or an empty one.
func (t *tree) unit(name string) *unit {
	for _, u := range t.packages {
		if u.name == name {
			return u
		}
	}
	return &unit{name: name}
}

// code returns the files that are not tests.
func (u *unit) code() []*file {
	return slices.DeleteFunc(slices.Clone(u.files), func(f *file) bool { return f.test })
}

// lines returns how many lines the files have together.
func lines(files []*file) int {
	sum := 0
	for _, f := range files {
		sum += f.lines
	}
	return sum
}

// load reads every package of the module in dir.
func load(dir string) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	var err error
	t.checked, err = packages.Load(&packages.Config{
		Dir:   dir,
		Fset:  t.fset,
		Tests: true,
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedModule | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
	}, "./...")
	if err != nil {
		return nil, err
	}
	for _, p := range t.checked {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		if p.ID != p.PkgPath || strings.HasSuffix(p.PkgPath, ".test") {
			continue // a package with its tests, or the program that runs them
		}
		if p.Module == nil {
			return nil, errors.New(p.PkgPath + " belongs to no module")
		}
		u := &unit{name: within(p.Module.Path, p.PkgPath), typed: p}
		if u.files, err = readFiles(t.fset, p.Dir); err != nil {
			return nil, err
		}
		t.packages = append(t.packages, u)
	}
	slices.SortFunc(t.packages, func(a, b *unit) int { return strings.Compare(a.name, b.name) })
	return t, nil
}

// within returns a package's path inside its module.
func within(module, pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// goosFile matches files whose name restricts them to operating systems.
var goosFile = regexp.MustCompile(`_(linux|unix|other|windows|darwin)(_test)?\.go$`)

// readFiles parses the Go files of one directory, tests among them.
func readFiles(fset *token.FileSet, dir string) ([]*file, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*file
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, &file{
			name:  filepath.Base(name),
			lines: bytes.Count(text, []byte("\n")),
			test:  strings.HasSuffix(name, "_test.go"),
			goos:  goosFile.MatchString(name) || bytes.Contains(text, []byte("\n//go:build ")) || bytes.HasPrefix(text, []byte("//go:build ")),
			ast:   parsed,
		})
	}
	return files, nil
}
