package main

import (
	"fmt"
	"strconv"
	"strings"
)

// small is the number of lines below which a file holds a fragment.
const small = 40

// measureLines counts the lines of what runs in production.
func measureLines(t *tree) []row {
	sum := 0
	for _, u := range t.product() {
		sum += lines(u.code())
	}
	return []row{
		{"product lines", strconv.Itoa(sum), "15500"},
		{"product lines of installstate", strconv.Itoa(lines(t.unit("provision/installstate").code())), "1300"},
	}
}

// measureFiles counts files.
func measureFiles(t *tree) []row {
	var rows []row
	for _, p := range []struct{ name, target string }{{"provision", "16"}, {"commands", "22"}, {"provision/installstate", "10"}} {
		rows = append(rows, row{"files of " + p.name, strconv.Itoa(len(t.unit(p.name).code())), p.target})
	}
	var fragments []string
	for _, u := range t.packages {
		for _, f := range u.code() {
			if f.lines < small && !f.goos {
				fragments = append(fragments, u.name+"/"+f.name)
			}
		}
	}
	return append(rows, row{fmt.Sprintf("files under %d lines, except GOOS files", small), listed(fragments), "0"})
}

// measureTests compares the lines of tests with those they test, by package.
func measureTests(t *tree) []row {
	var rows []row
	for _, u := range t.product() {
		code := lines(u.code())
		if code == 0 {
			continue
		}
		ratio := float64(lines(u.files)-code) / float64(code)
		rows = append(rows, row{"test lines per product line of " + u.name, strconv.FormatFloat(ratio, 'f', 2, 64), "at least 1.2"})
	}
	return rows
}

// listed returns how many names there are, and the names when they are few.
func listed(names []string) string {
	const few = 5
	if len(names) == 0 || len(names) > few {
		return strconv.Itoa(len(names))
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}
