package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"

	"golang.org/x/sync/errgroup"
)

// runHosts runs the command as every host at the same time. The figures are
// those of all of them together; the time is that of the last one. A host that is
// to be killed ends when half of the nodes are configured; the others then run
// once more, since what it had claimed was not free at their first pass.
func runHosts(ctx context.Context, site *lab.Lab, l load) (sum figures, err error) {
	began := time.Now()
	all := make([]figures, l.hosts)
	var group errgroup.Group
	for i := range l.hosts {
		own := l
		own.env = append(append([]string{}, l.env...), site.HostExports(i)...)
		victim := l.kill && i == l.hosts-1
		group.Go(func() (err error) {
			if victim {
				return killed(ctx, site, own)
			}
			all[i], err = run(ctx, site, own)
			if err == nil && l.kill {
				err = untilDone(ctx, site, own, &all[i])
			}
			return err
		})
	}
	err = group.Wait()
	for _, f := range all {
		sum.cpu += f.cpu
		sum.memory = max(sum.memory, f.memory)
		sum.peak = max(sum.peak, f.peak)
	}
	sum.wall = time.Since(began)
	return sum, err
}

// killed runs the command and kills it when half of the nodes are in service.
func killed(ctx context.Context, site *lab.Lab, l load) error {
	bounded, kill := context.WithCancel(ctx)
	defer kill()
	go func() {
		for bounded.Err() == nil {
			report, err := site.Simulated()
			if err == nil && report.InService() >= l.nodes/2 {
				kill() // exec.CommandContext sends SIGKILL
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	if _, err := run(bounded, site, l); err == nil {
		return fmt.Errorf("the host to be killed was done before half of the nodes were")
	}
	return ctx.Err()
}

// untilDone repeats the command while nodes wait: those that a killed host had
// claimed are free when its session has ended.
func untilDone(ctx context.Context, site *lab.Lab, l load, f *figures) error {
	for range 20 {
		report, err := site.Simulated()
		if err != nil || report.InService() == l.nodes {
			return err
		}
		time.Sleep(3 * time.Second)
		again, err := run(ctx, site, l)
		f.cpu += again.cpu
		f.memory = max(f.memory, again.memory)
		if err != nil {
			return err
		}
	}
	return nil
}

// recovered reports whether a kill did no harm: every node restarted with its last
// configuration, although one that was configured when the kill came was
// configured again.
func recovered(r fleet.Report) bool {
	for _, g := range r.Groups {
		if g.More > 0 || g.Restarted != g.Nodes {
			return false
		}
	}
	return len(r.Problems) == 0
}

// slowHelper writes a helper that takes 300 ms longer than the bench's own.
func (b *bench) slowHelper() (string, error) {
	path, err := filepath.Abs(b.helper)
	if err != nil {
		return "", err
	}
	script := filepath.Join(b.dir, "slow-helper.sh")
	text := "#!/bin/sh\nsleep 0.3\nexec '" + path + "' \"$@\"\n"
	return script, os.WriteFile(script, []byte(text), 0o700)
}

// scaleOut relates two and three hosts to one: ten workers each, a helper that
// takes 300 ms.
func scaleOut(ctx context.Context, b *bench, t *table) error {
	helper, err := b.slowHelper()
	if err != nil {
		return err
	}
	l := load{enrollment: lab.Issuer, nodes: 1200, command: b.ours(10), helper: helper}
	var one float64
	for hosts, times := range []float64{0, 1, 1.9, 2.8} {
		if hosts == 0 {
			continue
		}
		l.hosts = hosts
		runs, err := b.repeat(ctx, l)
		if err != nil {
			return err
		}
		m := middle(runs)
		if hosts == 1 {
			one = m.perSecond()
			t.add("1,200 nodes, shared records, 1 host, helper of 300 ms", "", fmt.Sprintf("%.1f nodes/s (%s), %.2f ms CPU per node", one, all(runs), ms(m.perNode())), "")
			continue
		}
		ratio := m.perSecond() / one
		t.add(fmt.Sprintf("the same, %d hosts", hosts), fmt.Sprintf("at least %.1f times one", times),
			fmt.Sprintf("%.2f times: %.1f nodes/s (%s), %.2f ms CPU per node", ratio, m.perSecond(), all(runs), ms(m.perNode())), verdict(ratio >= times))
	}
	return nil
}

// shared has three hosts provision 50,000 nodes and kills one of them half way.
func shared(ctx context.Context, b *bench, t *table) error {
	l := load{
		enrollment: lab.Issuer, nodes: 50_000, hosts: 3, kill: true, command: b.ours(10), mayFail: true,
		keys: map[string]any{"interval": "1h", "helper_mode": "persistent"},
	}
	f, err := b.measure(ctx, l)
	if err != nil {
		return err
	}
	t.add("50,000 nodes, three hosts, one killed half way", "all done", fmt.Sprintf("%d provisioned in %v, %d MiB a host", f.up, f.wall.Round(time.Second), f.memory>>20), verdict(f.up == l.nodes))
	return nil
}
