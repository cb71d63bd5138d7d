package output

import (
	"os"
	"testing"
)

func TestTerminalThatDoesNotKnowItsSize(t *testing.T) {
	t.Parallel()
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0) // a new terminal has no size yet
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if width, height := screenSize(f); width != minWidth || height != 24 {
		t.Errorf("got %d by %d, want %d by 24", width, height, minWidth)
	}
}
