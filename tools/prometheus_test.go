package tools

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// prometheus is Prometheus without its clock: tests say when it scrapes and
// when it evaluates.
type prometheus struct {
	db     *tsdb.DB
	engine *promql.Engine
	now    time.Time
}

// scrapeInterval is the time between two scrapes, Prometheus' default.
const scrapeInterval = time.Minute

// newPrometheus starts at the present: timestamps that the product makes are
// then in its past.
func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (30 * 24 * time.Hour).Milliseconds() // all of it stays in the head
	options.MaxBlockDuration = options.MinBlockDuration
	db, err := tsdb.Open(t.TempDir(), nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	t.Cleanup(func() {
		if err := errors.Join(engine.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return &prometheus{db, engine, time.Now().Truncate(time.Millisecond)}
}

// scrape takes in what a target with honor_labels exposes, as it stands, n
// times, one scrape interval apart.
func (p *prometheus) scrape(t *testing.T, text []byte, n int) {
	t.Helper()
	for range n {
		p.now = p.now.Add(scrapeInterval)
		p.take(t, text)
	}
}

func (p *prometheus) take(t *testing.T, text []byte) {
	t.Helper()
	samples, err := textparse.New(text, "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	appender := p.db.Appender(t.Context())
	for {
		entry, err := samples.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("what was exposed cannot be scraped: %v", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		samples.Labels(&series)
		_, _, value := samples.Series()
		if _, err := appender.Append(0, series, p.now.UnixMilli(), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}

// query evaluates at the present.
func (p *prometheus) query(t *testing.T, expr string) promql.Vector {
	t.Helper()
	query, err := p.engine.NewInstantQuery(t.Context(), p.db, nil, expr, p.now)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	warnings, _ := result.Warnings.AsStrings(expr, 0, 0) // beside them: that the peer's counters have no _total
	if result.Err != nil || len(warnings) > 0 {
		t.Fatalf("%s: %v %v", expr, result.Err, warnings)
	}
	if scalar, ok := result.Value.(promql.Scalar); ok {
		return promql.Vector{{T: scalar.T, F: scalar.V}}
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	samples := append(promql.Vector(nil), vector...)
	return samples
}

// value evaluates to the one series there must be.
func (p *prometheus) value(t *testing.T, expr string) float64 {
	t.Helper()
	vector := p.query(t, expr)
	if len(vector) != 1 {
		t.Fatalf("%s: got %v, want one series", expr, vector)
	}
	return vector[0].F
}
