package output

import (
	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/sirupsen/logrus"
)

// LogEvents observes a run and logs it: failed nodes as errors, other outcomes as
// info, notices as warnings, attempts and steps at debug level.
type LogEvents struct {
	log   *logrus.Logger
	nodes bool
}

// NewLogEvents returns an observer that logs to log. With nodes it also logs
// outcomes and notices, which otherwise LineLog or Live show: see Sinks.
func NewLogEvents(log *logrus.Logger, nodes bool) *LogEvents { return &LogEvents{log, nodes} }

// Observe implements Observer.
func (l *LogEvents) Observe(event any) {
	if l.log.IsLevelEnabled(logrus.DebugLevel) { // otherwise every step formats a line that is thrown away
		l.details(event)
	}
	if l.nodes {
		l.result(event)
	}
}

func (l *LogEvents) details(event any) {
	switch e := event.(type) {
	case discovery.Cycle:
		if e.Err == nil || !l.nodes {
			l.log.WithFields(logrus.Fields{"answers": e.Answers, "seconds": Seconds(e.Took)}).Debug("discovered")
		}
	case discovery.Admitted:
		l.node(e.Identity, "").WithField("source", string(e.Source)).Debug("admitted")
	case provision.RunStarted:
		l.log.WithFields(logrus.Fields{"nodes": e.Nodes, "left": e.Left, "workers": e.Workers}).Debug("run started")
	case provision.NodeStarted:
		l.node(e.Node, "").Debug("started")
	case provision.NodeAssigned:
		l.node(e.Node, "").Debug("a worker takes it")
	case provision.StepDone:
		l.debug(e.Node, e.Step, e.Err).WithField("seconds", Seconds(e.Took)).Debug("step done")
	case provision.Attempt:
		l.debug(e.Node, "", e.Err).WithFields(logrus.Fields{"rpc": e.Action, "attempt": e.Number, "seconds": Seconds(e.Took)}).Debug("called")
	case provision.CallFailed:
		l.debug(e.Node, "", e.Err).WithField("rpc", e.Action).Debug("call failed")
	case provision.HelperDone:
		l.debug(e.Node, "helper", e.Err).WithField("seconds", Seconds(e.Took)).Debug("helper done")
	}
}

func (l *LogEvents) result(event any) {
	switch e := event.(type) {
	case discovery.Cycle:
		if e.Err != nil { // where stderr has it, the command shows it as its error
			l.log.WithFields(logrus.Fields{"answers": e.Answers, "seconds": Seconds(e.Took)}).WithError(e.Err).Error("discovery failed")
		}
	case discovery.Refused:
		l.node(e.Identity, "").WithField("answers", e.Count).WithError(e.Err).Warn("refused")
	case provision.Notice:
		l.node(e.Node, e.Step).Warn(e.Text)
	case provision.NodeDone:
		l.done(nodeOf(e.Result))
	}
}

func (l *LogEvents) done(n Node) {
	log := l.node(n.Identity, n.Step).WithField("seconds", n.Duration)
	switch {
	case n.Error != "":
		log = log.WithFields(logrus.Fields{"error": n.Error, "cause": n.Cause})
	case detail(n) != "":
		log = log.WithField("detail", detail(n))
	}
	if n.Outcome == string(provision.Failed) {
		log.Error(n.Outcome)
		return
	}
	log.Info(n.Outcome)
}

func (l *LogEvents) node(identity, step string) *logrus.Entry {
	fields := logrus.Fields{"node": EscapeTo(identity, maxName)}
	if step != "" {
		fields["step"] = step
	}
	return l.log.WithFields(fields)
}

func (l *LogEvents) debug(identity, step string, err error) *logrus.Entry {
	entry := l.node(identity, step)
	if err != nil {
		entry = entry.WithError(err)
	}
	return entry
}
