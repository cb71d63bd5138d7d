package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"testing"
)

func TestNoPackageVariableIsWritten(t *testing.T) {
	t.Parallel()
	dirs := map[string][]string{}
	err := walkProduct(func(file string) error {
		dirs[filepath.Dir(file)] = append(dirs[filepath.Dir(file)], file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, files := range dirs {
		fset := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range files {
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		for _, problem := range writtenVariables(fset, dir, parsed) {
			t.Error(problem)
		}
	}
}

func TestWrittenPackageVariablesAreFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ statement, want string }{
		"assigned":            {"count = 1", "count"},
		"incremented":         {"count++", "count"},
		"added to":            {"count += 2", "count"},
		"one of several":      {"_, count = 1, 2", "count"},
		"element":             {"table[0].field = 1", "table"},
		"entry":               {"index[`a`] = 1", "index"},
		"entry deleted":       {"delete(index, `a`)", "index"},
		"emptied":             {"clear(index)", "index"},
		"address passed on":   {"use(&count)", "count"},
		"address of an entry": {"use(&table[0].field)", "table"},
		"loop variable":       {"for count = range 3 {}", "count"},
		"read":                {"use(count, table[0], index[`a`])", ""},
		"local of that name":  {"count := 1; count++", ""},
		"parameter":           {"func(count int) { count++ }(1)", ""},
		"field of that name":  {"var s struct{ count int }; s.count = 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := "package p\nimport _ `unknown/import`\nvar (count int; table []struct{ field int }; index map[string]int)\n" +
				"func use(...any) {}\nfunc f() { " + tc.statement + " }\n"
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if tc.want != "" {
				want = []string{"p.go:5: the package variable " + tc.want + " is written"}
			}
			if got := writtenVariables(fset, "p", []*ast.File{file}); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// withoutImports lets one package be checked by itself: what it imports stays
// unknown, and its own names are resolved all the same.
type withoutImports struct{}

// Import returns an error for every path.
func (withoutImports) Import(string) (*types.Package, error) {
	return nil, errors.New("imports are not read")
}

// writtenVariables returns each place at which a package variable is assigned,
// or at which its address is taken.
func writtenVariables(fset *token.FileSet, dir string, files []*ast.File) []string {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: withoutImports{}, Error: func(error) {}}
	pkg, _ := checker.Check(dir, fset, files, &info) // has an error for each import
	var found []string
	note := func(written ast.Expr) {
		name := root(written)
		if name == nil {
			return
		}
		if v, ok := info.Uses[name].(*types.Var); ok && v.Parent() == pkg.Scope() {
			at := fset.Position(name.Pos())
			found = append(found, fmt.Sprintf("%s:%d: the package variable %s is written", at.Filename, at.Line, name.Name))
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			for _, written := range writes(n) {
				note(written)
			}
			return true
		})
	}
	return found
}

// writes returns the expressions that a node of the syntax tree writes to, or
// takes the address of.
func writes(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		return []ast.Expr{n.Key, n.Value}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if called, ok := n.Fun.(*ast.Ident); ok && (called.Name == "delete" || called.Name == "clear") {
			return n.Args[:1]
		}
	}
	return nil
}

// root returns the variable that an expression is a part of.
func root(e ast.Expr) *ast.Ident {
	for {
		switch part := e.(type) {
		case *ast.Ident:
			return part
		case *ast.SelectorExpr:
			e = part.X
		case *ast.IndexExpr:
			e = part.X
		case *ast.StarExpr:
			e = part.X
		case *ast.ParenExpr:
			e = part.X
		default:
			return nil
		}
	}
}
