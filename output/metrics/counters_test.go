package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// saver makes this test binary a process that counts and saves in a loop, for
// the tests that need real processes.
const saver = "PROVISION_TEST_SAVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(saver); dir != "" {
		saveForever(dir)
	}
	os.Exit(m.Run())
}

// saveForever counts one node per save and says so after it, until it is
// killed or has said it PROVISION_TEST_ROUNDS times.
func saveForever(dir string) {
	store := installstate.NewStore(dir)
	rounds := 0
	fmt.Sscan(os.Getenv("PROVISION_TEST_ROUNDS"), &rounds)
	for i := 0; rounds == 0 || i < rounds; i++ {
		m := New("s", "1")
		if err := errors.Join(m.Carry(store), countAndSave(m, store)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("saved")
	}
	os.Exit(0)
}

func countAndSave(m *Metrics, store CounterStore) error {
	m.Observe(provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Provisioned}})
	m.Observe(provision.HelperDone{Took: time.Second})
	return m.Save(store)
}

func saverProcess(t *testing.T, dir string, rounds int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), saver+"="+dir, fmt.Sprintf("PROVISION_TEST_ROUNDS=%d", rounds))
	return cmd
}

// newStore returns a state in a directory of its own.
func newStore(t *testing.T) *installstate.Store {
	t.Helper()
	store := installstate.NewStore(t.TempDir())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// carriedOver is the value of a series in a process that starts now.
func carriedOver(t *testing.T, store CounterStore, series string) string {
	t.Helper()
	m := newTestMetrics("s")
	if err := m.Carry(store); err != nil {
		t.Fatal(err)
	}
	return valueOf(t, m, series)
}

func TestCountersGoOnOverRuns(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for range 3 {
		m := newTestMetrics("site1")
		if err := m.Carry(store); err != nil {
			t.Fatal(err)
		}
		for _, event := range countedRun() {
			m.Observe(event)
		}
		before := exposed(t, m)
		if err := m.Save(store); err != nil {
			t.Fatal(err)
		}
		if after := exposed(t, m); after != before {
			t.Errorf("got other values after saving:\n%s\nwant:\n%s", after, before)
		}
		if err := m.Save(store); err != nil { // nothing new to add
			t.Fatal(err)
		}
	}
	m := newTestMetrics("site1")
	if err := m.Carry(store); err != nil {
		t.Fatal(err)
	}
	golden(t, "metrics-carried.golden", exposed(t, m))
	text, err := store.Counters()
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "counters.golden", indented.String()+"\n")
}

func TestRunsAtOnceSeeEachOthersCounts(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first := newTestMetrics("s")
	second := newTestMetrics("s")
	for _, err := range []error{first.Carry(store), second.Carry(store), countAndSave(first, store), countAndSave(second, store)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if a, b := valueOf(t, first, `provisioned{site="s"}`), valueOf(t, second, `provisioned{site="s"}`); a != "1" || b != "2" {
		t.Errorf("got %s and %s, want the sum after each save: 1 and 2", a, b)
	}
	if err := countAndSave(first, store); err != nil {
		t.Fatal(err)
	}
	if got := valueOf(t, first, `provisioned{site="s"}`); got != "3" {
		t.Errorf("got %s after both saved, want 3", got)
	}
}

func TestSitesAreCountedApart(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, site := range []string{"s", "", "süd / 1", "s"} {
		m := newTestMetrics(site)
		if err := errors.Join(m.Carry(store), countAndSave(m, store)); err != nil {
			t.Fatal(err)
		}
	}
	if got := carriedOver(t, store, `provisioned{site="s"}`); got != "2" {
		t.Errorf("got %s, want 2", got)
	}
}

func TestUnusableCountersAreKept(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text string }{
		{"empty", ""},
		{"cut", `{"schema_version": 1, "sites": {`},
		{"another shape", `[1, 2]`},
		{"a text for a number", `{"schema_version": 1, "sites": {"s": {"series": {"a": "1"}}}}`},
		{"a negative counter", `{"schema_version": 1, "sites": {"s": {"series": {"a": -1}}}}`},
		{"a negative time", `{"schema_version": 1, "sites": {"s": {"last_success": -1}}}`},
		{"a newer version", `{"schema_version": 2, "sites": {}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			plant := func([]byte) ([]byte, error) { return []byte(tt.text), nil }
			if err := store.UpdateCounters(plant); err != nil {
				t.Fatal(err)
			}
			m := newTestMetrics("s")
			if err := m.Carry(store); !errors.Is(err, ErrCounters) {
				t.Errorf("got %v, want %v", err, ErrCounters)
			}
			if err := countAndSave(m, store); !errors.Is(err, ErrCounters) {
				t.Errorf("got %v, want %v", err, ErrCounters)
			}
			if text, err := store.Counters(); err != nil || string(text) != tt.text {
				t.Errorf("got %q, %v stored, want it untouched", text, err)
			}
			if got := valueOf(t, m, `provisioned{site="s"}`); got != "1" {
				t.Errorf("got %s, want what this run counted: 1", got)
			}
		})
	}
}

func TestCountersOfAStateThatIsNotThereStartAtZero(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "missing")
	m := newTestMetrics("s")
	if err := m.Carry(installstate.NewStore(dir)); err != nil {
		t.Errorf("got %v, want nothing", err)
	}
	if got := valueOf(t, m, `provisioned{site="s"}`); got != "0" {
		t.Errorf("got %s, want 0", got)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no directory made by reading", err)
	}
}

func TestProcessesAtOnceLoseNoCount(t *testing.T) {
	t.Parallel()
	const processes, rounds = 6, 25
	store := newStore(t)
	var group sync.WaitGroup
	for range processes {
		cmd := saverProcess(t, store.Dir(), rounds)
		group.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	group.Wait()
	if got, want := carriedOver(t, store, `provisioned{site="s"}`), fmt.Sprint(processes*rounds); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := carriedOver(t, store, `helper_time_count{site="s"}`), fmt.Sprint(processes*rounds); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestKilledProcessLeavesOldOrNew kills savers at whatever they are at: what
// they said they saved is there, and at most one count more each.
func TestKilledProcessLeavesOldOrNew(t *testing.T) {
	t.Parallel()
	const kills = 30
	store := newStore(t)
	said := 0
	for i := range kills {
		cmd := saverProcess(t, store.Dir(), 0)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if lines.Text() != "saved" {
				t.Fatalf("got %q, want a save", lines.Text())
			}
			said++
			if n == i%3 {
				cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // killed
	}
	var got int
	fmt.Sscan(carriedOver(t, store, `provisioned{site="s"}`), &got)
	if got < said || got > said+kills {
		t.Errorf("got %d, want between %d and %d", got, said, said+kills)
	}
	m := newTestMetrics("s")
	if err := errors.Join(m.Carry(store), countAndSave(m, store)); err != nil {
		t.Fatal(err)
	}
}
