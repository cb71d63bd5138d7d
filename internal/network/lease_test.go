package network

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestALeaseThatWasNotRenewedInTimeCountsAsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Lease{ttl: 10 * time.Second, renewed: time.Now()}
		time.Sleep(7 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("got %v within the time that others wait, want nil", err)
		}
		time.Sleep(time.Second) // nobody renews: as if the process stood still
		if err := l.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("got %v before others can have it, want %v", err, ErrLost)
		}
	})
}
