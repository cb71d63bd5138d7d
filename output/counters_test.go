package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"choria-provision/provision"

	"github.com/prometheus/client_golang/prometheus"
)

// saver makes this test binary a process that counts and saves in a loop, for
// the tests that need real processes.
const saver = "PROVISION_TEST_SAVER"

func TestMain(m *testing.M) {
	if path := os.Getenv(saver); path != "" {
		saveForever(path)
	}
	os.Exit(m.Run())
}

// saveForever counts one node per save and says so after it, until it is
// killed or has said it PROVISION_TEST_ROUNDS times.
func saveForever(path string) {
	rounds := 0
	fmt.Sscan(os.Getenv("PROVISION_TEST_ROUNDS"), &rounds)
	for i := 0; rounds == 0 || i < rounds; i++ {
		m := NewMetrics(prometheus.NewRegistry(), "s", "1")
		if err := errors.Join(m.Carry(path), countAndSave(m, path)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("saved")
	}
	os.Exit(0)
}

func countAndSave(m *Metrics, path string) error {
	m.Observe(provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Provisioned}})
	m.Observe(provision.HelperDone{Took: time.Second})
	return m.Save(context.Background(), path)
}

func saverProcess(t *testing.T, path string, rounds int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), saver+"="+path, fmt.Sprintf("PROVISION_TEST_ROUNDS=%d", rounds))
	return cmd
}

// carriedOver is the value of a series in a process that starts now.
func carriedOver(t *testing.T, path, series string) string {
	t.Helper()
	m, reg := newTestMetrics("s")
	if err := m.Carry(path); err != nil {
		t.Fatal(err)
	}
	return valueOf(t, reg, series)
}

func TestCountersGoOnOverRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), CountersFile)
	for range 3 {
		m, reg := newTestMetrics("site1")
		if err := m.Carry(path); err != nil {
			t.Fatal(err)
		}
		for _, event := range countedRun() {
			m.Observe(event)
		}
		before := exposed(t, reg)
		if err := m.Save(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if after := exposed(t, reg); after != before {
			t.Errorf("got other values after saving:\n%s\nwant:\n%s", after, before)
		}
		if err := m.Save(t.Context(), path); err != nil { // nothing new to add
			t.Fatal(err)
		}
	}
	m, reg := newTestMetrics("site1")
	if err := m.Carry(path); err != nil {
		t.Fatal(err)
	}
	golden(t, "metrics-carried.golden", exposed(t, reg))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "counters.golden", string(text))
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %o, want 600", info.Mode().Perm())
	}
}

func TestRunsAtOnceSeeEachOthersCounts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), CountersFile)
	first, firstReg := newTestMetrics("s")
	second, secondReg := newTestMetrics("s")
	for _, err := range []error{first.Carry(path), second.Carry(path), countAndSave(first, path), countAndSave(second, path)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if a, b := valueOf(t, firstReg, `provisioned{site="s"}`), valueOf(t, secondReg, `provisioned{site="s"}`); a != "1" || b != "2" {
		t.Errorf("got %s and %s, want the sum after each save: 1 and 2", a, b)
	}
	if err := countAndSave(first, path); err != nil {
		t.Fatal(err)
	}
	if got := valueOf(t, firstReg, `provisioned{site="s"}`); got != "3" {
		t.Errorf("got %s after both saved, want 3", got)
	}
}

func TestSitesAreCountedApart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), CountersFile)
	for _, site := range []string{"s", "", "süd / 1", "s"} {
		m, _ := newTestMetrics(site)
		if err := errors.Join(m.Carry(path), countAndSave(m, path)); err != nil {
			t.Fatal(err)
		}
	}
	if got := carriedOver(t, path, `provisioned{site="s"}`); got != "2" {
		t.Errorf("got %s, want 2", got)
	}
}

