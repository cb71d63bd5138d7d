package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard is what the tests read of docs/dashboard.json.
type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct {
			Name       string
			Definition string
		}
	}
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr string }
}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries are the dashboard's by their panel's title, with Grafana's variables
// replaced as Grafana does for "All" and half an hour.
func (d dashboard) queries() map[string][]string {
	values := strings.NewReplacer("$__rate_interval", "5m", "$__range", "30m", "$site", ".*")
	found := map[string][]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			found[p.Title] = append(found[p.Title], values.Replace(target.Expr))
		}
	}
	return found
}

// visited is a lab where nodes were provisioned and one fails, as Prometheus
// saw it.
func visited(t *testing.T) *prometheus {
	t.Helper()
	gateway := startGateway(t)
	s := startSite(t, 3)
	push := map[string]string{"url": gateway}
	s.use(t, settings{push: push})
	p := newPrometheus(t)
	s.idle(t)
	p.scrape(t, exposed(t, gateway), 2)
	if r := s.run(t, "once", "--limit", "2"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	p.scrape(t, exposed(t, gateway), 2)
	s.use(t, settings{push: push, helper: "/bin/false"})
	if r := s.run(t, "once"); r.code != 3 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	p.scrape(t, exposed(t, gateway), 1)
	return p
}

func TestEveryQueryOfTheDashboardShowsSomething(t *testing.T) {
	t.Parallel()
	queries := loadDashboard(t).queries()
	if len(queries) < 10 {
		t.Fatalf("got %d panels with queries, want the dashboard", len(queries))
	}
	p := visited(t)
	for title, exprs := range queries {
		for _, expr := range exprs {
			if strings.Contains(expr, "$") {
				t.Errorf("%s: %s: got a variable that the test does not know", title, expr)
				continue
			}
			if got := p.query(t, expr); len(got) == 0 {
				t.Errorf("%s: %s: got nothing to show", title, expr)
			}
		}
	}
	for title, want := range map[string]float64{"Provisioned": 2, "Failed in the last run": 1, "Paused": 0} {
		if len(queries[title]) == 0 {
			t.Errorf("got no panel %q", title)
			continue
		}
		if got := p.value(t, queries[title][0]); got != want {
			t.Errorf("%s: got %v, want %v", title, got, want)
		}
	}
}

func TestEveryQueryOfTheDocumentationShowsSomething(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "## Queries\n\n```text\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("got no queries in docs/metrics.md")
	}
	p := visited(t)
	for line := range strings.Lines(block) {
		expr, _, _ := strings.Cut(line, "   ") // what it shows stands behind it
		if got := p.query(t, expr); len(got) == 0 {
			t.Errorf("%s: got nothing to show", expr)
		}
	}
}

func TestTheDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t)
	s := startSite(t, 1)
	s.use(t, settings{push: map[string]string{"url": gateway}})
	s.idle(t)
	pushed := map[string]bool{}
	for _, name := range regexp.MustCompile(`(?m)^(choria_provisioner_[a-z_]+)`).FindAllString(string(exposed(t, gateway)), -1) {
		pushed[name] = true
	}
	if len(pushed) < 20 {
		t.Fatalf("got metrics %v, want all of them", pushed)
	}

	d := loadDashboard(t)
	shown := map[string]bool{}
	for title, exprs := range d.queries() {
		for _, expr := range exprs {
			for _, name := range metricsOf(t, expr) {
				shown[name] = true
				if strings.HasPrefix(name, "choria_") && !pushed[name] {
					t.Errorf("%s: got the metric %s, which nobody pushes", title, name)
				}
			}
		}
	}
	for name := range pushed {
		if !shown[name] {
			t.Errorf("got no panel that shows %s", name)
		}
	}
	for _, variable := range d.Templating.List {
		call := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(variable.Definition)
		if variable.Name == "site" && (call == nil || !pushed[call[1]] || call[2] != "site") {
			t.Errorf("got variable %+v, want the sites of a metric that is pushed", variable)
		}
	}
}

// metricsOf are the metrics that an expression reads, by Prometheus' parser.
func metricsOf(t *testing.T, expr string) (names []string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}

func TestPanelsStandBesideEachOther(t *testing.T) {
	t.Parallel()
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range loadDashboard(t).Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d %q: got an id or title that is missing or used twice", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X+g.W > 24 || g.W == 0 || g.H == 0 {
			t.Errorf("%s: got %+v, want a place within 24 columns", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s and %s overlap", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
