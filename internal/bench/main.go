// Command bench measures the product against go-choria's stock clients on one
// machine, in one run, through the same lab, and writes docs/performance.md's
// figures. make bench runs it; no test does.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"syscall"
	"time"

	"choria-provision/commands"
	"choria-provision/internal/lab"
)

// stockVariable makes this program the stock provisioner: NODES WORKERS.
const stockVariable = "PROVISION_BENCH_STOCK"

// profileVariable makes it the product, which writes its CPU profile there.
const profileVariable = "PROVISION_BENCH_PROFILE"

// bench knows the programs that are measured.
type bench struct {
	self, provision, helper string
	profile                 string // file of the CPU profile
	profiled                bool   // it was written
	calls                   string // file of what the Go benchmarks of internal/network printed
	dir                     string // of the labs
	memory                  string // of records that no disk is to slow down
	runs                    int
	alone                   bool // the stock way is left out
}

func main() {
	lab.RunIfChild()
	if err := start(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func start() error {
	if os.Getenv(stockVariable) != "" {
		return playStock(os.Args[1:])
	}
	if file := os.Getenv(profileVariable); file != "" {
		return playProvision(file, os.Args[1:])
	}
	b := &bench{}
	flag.StringVar(&b.provision, "provision", "bin/provision", "the product")
	flag.StringVar(&b.helper, "helper", "bin/tinyhelper", "the helper")
	flag.StringVar(&b.profile, "profile", filepath.Join(os.TempDir(), "provision.pprof"), "where the CPU profile goes")
	flag.IntVar(&b.runs, "runs", 3, "runs of each load; the 50,000 nodes run once")
	flag.BoolVar(&b.alone, "alone", false, "leave the stock way out")
	flag.StringVar(&b.calls, "calls", "", "what the Go benchmarks of internal/network printed")
	doc := flag.String("doc", "", "put the table into this document")
	only := flag.String("only", "", "measure one row only")
	flag.Parse()
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "provision-bench-"); err != nil {
		return err
	}
	spread(b.dir)
	if b.memory, err = os.MkdirTemp("/dev/shm", "provision-bench-"); err != nil {
		return fmt.Errorf("a place for records in memory: %w", err)
	}
	defer func() { _, _ = os.RemoveAll(b.dir), os.RemoveAll(b.memory) }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	on := machine(time.Now())
	var document table
	for _, r := range rows {
		if *only != "" && *only != r.name {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", r.name)
		if err := r.fill(ctx, b, &document); err != nil {
			document.add(r.name, r.target, "not measured: "+err.Error(), "")
		}
	}
	fmt.Print(on, "\n", document.String())
	if *doc == "" {
		return nil
	}
	return b.write(*doc, on, document)
}

// playProvision is the product with a profiler around it.
func playProvision(file string, args []string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	code := commands.Run(commands.Signals(), args, commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	pprof.StopCPUProfile()
	if err := out.Close(); err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

func playStock(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want NODES WORKERS, got %v", args)
	}
	nodes, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return runStock(nodes, workers)
}

// ours and stock are the two ways to provision n nodes.
func (b *bench) ours(workers int, more ...string) []string {
	return append([]string{b.provision, "once", "--workers", strconv.Itoa(workers), "--output", "json"}, more...)
}

func (b *bench) stock(nodes, workers int) []string {
	return []string{"/usr/bin/env", stockVariable + "=1", b.self, strconv.Itoa(nodes), strconv.Itoa(workers)}
}

// repeat measures a load b.runs times and returns the runs, fastest first.
func (b *bench) repeat(ctx context.Context, l load) ([]figures, error) {
	all, err := b.alternate(ctx, l)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// alternate measures several loads b.runs times, by turns, so that a machine
// that changes its pace treats them alike. It returns each one's runs, fastest
// first.
func (b *bench) alternate(ctx context.Context, loads ...load) ([][]figures, error) {
	all := make([][]figures, len(loads))
	for range b.runs {
		for i, l := range loads {
			f, err := b.measure(ctx, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.command[0], err)
			}
			fmt.Fprintf(os.Stderr, "bench:   %s: %d nodes in %v, %v CPU per node, %d MiB, %d connections (%s)\n",
				l.enrollment, f.up, f.wall.Round(time.Millisecond), f.perNode(), f.memory>>20, f.peak, filepath.Base(l.command[0]))
			all[i] = append(all[i], f)
		}
	}
	for _, runs := range all {
		slices.SortFunc(runs, func(a, b figures) int { return int(a.wall - b.wall) })
	}
	return all, nil
}

// middle is the median of a list that is sorted.
func middle(all []figures) figures { return all[len(all)/2] }
