package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
)

// measureUses counts how many functions and methods exactly one place refers to,
// in code or tests. A call through an interface refers to the interface.
func measureUses(t *tree) []row {
	uses := t.references()
	all, once := 0, 0
	for _, u := range t.packages {
		for _, object := range u.typed.TypesInfo.Defs {
			f, ok := object.(*types.Func)
			if !ok || types.IsInterface(receiver(f)) {
				continue
			}
			all++
			if len(uses[f.FullName()]) == 1 {
				once++
			}
		}
	}
	return []row{{"functions used exactly once", fmt.Sprintf("%d %% of %d", percent(once, all), all), "30 %"}}
}

// references returns the places that refer to each function, by its full name.
// A package is checked with and without its tests: a place counts once.
func (t *tree) references() map[string]map[token.Position]bool {
	uses := map[string]map[token.Position]bool{}
	for _, p := range t.checked {
		for at, object := range p.TypesInfo.Uses {
			f, ok := object.(*types.Func)
			if !ok {
				continue
			}
			name := f.Origin().FullName()
			if uses[name] == nil {
				uses[name] = map[token.Position]bool{}
			}
			uses[name][t.fset.Position(at.Pos())] = true
		}
	}
	return uses
}

// receiver returns the type that a method belongs to; functions have none.
func receiver(f *types.Func) types.Type {
	if r := f.Signature().Recv(); r != nil {
		return r.Type()
	}
	return types.Typ[types.Invalid]
}

func percent(part, all int) int {
	if all == 0 {
		return 0
	}
	return (100*part + all/2) / all
}

// function is a declared function.
type function struct {
	name              string
	lines, complexity int
}

// measureLengths returns how long and how branched functions are.
func measureLengths(t *tree) []row {
	var all []function
	for _, u := range t.packages {
		for _, f := range u.code() {
			all = append(all, functionsOf(t.fset, u, f)...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b function) int { return a.lines - b.lines })
	last := len(all) - 1
	branched := slices.MaxFunc(all, func(a, b function) int { return a.complexity - b.complexity })
	return []row{
		{"function length: median", strconv.Itoa(all[last/2].lines), "9-12"},
		{"function length: p90", strconv.Itoa(all[last*9/10].lines), "25-35"},
		{"function length: max", fmt.Sprintf("%d (%s)", all[last].lines, all[last].name), "60"},
		{"cyclomatic complexity: max", fmt.Sprintf("%d (%s)", branched.complexity, branched.name), "12"},
	}
}

// functionsOf returns the functions that a file declares.
func functionsOf(fset *token.FileSet, u *unit, f *file) []function {
	var found []function
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			found = append(found, function{
				name:       u.name + "." + fn.Name.Name,
				lines:      fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1,
				complexity: complexity(fn),
			})
		}
	}
	return found
}

// complexity counts the paths through a function as gocyclo does: one, and one
// for each branch, loop, case with a condition, && and ||.
func complexity(fn *ast.FuncDecl) int {
	count := 1
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			count++
		case *ast.CaseClause:
			count += min(1, len(n.List))
		case *ast.CommClause:
			if n.Comm != nil {
				count++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}
