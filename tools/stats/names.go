package main

import (
	"fmt"
	"go/types"
	"slices"
	"strconv"
)

// given are the names of methods that interfaces of the standard library ask for.
var given = []string{"Close", "Error", "String", "Unwrap", "Write"}

// measureNames counts the names that three packages or more declare at package
// level or as methods: a reader of one takes it for the other.
func measureNames(t *tree) []row {
	const many = 3
	in := map[string]map[string]bool{}
	for _, u := range t.packages {
		for _, object := range u.typed.TypesInfo.Defs {
			if object == nil || object.Pkg() == nil || !declared(object) {
				continue
			}
			if in[object.Name()] == nil {
				in[object.Name()] = map[string]bool{}
			}
			in[object.Name()][u.name] = true
		}
	}
	var shared []string
	for name, packages := range in {
		if len(packages) >= many && name != "main" && name != "_" && !slices.Contains(given, name) {
			shared = append(shared, name)
		}
	}
	slices.Sort(shared)
	return []row{{fmt.Sprintf("names defined in %d packages or more", many), listed(shared), "10"}}
}

// measureNode counts the fields of a node's state.
func measureNode(t *tree) []row {
	now := "no such type"
	if u := t.unit("provision"); u.typed != nil {
		if object := u.typed.Types.Scope().Lookup("node"); object != nil {
			if s, ok := object.Type().Underlying().(*types.Struct); ok {
				now = strconv.Itoa(s.NumFields())
			}
		}
	}
	return []row{{"fields of node", now, "14"}}
}
