package installstate

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// site is one state, opened by as many processes as a test wants.
type site struct {
	open func() *Store // as a new process
	kill func(*Store)  // ends its session as the end of its process does
}

// engines are the engines that pass the same tests.
var engines = map[string]func(t *testing.T) site{"embedded": embeddedSite, "streams": streamsSite}

func embeddedSite(t *testing.T) site {
	dir := filepath.Join(t.TempDir(), "state")
	return site{
		open: func() *Store {
			s := NewStore(dir)
			t.Cleanup(func() { s.Close() })
			return s
		},
		kill: func(s *Store) { unlock(s.engine.(*sqlite).own.file) },
	}
}

// eachEngine runs a test on every engine.
func eachEngine(t *testing.T, test func(t *testing.T, on site)) {
	t.Helper()
	for name, make := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, make(t))
		})
	}
}

func claim(t *testing.T, s *Store, identity string) *Claim {
	t.Helper()
	c, err := s.AcquireLock(identity)
	if err != nil {
		t.Fatalf("claiming %q: %v", identity, err)
	}
	return c
}

// complete runs an installation from its claim to its completion.
func complete(t *testing.T, s *Store, identity string) Record {
	t.Helper()
	c := claim(t, s, identity)
	defer c.Release()
	r := NewRecord(identity, fingerprint)
	if err := s.Save(r); err != nil {
		t.Fatal(err)
	}
	r.HoldUntil = time.Now().Add(time.Minute).UTC().Round(0)
	if err := s.MarkComplete(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s, other := on.open(), on.open()
		admit := func(identity, print string, want Disposition, cause error) {
			t.Helper()
			for _, store := range []*Store{s, other} {
				if _, got, err := Admit(store, identity, print); got != want || !errors.Is(err, cause) {
					t.Errorf("%s: got %v, %v, want %v, %v", identity, got, err, want, cause)
				}
			}
		}
		admit("web1", fingerprint, Fresh, nil)
		c := claim(t, s, "web1")
		r := NewRecord("web1", fingerprint)
		if err := s.Save(r); err != nil {
			t.Fatal(err)
		}
		admit("web1", fingerprint, Resume, nil)
		admit("web1", Fingerprint([]byte("another")), 0, ErrOtherInstallation)
		if err := s.MarkComplete(r); err != nil {
			t.Fatal(err)
		}
		admit("web1", fingerprint, AlreadyComplete, nil)
		if err := s.Save(r); !errors.Is(err, ErrOtherInstallation) {
			t.Errorf("saving over a complete record: got %v, want ErrOtherInstallation", err)
		}
		if err := s.BeginReset("web1"); err != nil {
			t.Fatal(err)
		}
		admit("web1", fingerprint, 0, ErrResetting)
		if err := s.Remove("web1"); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove("web1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("removing it again: got %v, want ErrNotFound", err)
		}
		admit("web1", fingerprint, Fresh, nil)
		if err := s.MarkComplete(r); !errors.Is(err, ErrNotFound) {
			t.Errorf("completing without a record: got %v, want ErrNotFound", err)
		}
		c.Release()
		if got := complete(t, other, "web1"); got.Identity != "web1" { // after a removal
			t.Errorf("got %v", got)
		}
	})
}

func TestAClaimHasOneHolder(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		stores := []*Store{on.open(), on.open(), on.open(), on.open()}
		var working, most, won atomic.Int32
		var group sync.WaitGroup
		for i := range 4 * 25 {
			group.Go(func() {
				c, err := stores[i%4].AcquireLock("web1")
				if errors.Is(err, ErrLockHeld) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				won.Add(1)
				if n := working.Add(1); n > most.Load() {
					most.Store(n)
				}
				r := NewRecord("web1", fingerprint)
				if stored, err := stores[i%4].Load("web1"); err == nil {
					r = stored
				}
				if err := stores[i%4].Save(r); err != nil {
					t.Error(err)
				}
				working.Add(-1)
				c.Release()
			})
		}
		group.Wait()
		if most.Load() != 1 || won.Load() == 0 {
			t.Errorf("got %d holders at a time and %d claims, want 1 and some", most.Load(), won.Load())
		}
		c := claim(t, stores[0], "web1")
		for _, s := range stores {
			if _, err := s.AcquireLock("web1"); !errors.Is(err, ErrLockHeld) {
				t.Errorf("got %v, want ErrLockHeld", err)
			}
		}
		c.Release()
		c.Release()
		claim(t, stores[1], "web1").Release()
	})
}

