package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The Go benchmarks in internal/network that the row of calls compares.
const (
	ourCalls   = "BenchmarkRequest"
	stockCalls = "BenchmarkStockClient"
)

// calls takes the row from what `go test -bench` printed: the callers live in
// that package, beside the tests that hold them against each other.
func calls(_ context.Context, b *bench, t *table) error {
	if b.calls == "" {
		return errors.New("no file with the Go benchmarks was given (-calls)")
	}
	file, err := os.Open(b.calls)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	ours, stock, err := readCalls(file)
	if err != nil {
		return fmt.Errorf("%s: %w", b.calls, err)
	}
	o, s := ours[len(ours)/2], stock[len(stock)/2]
	t.add("calls/s of the caller, 10 at once", "at least 8 times",
		fmt.Sprintf("%.1f times: %.0f calls/s (%s) against %.0f (%s)", o/s, o, rates(ours), s, rates(stock)), verdict(o/s >= 8))
	return nil
}

// readCalls returns the calls/s of both callers, lowest first, at least one each.
func readCalls(from io.Reader) (ours, stock []float64, err error) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		unit := slices.Index(fields, "calls/s")
		if unit < 1 {
			continue
		}
		rate, err := strconv.ParseFloat(fields[unit-1], 64)
		if err != nil {
			return nil, nil, err
		}
		switch name, _, _ := strings.Cut(fields[0], "-"); name { // -2: the processors
		case ourCalls:
			ours = append(ours, rate)
		case stockCalls:
			stock = append(stock, rate)
		}
	}
	if len(ours) == 0 || len(stock) == 0 {
		err = fmt.Errorf("it has %d results of %s and %d of %s, want some of each", len(ours), ourCalls, len(stock), stockCalls)
	}
	slices.Sort(ours)
	slices.Sort(stock)
	return ours, stock, errors.Join(lines.Err(), err)
}

func rates(list []float64) string {
	var texts []string
	for _, rate := range list {
		texts = append(texts, fmt.Sprintf("%.0f", rate))
	}
	return strings.Join(texts, ", ")
}
