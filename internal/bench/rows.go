package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"
)

// table is a Markdown table of what was measured.
type table struct{ lines []string }

func (t *table) add(what, target, seen, verdict string) {
	t.lines = append(t.lines, fmt.Sprintf("| %s | %s | %s | %s |", what, target, seen, verdict))
}

// String implements fmt.Stringer.
func (t *table) String() string {
	return "| what | target | measured (median; all runs) | |\n|---|---|---|---|\n" + strings.Join(t.lines, "\n") + "\n"
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

// row is one line of the table.
type row struct {
	name, target string
	fill         func(context.Context, *bench, *table) error
}

var rows = []row{
	{"calls", "8 times the stock client", calls},
	{"1,000 nodes, insecure", "5 times the stock way", versus(lab.Insecure, 5, 10, nil)},
	{"1,000 nodes, issuer", "3 times the stock way", versus(lab.Issuer, 3, 8.5, nil)},
	{"1,000 nodes, persistent helper", "12 times the stock way", versus(lab.Insecure, 12, 20, map[string]any{"helper_mode": "persistent"})},
	{"hosts", "1.9 and 2.8 times one host", scaleOut},
	{"50,000 nodes, three hosts", "all done though one is killed", shared},
	{"nobody waits", "under 0.6 s", nobody},
	{"discovery", "", discover},
	{"100 dead among 100 live", "1.5 times the live ones alone", dead},
	{"3,000 nodes, 50 workers", "at most 100 MiB", memory},
	{"profile", "", profiled},
	{"50,000 nodes", "at most 400 MiB, 1.2 times the CPU per node", many},
}

// all tells every run's rate.
func all(list []figures) string {
	var texts []string
	for _, f := range list {
		texts = append(texts, fmt.Sprintf("%.0f", f.perSecond()))
	}
	return strings.Join(texts, ", ")
}

// versus measures 1,000 nodes with 10 workers both ways. Ours is judged as it is
// used, with durable records on the disk. The stock way keeps none: what ours
// comes to with records in memory is told beside it.
func versus(enrollment string, times, lessCPUTimes float64, keys map[string]any) func(context.Context, *bench, *table) error {
	return func(ctx context.Context, b *bench, t *table) error {
		disk := load{enrollment: enrollment, nodes: 1000, command: b.ours(10), keys: keys}
		memory := disk
		memory.inMemory = true
		stock := load{enrollment: enrollment, nodes: 1000, command: b.stock(1000, 10)}
		how := enrollment
		if keys != nil {
			how += ", persistent helper"
		}
		if b.alone {
			seen, err := b.alternate(ctx, disk, memory)
			if err != nil {
				return err
			}
			o, m := middle(seen[0]), middle(seen[1])
			t.add("1,000 nodes, 10 workers, "+how, "", fmt.Sprintf("%.0f nodes/s (%s), %.2f ms CPU per node (%.2f with records in memory), %d MiB, %d connections; the stock way was left out", o.perSecond(), all(seen[0]), ms(o.perNode()), ms(m.perNode()), o.memory>>20, o.peak), "")
			return nil
		}
		seen, err := b.alternate(ctx, stock, disk, memory)
		if err != nil {
			return err
		}
		s, o, m := middle(seen[0]), middle(seen[1]), middle(seen[2])
		ratio := o.perSecond() / s.perSecond()
		t.add("1,000 nodes, 10 workers, "+how, fmt.Sprintf("at least %.0f times", times),
			fmt.Sprintf("%.1f times: %.0f nodes/s (%s) against %.0f (%s)", ratio, o.perSecond(), all(seen[1]), s.perSecond(), all(seen[0])), verdict(ratio >= times))
		t.add("CPU per node, "+how, fmt.Sprintf("at least %.1f times less", lessCPUTimes), lessCPU(s, o), verdict(ms(o.perNode())*lessCPUTimes <= ms(s.perNode())))
		t.add("the same with records in memory", "", lessCPU(s, m), "")
		t.add("broker connections at once, "+how, "one or two", fmt.Sprintf("%d against %d", o.peak, s.peak), verdict(o.peak <= 2))
		t.add("peak memory, "+how, "", fmt.Sprintf("%d MiB against %d MiB", o.memory>>20, s.memory>>20), "")
		return nil
	}
}

func lessCPU(stock, ours figures) string {
	return fmt.Sprintf("%.1f times less: %.2f ms against %.2f ms", ms(stock.perNode())/ms(ours.perNode()), ms(ours.perNode()), ms(stock.perNode()))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func nobody(ctx context.Context, b *bench, t *table) error {
	// the only node is gone once it was discovered, by the run before
	site, err := b.lab(ctx, lab.Options{Enrollment: lab.Issuer, Simulate: 1})
	if err != nil {
		return err
	}
	defer func() { _ = site.Close() }()
	l := load{command: b.ours(10)}
	if _, err := b.measureIn(ctx, site, l); err != nil {
		return err
	}
	var seen []string
	met := true
	for range b.runs {
		f, err := run(ctx, site, l)
		if err != nil {
			return err
		}
		met = met && f.wall < 600*time.Millisecond
		seen = append(seen, fmt.Sprintf("%.2f s", f.wall.Seconds()))
	}
	t.add("a run that finds nobody, issuer", "under 0.6 s", strings.Join(seen, ", "), verdict(met))
	return nil
}

func discover(ctx context.Context, b *bench, t *table) error {
	for _, count := range []int{1, 100, 1000, 10_000} {
		l := load{enrollment: lab.Insecure, nodes: count, any: true, command: []string{b.provision, "discover", "--names"}}
		runs, err := b.repeat(ctx, l)
		if err != nil {
			return err
		}
		t.add(fmt.Sprintf("discover %d nodes, start to exit", count), "", fmt.Sprintf("%.2f s", middle(runs).wall.Seconds()), "")
	}
	return nil
}

func dead(ctx context.Context, b *bench, t *table) error {
	l := load{enrollment: lab.Insecure, nodes: 100, command: b.ours(10)}
	alone, err := b.repeat(ctx, l)
	if err != nil {
		return err
	}
	for _, kind := range []fleet.Kind{fleet.Dead, fleet.Silent} {
		l.nodes, l.faults, l.mayFail = 200, []fleet.Fault{{Kind: kind, Share: 0.5}}, true
		beside, err := b.repeat(ctx, l)
		if err != nil {
			return err
		}
		m, a := middle(beside), middle(alone)
		ratio := m.took.Seconds() / a.took.Seconds()
		t.add(fmt.Sprintf("100 live nodes beside 100 %s ones", kind), "at most 1.5 times the time they take alone",
			fmt.Sprintf("%.1f times: the live ones done in %.2f s against %.2f s; the whole run %.1f s", ratio, m.took.Seconds(), a.took.Seconds(), m.wall.Seconds()),
			verdict(ratio <= 1.5))
	}
	return nil
}

func memory(ctx context.Context, b *bench, t *table) error {
	l := load{enrollment: lab.Insecure, nodes: 3000, command: b.ours(50)}
	runs, err := b.repeat(ctx, l)
	if err != nil {
		return err
	}
	most := int64(0)
	for _, f := range runs {
		most = max(most, f.memory)
	}
	t.add("peak memory, 3,000 nodes, 50 workers", "at most 100 MiB", fmt.Sprintf("%d MiB; %s nodes/s", most>>20, all(runs)), verdict(most <= 100<<20))
	return nil
}

func many(ctx context.Context, b *bench, t *table) error {
	small, err := b.measure(ctx, load{enrollment: lab.Insecure, nodes: 1000, keys: map[string]any{"helper_mode": "persistent"}, command: b.ours(10)})
	if err != nil {
		return err
	}
	big, err := b.measure(ctx, load{enrollment: lab.Insecure, nodes: 50_000, keys: map[string]any{"interval": "1h", "helper_mode": "persistent"}, command: b.ours(10)})
	if err != nil {
		return err
	}
	ratio := ms(big.perNode()) / ms(small.perNode())
	t.add("50,000 nodes in one run, persistent helper", "done", fmt.Sprintf("%d provisioned in %v", big.up, big.wall.Round(time.Second)), verdict(big.up == 50_000))
	t.add("peak memory, 50,000 nodes", "at most 400 MiB", fmt.Sprintf("%d MiB", big.memory>>20), verdict(big.memory <= 400<<20))
	t.add("CPU per node at 50,000", "at most 1.2 times that at 1,000", fmt.Sprintf("%.2f times: %.2f ms against %.2f ms", ratio, ms(big.perNode()), ms(small.perNode())), verdict(ratio <= 1.2))
	return nil
}

// profiled runs the product's own code in a process that profiles itself.
func profiled(ctx context.Context, b *bench, t *table) error {
	l := load{enrollment: lab.Insecure, nodes: 1000, command: append([]string{"/usr/bin/env", profileVariable + "=" + b.profile, b.self}, b.ours(10)[1:]...)}
	f, err := b.measure(ctx, l)
	if err != nil {
		return err
	}
	b.profiled = true
	t.add("profiled run of 1,000 nodes", "", fmt.Sprintf("%.2f ms CPU per node", ms(f.perNode())), "")
	return nil
}