func TestClaimsOfTheDeadAreFree(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		dying, other := on.open(), on.open()
		for _, identity := range []string{"fresh", "begun"} {
			claim(t, dying, identity)
		}
		r := NewRecord("begun", fingerprint)
		if err := dying.Save(r); err != nil {
			t.Fatal(err)
		}
		if _, err := other.AcquireMutationLock("begun"); !errors.Is(err, ErrLockHeld) {
			t.Errorf("got %v, want ErrLockHeld", err)
		}
		on.kill(dying)
		c := claim(t, other, "begun")
		if _, got, err := Admit(other, "begun", fingerprint); got != Resume || err != nil {
			t.Errorf("got %v, %v, want resume", got, err)
		}
		if err := dying.Save(r); !errors.Is(err, ErrClaimLost) {
			t.Errorf("a write of the dead: got %v, want ErrClaimLost", err)
		}
		if err := dying.MarkComplete(r); !errors.Is(err, ErrClaimLost) {
			t.Errorf("a completion of the dead: got %v, want ErrClaimLost", err)
		}
		if err := other.MarkComplete(r); err != nil {
			t.Error(err)
		}
		c.Release()
		lock, err := other.AcquireRunLock() // removes what the dead left
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
		entries, err := other.List()
		if err != nil || len(entries) != 1 || entries[0].Identity != "begun" || entries[0].Locked {
			t.Errorf("got %v, %v, want the record of one free node", entries, err)
		}
	})
}

func TestLifecycleWorkWaitsForInstallations(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s := on.open()
		c, err := s.AcquireMutationLock("web1") // unknown: not ours to refuse
		if err != nil {
			t.Fatal(err)
		}
		r := NewRecord("web1", fingerprint)
		if err := s.Save(r); err != nil {
			t.Fatal(err)
		}
		c.Release()
		if _, err := s.AcquireMutationLock("web1"); !errors.Is(err, ErrInstallationInProgress) {
			t.Errorf("got %v, want ErrInstallationInProgress", err)
		}
		complete(t, s, "web2")
		if c, err = s.AcquireMutationLock("web2"); err != nil {
			t.Fatal(err)
		}
		c.Release()
	})
}

func TestListShowsRecordsAndClaims(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s, other := on.open(), on.open()
		if entries, err := s.List(); err != nil || len(entries) != 0 {
			t.Errorf("got %v, %v, want nothing", entries, err)
		}
		identities := []string{"-", "..", ".a", "a..b", "a.b", "a/b", "a=2Eb", "web 1", "web1\nx", "\xff", "Web1", "web1", strings.Repeat("x", 253)}
		for _, identity := range identities[:len(identities)-1] {
			if identity != "\xff" { // no record may name it
				complete(t, s, identity)
			}
		}
		claim(t, s, "\xff")
		claim(t, s, identities[len(identities)-1])
		r := NewRecord("cut off", fingerprint)
		r.RestartRequested = time.Now().UTC().Round(0)
		c := claim(t, s, "cut off")
		if err := s.Save(r); err != nil {
			t.Fatal(err)
		}
		c.Release()
		want := append([]string{"cut off"}, identities...)
		slices.Sort(want)
		entries, err := other.List()
		var got []string
		for _, e := range entries {
			got = append(got, e.Identity)
			if held := e.Identity == "\xff" || len(e.Identity) == 253; e.Err != nil || e.Locked != held || held && e.Holder.PID == 0 {
				t.Errorf("%q: got %+v", e.Identity, e)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if got, err := other.RestartRequested(); err != nil || !slices.Equal(got, []string{"cut off"}) {
			t.Errorf("got %q, %v, want the node whose restart was requested", got, err)
		}
	})
}

func TestAPrefetchedRecordDecidesNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s, other := on.open(), on.open()
		var identities []string
		for i := range 20 {
			identities = append(identities, fmt.Sprint("web", i))
		}
		complete(t, other, "web0")
		c := claim(t, other, "web1")
		if err := s.Prefetch(identities); err != nil {
			t.Fatal(err)
		}
		if _, got, err := Admit(s, "web0", fingerprint); got != AlreadyComplete || err != nil {
			t.Errorf("got %v, %v, want complete", got, err)
		}
		c.Release()
		claim(t, s, "web1").Release() // was another's
		complete(t, other, "web2")
		c = claim(t, s, "web2") // its claim was free
		if _, got, err := Admit(s, "web2", fingerprint); got != AlreadyComplete || err != nil {
			t.Errorf("got %v, %v, want complete", got, err)
		}
		c.Release()
		c = claim(t, other, "web3")
		if _, err := s.AcquireLock("web3"); !errors.Is(err, ErrLockHeld) {
			t.Errorf("got %v, want ErrLockHeld", err)
		}
		c.Release()
	})
}

func TestValues(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s, other := on.open(), on.open()
		if err := s.CheckWritable(); err != nil {
			t.Fatal(err)
		}
		if p, err := other.Pause(); p != nil || err != nil {
			t.Errorf("got %v, %v, want no pause", p, err)
		}
		if err := s.SetPause(Pause{Reason: "works", Since: time.Now()}); err != nil {
			t.Fatal(err)
		}
		fresh := on.open()
		if p, err := fresh.Pause(); err != nil || p == nil || p.Reason != "works" {
			t.Errorf("got %v, %v, want the pause", p, err)
		}
		if was, err := fresh.Resume(); !was || err != nil {
			t.Errorf("got %v, %v, want a pause that ended", was, err)
		}
		if was, err := fresh.Resume(); was || err != nil {
			t.Errorf("got %v, %v, want no pause", was, err)
		}
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if err := s.UpdateCounters(func(stored []byte) ([]byte, error) { return append(stored, 'x'), nil }); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got, err := s.Counters(); string(got) != strings.Repeat("x", 20) || err != nil {
			t.Errorf("got %q, %v, want 20 counts", got, err)
		}
		if err := s.SaveElectionRevision(42); err != nil || s.ElectionRevision() != 42 {
			t.Errorf("got %d, %v, want 42", s.ElectionRevision(), err)
		}
	})
}

func TestReportsOfAnySize(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s := on.open()
		if got, err := s.LastReport(); got != nil || err != nil {
			t.Errorf("got %d bytes, %v, want nothing", len(got), err)
		}
		for _, size := range []int{10, 3<<20 + 1, 5 << 20, 2 << 20, 100} {
			report := bytes.Repeat([]byte(fmt.Sprint(size, " ")), size)[:size]
			if err := s.SaveLastReport(report); err != nil {
				t.Fatal(err)
			}
			if got, err := s.LastReport(); err != nil || !bytes.Equal(got, report) {
				t.Errorf("got %d bytes, %v, want %d", len(got), err, size)
			}
			if err := s.EditLastReports(func(report []byte) ([]byte, error) { return nil, nil }); err != nil {
				t.Error(err)
			}
			if got, err := s.LastReports(); err != nil || len(got) != 1 || !bytes.Equal(got[0].Report, report) {
				t.Errorf("got %d reports, %v, want one of %d bytes", len(got), err, size)
			}
		}
	})
}

func TestReportsAreEdited(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s := on.open()
		upper := func(report []byte) ([]byte, error) { return bytes.ToUpper(report), nil }
		if err := s.EditLastReports(upper); err != nil {
			t.Fatal(err)
		}
		if err := s.SaveLastReport([]byte("report")); err != nil {
			t.Fatal(err)
		}
		if err := s.EditLastReports(upper); err != nil {
			t.Fatal(err)
		}
		if got, err := s.LastReport(); string(got) != "REPORT" || err != nil {
			t.Errorf("got %q, %v, want the edited report", got, err)
		}
	})
}

func TestAnInstallationThatWasNeverBegunCannotBeCompleted(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s := on.open()
		defer claim(t, s, "web1").Release()
		if err := s.MarkComplete(NewRecord("web1", fingerprint)); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if _, err := s.Load("web1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v, want no record", err)
		}
	})
}
