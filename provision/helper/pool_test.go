package helper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"choria-provision/config"
)

func talking(t *testing.T, name string, args ...string) *Pool {
	t.Helper()
	args = append([]string{"sh", filepath.Join("testdata", "worker", name+".sh")}, args...)
	h := NewPool(Exec{Command: config.Command{Args: args}, Timeout: time.Minute, Env: []string{"PROVISION_DRY_RUN=1"}})
	t.Cleanup(h.Close)
	return h
}

// answered asks and returns the words of the answer: process, count, identity,
// dry run.
func answered(t *testing.T, h *Pool, id string) []string {
	t.Helper()
	got, err := h.Answer(t.Context(), Input{Identity: id})
	words := strings.Fields(got.Message)
	if err != nil || len(words) != 4 || words[2] != id || words[3] != "1" {
		t.Fatalf("got %q and error %v, want an answer about %s in a dry run", got.Message, err, id)
	}
	return words
}

func TestPersistentHelperAnswersManyNodes(t *testing.T) {
	t.Parallel()
	h := talking(t, "good")
	first := answered(t, h, "n1")
	second := answered(t, h, "n2")
	if first[0] != second[0] || second[1] != "2" {
		t.Errorf("got process and count %v and then %v, want one process asked twice", first, second)
	}
	pid, err := strconv.Atoi(first[0])
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	wantGroupGone(t, pid)
	if _, err := h.Answer(t.Context(), Input{}); !errors.Is(err, ErrFailed) {
		t.Errorf("got %v after the end, want an error", err)
	}
}

func TestRetiredHelperAnswersAndStaysNoLonger(t *testing.T) {
	t.Parallel()
	h := talking(t, "good")
	idle := answered(t, h, "n1")
	h.Drain()
	late := answered(t, h, "n2")
	if idle[0] == late[0] {
		t.Errorf("got process %s twice, want the one that waited gone", idle[0])
	}
	for _, text := range []string{idle[0], late[0]} {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		wantGroupGone(t, pid)
	}
}

func TestPersistentHelperThatMisbehavesFailsOneNode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		cause error
		says  string
	}{
		{"die", ErrFailed, "exit status 7; it said: out of memory"},
		{"half", ErrFailed, "in the middle of an answer"},
		{"hang", ErrTimeout, "waiting for the database"},
		{"garbage", ErrAnswer, "INFO: lookin"},
		{"other", ErrAnswer, `for "n9"`},
		{"nameless", ErrAnswer, "it names no identity, as every answer of a persistent helper must"},
		{"nobody", ErrAnswer, "it names no identity"},
		{"number", ErrAnswer, "identity is a number, want a string"},
		{"endless", ErrAnswer, "longer than 8 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := talking(t, "good")
			before := answered(t, h, "n1")
			if tt.name == "hang" {
				h.exec.Timeout = 500 * time.Millisecond
			}
			_, err := h.Answer(t.Context(), Input{Identity: tt.name})
			wantCause(t, err, tt.cause, tt.says)
			pid, bad := strconv.Atoi(before[0])
			if bad != nil {
				t.Fatal(bad)
			}
			wantGroupGone(t, pid)
			h.exec.Timeout = time.Minute
			if after := answered(t, h, "n2"); after[0] == before[0] || after[1] != "1" {
				t.Errorf("got process and count %v after %v, want a new process", after, before)
			}
		})
	}
}

// One that ends after its answer has answered.
func TestPersistentHelperMayEndAfterItsAnswer(t *testing.T) {
	t.Parallel()
	for range 20 {
		got, err := talking(t, "once").Answer(t.Context(), Input{Identity: "n1.example.net"})
		if err != nil || got.Message != "once" {
			t.Fatalf("got %q and error %v, want its answer", got.Message, err)
		}
	}
}

// A second answer may come with the first or later: it never counts for the
// node that is asked about next.
func TestSecondAnswerIsNobodys(t *testing.T) {
	t.Parallel()
	h := talking(t, "good")
	before := answered(t, h, "n1")
	if got, err := h.Answer(t.Context(), Input{Identity: "twice"}); err == nil {
		if got.Message != "one" {
			t.Errorf("got %q, want the first answer", got.Message)
		}
		awaitOutput(t, h.idle[0]) // the second one
	}
	if after := answered(t, h, "n2"); after[0] == before[0] {
		t.Errorf("got process %s again, want a new one", after[0])
	}
}

func TestPersistentHelperThatSpeaksUnasked(t *testing.T) {
	t.Parallel()
	_, err := talking(t, "early").Answer(t.Context(), Input{Inventory: strings.Repeat("i", 1<<20)})
	wantCause(t, err, ErrAnswer, "before it had read")
}

// The answer is right, and yet it answers nothing: it was not asked for.
func TestAnswerWithoutReadingTheQuestionIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not tell what was read of a pipe")
	}
	got, err := talking(t, "guess").Answer(t.Context(), Input{Identity: "n1"})
	if err == nil {
		t.Errorf("got %q, want an error", got.Message)
	}
	wantCause(t, err, ErrAnswer, "before it had read")
}

// awaitOutput waits until a helper has written what nobody has read yet.
func awaitOutput(t *testing.T, w *worker) {
	t.Helper()
	raw, err := w.pipes.out.ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		for {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAnswerWrittenBeforeTheQuestionIsRefused(t *testing.T) {
	t.Parallel()
	signal, written := filepath.Join(t.TempDir(), "signal"), filepath.Join(t.TempDir(), "written")
	for _, pipe := range []string{signal, written} {
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := talking(t, "ahead", signal, written)
	if got, err := h.Answer(t.Context(), Input{Identity: "n1"}); err != nil || got.Message != "asked" {
		t.Fatalf("got %q and error %v, want an answer", got.Message, err)
	}
	before := h.idle[0]
	if err := os.WriteFile(signal, []byte("now"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(written); err != nil {
		t.Fatal(err)
	}
	// Nothing that the process wrote ahead counts, nor does the process.
	if _, err := before.exchange(t.Context(), []byte("{\"identity\":\"n2\"}\n")); err == nil || !errors.Is(err, errUnasked) {
		t.Errorf("got error %v, want %v", err, errUnasked)
	}
	if got, err := h.Answer(t.Context(), Input{Identity: "n2"}); err == nil && got.Message != "asked" {
		t.Errorf("got %q, want what was asked for", got.Message)
	}
}

func TestCancelledPersistentHelperIsEnded(t *testing.T) {
	t.Parallel()
	h := talking(t, "good")
	words := answered(t, h, "n1")
	stop := errors.New("the operator said stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, err := h.Answer(ctx, Input{Identity: "hang"})
	wantCause(t, err, stop, "the operator said stop")
	pid, bad := strconv.Atoi(words[0])
	if bad != nil {
		t.Fatal(bad)
	}
	wantGroupGone(t, pid)
}

func TestPersistentHelpersWorkSideBySide(t *testing.T) {
	t.Parallel()
	h := talking(t, "good")
	var asking sync.WaitGroup
	for i := range 40 {
		asking.Go(func() {
			id := "n" + strconv.Itoa(i)
			got, err := h.Answer(t.Context(), Input{Identity: id})
			if words := strings.Fields(got.Message); err != nil || len(words) != 4 || words[2] != id {
				t.Errorf("%s: got %q and error %v, want its own answer", id, got.Message, err)
			}
		})
	}
	asking.Wait()
}
