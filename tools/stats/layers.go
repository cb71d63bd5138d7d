package main

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
)

// graph has a weight for each pair of files, the first of which refers to
// declarations of the second: how many.
type graph map[string]map[string]int

// measureLayers orders the files of provision so that they refer downwards, and
// counts the declarations that are referred to against that order. The Go
// compiler refuses cycles between packages.
func measureLayers(t *tree) []row {
	u := t.unit("provision")
	if u.typed == nil {
		return nil
	}
	g := references(t.fset, u)
	return []row{{"references in provision against its file layers; import cycles", fmt.Sprintf("%d; 0", against(g, layers(g))), "0; 0"}}
}

// references builds the graph of one package's files.
func references(fset *token.FileSet, u *unit) graph {
	g := graph{}
	seen := map[[2]string]map[types.Object]bool{}
	for name, object := range u.typed.TypesInfo.Uses {
		if object.Pkg() != u.typed.Types || !declared(object) {
			continue
		}
		from, to := fileAt(fset, name.Pos()), fileAt(fset, object.Pos())
		if g[from] == nil {
			g[from] = map[string]int{}
		}
		pair := [2]string{from, to}
		if from == to || seen[pair][object] {
			continue
		}
		if seen[pair] == nil {
			seen[pair] = map[types.Object]bool{}
		}
		seen[pair][object] = true
		g[from][to]++
	}
	return g
}

// declared reports whether an object is a declaration of its file: at package
// level, or a method.
func declared(object types.Object) bool {
	if f, ok := object.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return object.Parent() == object.Pkg().Scope()
}

func fileAt(fset *token.FileSet, at token.Pos) string {
	return filepath.Base(fset.Position(at).Filename)
}

// layers orders the files. It removes, time and again, a file that no remaining
// one refers to, or that refers to none; in a cycle, the one that refers to most
// and is referred to least. The best order is too costly to find; this one is
// close to it, and the same for the same source.
func layers(g graph) []string {
	left := map[string]bool{}
	for from, tos := range g {
		left[from] = true
		for to := range tos {
			left[to] = true
		}
	}
	var top, bottom []string
	for len(left) > 0 {
		best, score, sink := "", 0, ""
		for _, f := range slices.Sorted(maps.Keys(left)) {
			out, in := weights(g, left, f)
			if out == 0 {
				sink = f
				break
			}
			if in == 0 {
				best = f
				break
			}
			if best == "" || out-in > score {
				best, score = f, out-in
			}
		}
		if sink != "" {
			bottom = append(bottom, sink)
			delete(left, sink)
			continue
		}
		top = append(top, best)
		delete(left, best)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// weights returns how much a file refers to the files that are left, and they
// to it.
func weights(g graph, left map[string]bool, f string) (out, in int) {
	for other := range left {
		out += g[f][other]
		in += g[other][f]
	}
	return out, in
}

// against returns the weight of the references that point upwards in an order.
func against(g graph, order []string) int {
	sum := 0
	for low, from := range order {
		for _, to := range order[:low] {
			sum += g[from][to]
		}
	}
	return sum
}
