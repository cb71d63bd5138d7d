package installstate

import "testing"

// Two `resume` at once: the one that comes second finds nothing left to remove.
func TestRemovingAValueThatIsGoneIsNoConflict(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	if err := s.updateValue(pauseValue, func([]byte) ([]byte, error) { return nil, nil }); err != nil {
		t.Errorf("got %v, want success: there is none any more", err)
	}
}
