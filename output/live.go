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

// Live observes a run and redraws a few lines at the bottom of a terminal. It hides
// no cursor and sets no mode, so that a killed process leaves a terminal that
// works. bubbletea is no alternative: a program that links it queries the terminal
// at every start, also for commands without a view.
type Live struct {
	w    io.Writer
	page *Page
	size func() (width, height int)

	mu    sync.Mutex // guards model and above; not held while drawing writes to the terminal
	model *progress
	above bytes.Buffer // lines to write above the view

	drawn int // lines on the screen; used by the drawing goroutine alone
	stop  chan struct{}
	ended chan struct{}
	once  sync.Once
}

// NewLive starts a goroutine that draws on the terminal f until Close.
func NewLive(f *os.File, o PageOptions) *Live {
	return newLive(f, o, func() (int, int) { return screenSize(f) })
}

// screenSize returns the size of the terminal f. A serial line and script(1)
// report 0 by 0, which means unknown.
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

// Write shows whole lines, such as the log's, above the view at the next drawing.
// It does not wait for the terminal, except after Close.
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

// Close erases the view and returns when drawing has ended. Lines written later
// go to the terminal directly.
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
			_, _ = l.w.Write(l.above.Bytes()) // arrived while the last frame was drawn
			return
		}
	}
}

// draw replaces the view by the lines that go above it and a new view; the last
// time without one.
func (l *Live) draw(last bool) {
	width, height := l.size()
	l.mu.Lock()
	var screen strings.Builder
	l.erase(&screen)
	screen.Write(l.above.Bytes())
	l.above.Reset()
	l.page.width = max(width-1, 1) // a text in the last column wraps the cursor
	if !last {
		lines := l.model.frame(l.page, time.Now(), min(max(height/2, 3), 16))
		screen.WriteString(strings.Join(lines, "\n"))
		l.drawn = len(lines)
	}
	l.mu.Unlock()
	_, _ = io.WriteString(l.w, screen.String())
}

// erase clears the view line by line, from its last to its first. To clear the
// rest of the screen at once makes tmux keep an old frame in its history when the
// view begins in the first row.
func (l *Live) erase(screen *strings.Builder) {
	for line := range l.drawn {
		if line > 0 {
			screen.WriteString("\x1b[A")
		}
		screen.WriteString("\r\x1b[2K")
	}
	l.drawn = 0
}
