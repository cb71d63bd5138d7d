package output

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// tick is how often the live view is drawn.
const tick = 100 * time.Millisecond

// Live shows on a terminal how a run goes on, redrawing a few lines at the
// bottom. It hides no cursor and sets no mode, so that a program that is killed
// leaves nothing to repair. bubbletea does the same with more comfort, but
// questions the terminal as soon as a program that links it starts, whatever
// the command.
type Live struct {
	w    io.Writer
	page *Page
	size func() (width, height int)

	mu    sync.Mutex // guards what follows; held for memory only, never for writing
	model *progress
	above bytes.Buffer // lines for above the view, not yet written

	drawn int // lines on the screen; the drawing goroutine's own
	stop  chan struct{}
	ended chan struct{}
	once  sync.Once
}

// NewLive starts to draw on the terminal f. Close ends it.
func NewLive(f *os.File, o PageOptions) *Live {
	return newLive(f, o, func() (int, int) { return screenSize(f) })
}

// screenSize is the size of the terminal f. A serial line and script(1) say
// that theirs is 0 by 0: they do not know it.
func screenSize(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return minWidth, 24
	}
	return width, height
}

func newLive(w io.Writer, o PageOptions, size func() (int, int)) *Live {
	l := &Live{
		w: w, page: NewPage(w, o), size: size, model: newProgress(time.Now()),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go l.run()
	return l
}

// Observe implements Observer.
func (l *Live) Observe(event any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.model.observe(event, time.Now())
}

// Write takes whole lines, such as the log's, and shows them above the view at
// its next drawing. It never waits for the terminal.
func (l *Live) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
		return l.w.Write(text)
	default:
		return l.above.Write(text)
	}
}

// Close takes the view off the screen and returns when nothing will be drawn
// any more. Lines written later go to the terminal directly.
func (l *Live) Close() {
	l.once.Do(func() { close(l.stop) })
	<-l.ended
}

func (l *Live) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.draw(false)
		case <-l.stop:
			l.draw(true)
			l.mu.Lock()
			defer l.mu.Unlock()
			close(l.ended)
			_, _ = l.w.Write(l.above.Bytes()) // came while the last frame was drawn
			return
		}
	}
}

// draw replaces the view by the lines that go above it and, unless it is the
// last time, a new view.
func (l *Live) draw(last bool) {
	width, height := l.size()
	l.mu.Lock()
	var screen strings.Builder
	l.erase(&screen)
	screen.Write(l.above.Bytes())
	l.above.Reset()
	l.page.width = max(width-1, 1) // the last column would wrap the cursor
	if !last {
		lines := l.model.frame(l.page, time.Now(), min(max(height/2, 3), 16))
		screen.WriteString(strings.Join(lines, "\n"))
		l.drawn = len(lines)
	}
	l.mu.Unlock()
	_, _ = io.WriteString(l.w, screen.String())
}

// erase clears the view line by line, from its last to its first. Erasing the
// rest of the screen at once would make tmux keep an old frame in its history
// whenever the view begins in the first row.
func (l *Live) erase(screen *strings.Builder) {
	for line := range l.drawn {
		if line > 0 {
			screen.WriteString("\x1b[A")
		}
		screen.WriteString("\r\x1b[2K")
	}
	l.drawn = 0
}
