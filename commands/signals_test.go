package commands

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestInterruptedNamesItsSignal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		signal os.Signal
		want   string
	}{
		{syscall.SIGTERM, "interrupted by SIGTERM"},
		{syscall.SIGINT, "interrupted by SIGINT"},
		{os.Interrupt, "interrupted by SIGINT"},
		{syscall.SIGHUP, "interrupted by SIGHUP"},
	}
	for _, tt := range tests {
		if got := (Interrupted{tt.signal}).Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestASecondSignalCountsOnceTheFirstIsOver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		after []time.Duration // from the first signal to each later one
		want  []int           // codes of the exits that were asked for
	}{
		{"one", nil, nil},
		{"two at once, as timeout sends them", []time.Duration{0, time.Millisecond}, nil},
		{"a later one", []time.Duration{echo}, []int{128 + 15}},
		{"at once and later", []time.Duration{time.Millisecond, time.Minute}, []int{128 + 15}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stop, first := context.WithCancelCause(t.Context())
				signals := make(chan os.Signal, 2)
				var codes []int
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					obey(signals, first, func(code int) { codes = append(codes, code) })
				}()
				signals <- syscall.SIGINT
				synctest.Wait()
				if !errors.Is(context.Cause(stop), Interrupted{syscall.SIGINT}) {
					t.Errorf("got %v, want the first signal", context.Cause(stop))
				}
				begin := time.Now()
				for _, after := range tt.after {
					time.Sleep(after - time.Since(begin))
					signals <- syscall.SIGTERM
					synctest.Wait()
				}
				close(signals)
				<-ended
				if len(codes) != len(tt.want) || len(codes) > 0 && codes[0] != tt.want[0] {
					t.Errorf("got exits %v, want %v", codes, tt.want)
				}
			})
		})
	}
}
