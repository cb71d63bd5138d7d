package installstate

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestLockIsHeldByOneAtATime(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	lock := acquire(t, s.AcquireLock)
	_, err := s.AcquireLock(machine)
	var held *LockHeld
	if !errors.As(err, &held) || !errors.Is(err, ErrLockHeld) {
		t.Fatalf("got %v, want *LockHeld", err)
	}
	if held.Holder.PID != os.Getpid() || held.Holder.Since.IsZero() {
		t.Errorf("got holder %+v, want our pid and when", held.Holder)
	}
	if want := fmt.Sprintf("process %d", os.Getpid()); !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want it to name %s", err, want)
	}
	acquire(t, func(string) (*Lock, error) { return s.AcquireLock("another") }).Release()
	lock.Release()
	lock.Release() // harmless, even when somebody else has it
	acquire(t, s.AcquireLock).Release()
}

func acquire(t *testing.T, take func(string) (*Lock, error)) *Lock {
	t.Helper()
	lock, err := take(machine)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestSecondReleaseFreesNobodyElsesLock(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	first := acquire(t, s.AcquireLock)
	first.Release()
	second := acquire(t, s.AcquireLock)
	defer second.Release()
	first.Release()
	if _, err := s.AcquireLock(machine); !errors.Is(err, ErrLockHeld) {
		t.Errorf("got %v, want ErrLockHeld", err)
	}
}

func TestHolderTellsWhenItStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(t.TempDir())
		start := time.Now()
		lock, err := s.AcquireRunLock()
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Release()
		time.Sleep(time.Hour)
		holder, running, err := s.RunHolder()
		if err != nil || !running || holder.PID != os.Getpid() || !holder.Since.Equal(start) {
			t.Errorf("got %+v, %v, %v, want us since %s", holder, running, err, start)
		}
		if _, err := s.AcquireRunLock(); !errors.Is(err, ErrLockHeld) || !strings.Contains(err.Error(), start.UTC().Format(time.RFC3339)) {
			t.Errorf("got %v, want ErrLockHeld and the start", err)
		}
	})
}

func TestOneOfTwentyProcessesGetsTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var children []*child
	for range 20 {
		children = append(children, startChild(t, "hold", dir))
	}
	var winners []*child
	var refusals []string
	for _, c := range children {
		if line := c.line(); line == "held" {
			winners = append(winners, c)
		} else {
			refusals = append(refusals, line)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("got %d holders, want 1; the others: %q", len(winners), refusals)
	}
	for _, refusal := range refusals {
		if want := fmt.Sprintf("process %d,", winners[0].Process.Pid); !strings.Contains(refusal, want) {
			t.Errorf("got %q, want it to name %s", refusal, want)
		}
	}
}

// A child that inherited the lock would keep it after its parent was killed.
func TestKilledHolderFreesTheLockThoughItsChildLives(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	holder := startChild(t, "hold", s.Dir(), "offspring")
	var pid int
	if _, err := fmt.Sscanf(holder.line(), "offspring %d", &pid); err != nil {
		t.Fatal(err)
	}
	if line := holder.line(); line != "held" {
		t.Fatalf("got %q, want held", line)
	}
	if _, err := s.AcquireLock(machine); !errors.Is(err, ErrLockHeld) {
		t.Fatalf("got %v, want ErrLockHeld", err)
	}
	holder.kill(t)
	lock, err := s.AcquireLock(machine)
	if err != nil {
		t.Fatalf("got %v, want the lock", err)
	}
	defer lock.Release()
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("got %v, want the holder's child still there", err)
	}
}

func TestSignatureOfTheDeadIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	c := startChild(t, "hold", s.Dir())
	c.line()
	c.kill(t)
	if holder, locked, err := s.Holder(machine); locked || err != nil || holder.PID != 0 {
		t.Errorf("got %+v, %v, %v, want nobody", holder, locked, err)
	}
	file, err := os.OpenFile(s.lockPath(machine), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := exclusive(file); err != nil { // held and not signed yet
		t.Fatal(err)
	}
	if holder, locked, err := s.Holder(machine); !locked || err != nil || holder.PID != 0 {
		t.Errorf("got %+v, %v, %v, want somebody unknown", holder, locked, err)
	}
}

func TestReleaseTakesTheSignatureAway(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	save(t, s, NewRecord(machine, fingerprint)) // keeps the lock file
	acquire(t, s.AcquireLock).Release()
	if text, err := os.ReadFile(s.lockPath(machine)); err != nil || len(text) != 0 {
		t.Errorf("got %q, %v, want an empty file", text, err)
	}
}

// Looking takes the lock for an instant, shared; it must never be taken for a
// holder, nor may lookers and takers starve each other.
func TestLookingNeverGetsInTheWay(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	save(t, s, NewRecord(machine, fingerprint))
	done := make(chan struct{})
	var lookers sync.WaitGroup
	for range 4 {
		lookers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _, _ = s.Holder(machine)
				}
			}
		})
	}
	for range 200 {
		lock, err := s.AcquireLock(machine)
		if err != nil {
			t.Errorf("got %v, want the lock", err)
			break
		}
		lock.Release()
	}
	close(done)
	lookers.Wait()
}

// The lock file of a machine without record goes with the lock. Whoever opened
// it before must not end up with a lock that keeps nobody out.
func TestVanishingLockFileNeverLetsTwoIn(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	var inside sync.Mutex
	var takers sync.WaitGroup
	for range 8 {
		takers.Go(func() {
			for taken := 0; taken < 25; {
				lock, err := s.AcquireLock(machine)
				if errors.Is(err, ErrLockHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if !inside.TryLock() {
					t.Error("two hold the lock")
				} else {
					for range 100 { // time for others to come in, were they let
						runtime.Gosched()
					}
					inside.Unlock()
				}
				taken++
				lock.Release()
			}
		})
	}
	takers.Wait()
	left, err := os.ReadDir(s.nodesDir())
	if err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want no trace of a machine without record", left, err)
	}
}

func TestMutationLock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		phase Phase
		want  []error
	}{
		{"no record", "", nil},
		{"complete", Complete, nil},
		{"under way", Installing, []error{ErrInstallationInProgress}},
		{"in mid-reset", Resetting, []error{ErrInstallationInProgress, ErrResetting}},
		{"unusable", "bad", []error{ErrInstallationInProgress, ErrUnusable}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			if test.phase == "bad" {
				plant(t, s, []byte("{"))
			} else {
				inPhase(t, s, test.phase)
			}
			lock, err := s.AcquireMutationLock(machine)
			if err == nil {
				defer lock.Release()
			}
			if (err == nil) != (test.want == nil) || errors.Is(err, ErrLockHeld) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if err != nil { // a refusal keeps no lock
				acquire(t, s.AcquireLock).Release()
			}
		})
	}
	s := NewStore(t.TempDir())
	defer acquire(t, s.AcquireLock).Release()
	if _, err := s.AcquireMutationLock(machine); !errors.Is(err, ErrLockHeld) || errors.Is(err, ErrInstallationInProgress) {
		t.Errorf("got %v, want ErrLockHeld alone", err)
	}
}
