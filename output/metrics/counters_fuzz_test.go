package metrics

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzParseCounters holds that counters which are read can only grow, and that
// writing them again loses nothing.
func FuzzParseCounters(f *testing.F) {
	for _, text := range []string{`{"schema_version":1,"sites":{"eu":{"series":{"a":1.5},"last_success":3}}}`, "", "null", `{"schema_version":1,"sites":{"eu":{"series":{"a":-1}}}}`, `{"schema_version":99}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseCounters(data)
		if err != nil {
			if !errors.Is(err, ErrCounters) {
				t.Errorf("got error %v, want one that unwraps to ErrCounters", err)
			}
			return
		}
		for site, c := range got.Sites {
			for name, n := range c.Series {
				if n < 0 {
					t.Errorf("%q: %q is %v", site, name, n)
				}
			}
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseCounters(text)
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty(), cmp.AllowUnexported(savedCounters{})); data != nil && (err != nil || diff != "") {
			t.Errorf("error %v; written and read again (-first +second):\n%s", err, diff)
		}
	})
}
