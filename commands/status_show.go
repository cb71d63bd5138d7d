package commands

import (
	"fmt"
	"strings"
	"time"

	"choria-provision/output"
	"choria-provision/provision"
)

// maxStates bounds how many nodes of one state are shown; JSON has all.
const maxStates = 20

func showStatus(p *output.Page, d statusDocument) {
	for _, problem := range d.Problems {
		p.Warning(problem)
	}
	p.Pairs(append(d.lastRunPairs(),
		output.Pair{Name: "now", Value: d.runningText()},
		d.pausePair(),
		output.Pair{Name: "records", Value: d.Records.String()},
		output.Pair{Name: "state", Value: d.StateDir, Tone: output.Dim},
	)...)
	if d.RunAs != "" {
		p.Pairs(output.Pair{Name: "run as", Value: fmt.Sprintf("runuser -u %s -- provision ...", d.RunAs), Tone: output.Dim})
	}
	for _, state := range stateOrder {
		var nodes []nodeStatus
		for _, node := range d.Nodes {
			if node.State == state {
				nodes = append(nodes, node)
			}
		}
		if len(nodes) > 0 {
			p.Blank()
			showState(p, nodes, d.Now)
		}
	}
}

// showState shows nodes of one state, an advice that several share once.
func showState(p *output.Page, nodes []nodeStatus, now time.Time) {
	p.Heading(fmt.Sprintf("%s: %s", nodes[0].State, count(len(nodes), "node")))
	shown := nodes[:min(len(nodes), maxStates)]
	for i, node := range shown {
		p.Item(1, output.Plain, node.line(now))
		if node.Advice != "" && (i+1 == len(shown) || shown[i+1].Advice != node.Advice) {
			p.Item(2, output.Dim, node.Advice)
		}
	}
	if more := len(nodes) - len(shown); more > 0 {
		p.Item(1, output.Dim, fmt.Sprintf("and %d more: --output json has them all", more))
	}
}

func (n nodeStatus) line(now time.Time) string {
	var parts []string
	if !n.Since.IsZero() {
		parts = append(parts, ago(now, n.Since))
	}
	if n.Holder != nil && n.Holder.PID != 0 {
		parts = append(parts, n.Holder.String())
	}
	if !n.HeldUntil.IsZero() {
		parts = append(parts, "held for another "+output.FormatDuration(n.HeldUntil.Sub(now)))
	}
	line := n.Identity
	if len(parts) > 0 {
		line += " (" + strings.Join(parts, ", ") + ")"
	}
	switch {
	case n.Why == "":
		return line
	case n.Step != "":
		return line + ": " + n.Step + ": " + n.Why
	default:
		return line + ": " + n.Why
	}
}

// lastRunPairs are the last run, or that of each host.
func (d statusDocument) lastRunPairs() (pairs []output.Pair) {
	if d.Host == "" || len(d.Hosts) == 0 {
		return []output.Pair{d.LastRun.pair("last run", d.Now)}
	}
	for _, h := range d.Hosts {
		pair := h.LastRun.pair("last run", d.Now)
		pair.Value = h.Host + ": " + pair.Value
		pairs = append(pairs, pair)
	}
	return pairs
}

func (r *lastRun) pair(name string, now time.Time) output.Pair {
	return output.Pair{Name: name, Value: r.text(now), Tone: r.tone()}
}

// String names the process, and its host beside others.
func (r runningNow) String() string {
	if r.Host == "" {
		return fmt.Sprintf("process %d", r.PID)
	}
	return fmt.Sprintf("process %d on %s", r.PID, r.Host)
}

func (r *lastRun) text(now time.Time) string {
	if r == nil {
		return "none is recorded"
	}
	text := fmt.Sprintf("%s (%s), took %s, exit code %d", r.Started.Local().Format(time.DateTime), ago(now, r.Started),
		output.FormatDuration(output.FromSeconds(r.Duration)), r.ExitCode)
	if r.Site != "" {
		text += ", site " + r.Site
	}
	var counts []string
	for _, outcome := range provision.Outcomes {
		if n := r.Totals.Outcomes[string(outcome)]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	if r.Totals.Unhandled > 0 {
		counts = append(counts, fmt.Sprintf("%d not handled", r.Totals.Unhandled))
	}
	if len(counts) == 0 {
		counts = []string{"no nodes"}
	}
	text += ": " + strings.Join(counts, ", ")
	if r.Error != "" {
		text += "; " + r.Error
	}
	return text
}

func (r *lastRun) tone() output.Tone {
	switch {
	case r == nil, r.ExitCode == exitDone:
		return output.Plain
	case r.ExitCode == exitNodes, r.ExitCode == exitInterrupted:
		return output.Warn
	default:
		return output.Bad
	}
}

func (d statusDocument) runningText() string {
	switch {
	case d.Running == nil:
		return "no run is at work"
	case d.Running.PID == 0:
		return "a run is at work"
	default:
		return fmt.Sprintf("a run is at work: process %d, started %s (%s)", d.Running.PID, d.Running.Started.Local().Format(time.DateTime), ago(d.Now, d.Running.Started))
	}
}

func (d statusDocument) pausePair() output.Pair {
	if d.Pause == nil {
		return output.Pair{Name: "paused", Value: "no"}
	}
	return output.Pair{Name: "paused", Value: describePause(*d.Pause), Tone: output.Warn}
}

func (c recordCounts) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{c.Complete, "complete"}, {c.Installing, "installing"}, {c.Resetting, "resetting"}, {c.Unusable, "unusable"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func ago(now, then time.Time) string {
	if d := now.Sub(then); d >= time.Second {
		return output.FormatDuration(d) + " ago"
	}
	return "just now"
}