func TestUnusableCountersAreKeptAsEvidence(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text string }{
		{"empty", ""},
		{"cut", `{"schema_version": 1, "sites": {`},
		{"NULs", strings.Repeat("\x00", 4096)},
		{"another shape", `[1, 2]`},
		{"a text for a number", `{"schema_version": 1, "sites": {"s": {"series": {"a": "1"}}}}`},
		{"a negative counter", `{"schema_version": 1, "sites": {"s": {"series": {"a": -1}}}}`},
		{"a negative time", `{"schema_version": 1, "sites": {"s": {"last_success": -1}}}`},
		{"a newer version", `{"schema_version": 2, "sites": {}}`},
		{"too large", `{"schema_version": 1, "x": "` + strings.Repeat("x", maxCounters) + `"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, CountersFile)
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			m, reg := newTestMetrics("s")
			if err := m.Carry(path); !errors.Is(err, ErrCounters) {
				t.Errorf("got %v, want %v", err, ErrCounters)
			}
			if text, _ := os.ReadFile(path); string(text) != tt.text {
				t.Error("got another file after reading, want it untouched: it may be a dry run")
			}
			err := countAndSave(m, path)
			if !errors.Is(err, ErrCounters) || !strings.Contains(err.Error(), path+".bad-") {
				t.Errorf("got %v, want a warning that names the copy", err)
			}
			kept, _ := filepath.Glob(path + ".bad-*")
			if len(kept) != 1 {
				t.Fatalf("got %d copies, want one", len(kept))
			}
			if text, _ := os.ReadFile(kept[0]); string(text) != tt.text {
				t.Error("got another text in the copy")
			}
			if got := valueOf(t, reg, `provisioned{site="s"}`); got != "1" {
				t.Errorf("got %s, want 1", got)
			}
			if got := carriedOver(t, path, `provisioned{site="s"}`); got != "1" {
				t.Errorf("got %s carried over, want 1", got)
			}
		})
	}
}

func TestCountersSpoiledWhileARunIsOnLoseNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), CountersFile)
	m, _ := newTestMetrics("s")
	if err := errors.Join(m.Carry(path), countAndSave(m, path)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := countAndSave(m, path); !errors.Is(err, ErrCounters) {
		t.Errorf("got %v, want %v", err, ErrCounters)
	}
	if got := carriedOver(t, path, `provisioned{site="s"}`); got != "2" {
		t.Errorf("got %s, want what we knew and what we added: 2", got)
	}
}

func TestUnwritableCountersAreNotTouched(t *testing.T) {
	t.Parallel()
	m, _ := newTestMetrics("s")
	path := filepath.Join(t.TempDir(), "missing", CountersFile)
	if err := m.Carry(path); err != nil {
		t.Errorf("got %v for a state directory that is not there yet, want nothing", err)
	}
	if err := countAndSave(m, path); err == nil {
		t.Error("got no error, want one")
	}
}

func TestHeldLockBoundsTheWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), CountersFile)
	lock, err := lockCounters(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, reg := newTestMetrics("s")
	m.Observe(provision.NodeDone{Result: provision.Result{Outcome: provision.Provisioned}})
	if err := m.Save(ctx, path); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path+".lock") {
		t.Errorf("got %v, want an error that names the lock", err)
	}
	if got := valueOf(t, reg, `provisioned{site="s"}`); got != "1" {
		t.Errorf("got %s, want the count still there: 1", got)
	}
}

func TestProcessesAtOnceLoseNoCount(t *testing.T) {
	t.Parallel()
	const processes, rounds = 6, 25
	path := filepath.Join(t.TempDir(), CountersFile)
	var group sync.WaitGroup
	for range processes {
		cmd := saverProcess(t, path, rounds)
		group.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	group.Wait()
	if got, want := carriedOver(t, path, `provisioned{site="s"}`), fmt.Sprint(processes*rounds); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := carriedOver(t, path, `helper_time_count{site="s"}`), fmt.Sprint(processes*rounds); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestKilledProcessLeavesOldOrNew kills savers at whatever they are at: what
// they said they saved is there, and at most one count more each.
func TestKilledProcessLeavesOldOrNew(t *testing.T) {
	t.Parallel()
	const kills = 30
	dir := t.TempDir()
	path := filepath.Join(dir, CountersFile)
	said := 0
	for i := range kills {
		cmd := saverProcess(t, path, 0)
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
	fmt.Sscan(carriedOver(t, path, `provisioned{site="s"}`), &got)
	if got < said || got > said+kills {
		t.Errorf("got %d, want between %d and %d", got, said, said+kills)
	}
	m, _ := newTestMetrics("s")
	if err := errors.Join(m.Carry(path), countAndSave(m, path)); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("got %v, want the counters and their lock alone", entries)
	}
}
