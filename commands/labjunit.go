package commands

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"choria-provision/internal/lab"
	"choria-provision/output"
)

// junitSuite is a lab's result in the JUnit format, which CI systems show test
// by test: a test case per server, and one for the lab as a whole.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Seconds float64       `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"` // one line
	Text    string `xml:",chardata"`
}

// add appends a test case; an empty problem passes.
func (s *junitSuite) add(c junitCase, problem, details string) {
	if problem != "" {
		c.Failure = &junitFailure{Message: problem, Text: details}
		s.Failures++
	}
	s.Cases = append(s.Cases, c)
	s.Tests = len(s.Cases)
}

// junit makes the suite of a lab whose command and verification ended with
// ended. A server that is not in service fails unless --expect says that not all
// are expected to be; what the run's report says of it is the text.
func (o labOptions) junit(t tally, nodes map[string]output.Node, ended error) junitSuite {
	suite := junitSuite{Name: "provision lab"}
	for _, f := range t.findings {
		node := nodes[f.Node]
		c := junitCase{Class: "lab." + o.Enrollment, Name: f.Node, Seconds: node.Duration, Out: output.Escape(strings.Join(f.Seen, "; "))}
		problem := ""
		if f.State != lab.InService && (o.expect < 0 || f.State != lab.Waiting) {
			problem = strings.TrimSuffix(string(f.State)+", "+node.Outcome, ", ")
		}
		suite.add(c, problem, output.Escape(f.Problem)+runSays(node))
	}
	problem := ""
	if ended != nil {
		problem = "the lab did not end as expected"
	}
	suite.add(junitCase{Class: "lab." + o.Enrollment, Name: strings.Join(o.command, " ")}, problem, errorText(ended))
	return suite
}

// runSays is what a run's report says of a node.
func runSays(node output.Node) string {
	if node.Identity == "" {
		return ""
	}
	text := "\n" + node.Outcome
	for _, part := range []struct{ lead, text string }{{" at ", node.Step}, {": ", node.Error}, {": ", node.Message}, {"\nhint: ", node.Hint}} {
		if part.text != "" {
			text += part.lead + part.text
		}
	}
	return text
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = output.Escape(line)
	}
	return strings.Join(lines, "\n")
}

// reportedNodes reads the reports that the command left behind, by identity. A
// command that is no run leaves none.
func (o labOptions) reportedNodes(l *lab.Lab) (map[string]output.Node, error) {
	nodes := map[string]output.Node{}
	dirs := []string{l.StateDir()}
	for host := range o.Hosts {
		dirs = append(dirs, l.HostStateDir(host))
	}
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, output.LastRunFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var report output.Document
		if err := json.Unmarshal(text, &report); err != nil {
			return nil, fmt.Errorf("reading the report in %s: %w", dir, err)
		}
		for _, node := range report.Nodes {
			if known, ok := nodes[node.Identity]; !ok || known.Outcome == "skipped" { // another host's
				nodes[node.Identity] = node
			}
		}
	}
	return nodes, nil
}

// writeJUnit writes the lab's result for CI systems.
func (o labOptions) writeJUnit(l *lab.Lab, t tally, ended error) error {
	nodes, err := o.reportedNodes(l)
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	text, err := xml.MarshalIndent(o.junit(t, nodes, ended), "", "  ")
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	if err := renameio.WriteFile(o.junitFile, []byte(xml.Header+string(text)+"\n"), 0o644); err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return nil
}
