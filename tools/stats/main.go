// Command stats prints what can be measured of the product's source: its size,
// its functions, its names and its words, each beside its target. It knows
// syntax and types, and nothing of how the product behaves.
//
// Measures of its own are taken by hand, since they follow one call through the
// program: stack frames and files from main to the first call, and the types
// that one node passes through.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	measure, now, target string
}

func main() {
	dir := flag.String("dir", "..", "root of the checkout to measure")
	flag.Parse()
	if err := run(os.Stdout, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "stats:", err)
		os.Exit(1)
	}
}

// run measures the checkout in dir and writes the table to out.
func run(out io.Writer, dir string) error {
	t, err := load(dir)
	if err != nil {
		return err
	}
	subjects, err := commitSubjects(dir)
	if err != nil {
		return err
	}
	return write(out, append(measure(t), measureSubjects(subjects)...))
}

// measure returns the rows of everything but the history.
func measure(t *tree) []row {
	var rows []row
	for _, of := range []func(*tree) []row{
		measureLines, measureFiles, measureUses, measureLengths, measureNames,
		measureLayers, measureNode, measureLiterals, measureComments, measureTests,
	} {
		rows = append(rows, of(t)...)
	}
	return rows
}

// write aligns the rows in three columns.
func write(out io.Writer, rows []row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEASURE\tNOW\tTARGET")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.measure, r.now, r.target)
	}
	return table.Flush()
}
