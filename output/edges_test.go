package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"
	"choria-provision/provision/trust"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

func TestRedactorMayBeUsedWhileSecretsAreAdded(t *testing.T) {
	t.Parallel()
	r := NewRedactor([]string{"secret-0"})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { r.Add(fmt.Sprint("secret-", i)) })
		group.Go(func() {
			if got := r.Replace("secret-0"); got != "****" {
				t.Errorf("got %q, want ****", got)
			}
			if got := Redact(r, future{Words: "secret-0"}); got.Words != "****" {
				t.Errorf("got %q, want ****", got.Words)
			}
		})
	}
	group.Wait()
	for i := range 8 {
		if got := r.Replace(fmt.Sprint("secret-", i)); got != "****" {
			t.Errorf("got %q, want every added secret redacted", got)
		}
	}
}

func TestLongerSecretsAreReplacedFirst(t *testing.T) {
	t.Parallel()
	tests := []struct {
		secrets    []string
		text, want string
	}{
		{[]string{"pass", "password"}, "a password", "a ****"},
		{[]string{"password", "pass"}, "a pass", "a ****"},
		{[]string{"pass"}, "passpass", "********"},
		{[]string{"four"}, "fourteen", "****teen"},
		{[]string{"abc"}, "abc", "abc"},
		{[]string{"äb"}, "äb", "äb"}, // three bytes
		{[]string{"äö"}, "äö", "****"},
		{nil, "text", "text"},
	}
	for _, tt := range tests {
		if got := NewRedactor(tt.secrets).Replace(tt.text); got != tt.want {
			t.Errorf("%q in %q: got %q, want %q", tt.secrets, tt.text, got, tt.want)
		}
	}
}

func TestRedactedErrorsKeepTheirPlaceAndCause(t *testing.T) {
	t.Parallel()
	r := NewRedactor([]string{sample})
	inner := fmt.Errorf("%w: %s", trust.ErrSigning, sample)
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"plain", inner, trust.ErrSigning.Error() + ": ****"},
		{"with a place", located("web1", "server jwt", inner), located("web1", "server jwt", errors.New(trust.ErrSigning.Error()+": ****")).Error()},
		{"joined", errors.Join(inner, errors.New("and "+sample)), trust.ErrSigning.Error() + ": ****\nand ****"},
		{"without a secret", trust.ErrSigning, trust.ErrSigning.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := r.Error(tt.err)
			if got.Error() != tt.want || !errors.Is(got, trust.ErrSigning) {
				t.Errorf("got %v, want %s with its cause", got, tt.want)
			}
			var before, after *provision.Error
			if errors.As(tt.err, &before) != errors.As(got, &after) || after != nil && (after.Node != before.Node || after.Step != before.Step || strings.Contains(after.Err.Error(), sample)) {
				t.Errorf("got the place %+v, want that of %+v", after, before)
			}
			if id, _ := Hint(got); id != "signing" {
				t.Errorf("got cause %q, want signing", id)
			}
		})
	}
}

func TestEmitWithoutObserversAndInOrder(t *testing.T) {
	t.Parallel()
	Emit()(1) // does nothing
	var order []string
	first := observerFunc(func(event any) { order = append(order, fmt.Sprint("first ", event)) })
	second := observerFunc(func(event any) { order = append(order, fmt.Sprint("second ", event)) })
	emit := Emit(first, second)
	emit(1)
	emit(2)
	if diff := cmp.Diff([]string{"first 1", "second 1", "first 2", "second 2"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type observerFunc func(any)

func (f observerFunc) Observe(event any) { f(event) }

func TestOnlyTerminalsAreTerminals(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, w := range map[string]io.Writer{"a file": file, "a buffer": &strings.Builder{}, "nothing": nil} {
		if IsTerminal(w) || terminalWidth(w) != 0 || colored(w, "auto") {
			t.Errorf("%s: got a terminal, want none", name)
		}
	}
}

func TestLiveViewFitsASmallTerminal(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ width, height int }{{1, 1}, {20, 4}, {40, 8}, {200, 100}} {
		t.Run(fmt.Sprintf("%dx%d", size.width, size.height), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var s screen
				l := newLive(&s, PageOptions{Color: "never"}, func() (int, int) { return size.width, size.height })
				l.Observe(provision.RunStarted{Nodes: 60})
				for i := range 40 {
					l.Observe(provision.NodeAssigned{Node: fmt.Sprintf("node%02d.example.net", i)})
				}
				l.Observe(failed("a.example.net", "configure", provision.ErrNoReply)[1])
				time.Sleep(2 * tick)
				synctest.Wait()
				shown := strings.Split(s.text(), "\n")
				if most := min(max(size.height/2, 3), 16) + 1; len(shown) > most {
					t.Errorf("got %d lines, want at most %d", len(shown), most)
				}
				for _, line := range shown {
					if w := ansi.StringWidth(line); w > max(size.width-1, 1) {
						t.Errorf("got %d columns in %q, want at most %d", w, line, size.width-1)
					}
				}
				l.Close()
				if got := s.text(); got != "" {
					t.Errorf("got %q after the end, want nothing left", got)
				}
			})
		})
	}
}

func TestLiveViewThatIsClosedAtOnceKeepsLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s screen
		l := newLive(&s, PageOptions{Color: "never"}, func() (int, int) { return 80, 24 })
		for i := range 3 {
			fmt.Fprintln(l, "line", i)
		}
		l.Close()
		if got, want := s.text(), "line 0\nline 1\nline 2"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		l.Observe(discovery.Admitted{}) // late events draw nothing
		time.Sleep(2 * tick)
		if got, want := s.text(), "line 0\nline 1\nline 2"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestCredentialsAreHiddenByTheirForm(t *testing.T) {
	t.Parallel()
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJjaHQiOiJ4In0.c2lnbmF0dXJl"
	key := "-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY-----"
	tests := []struct{ name, text, want string }{
		{"in a URL", "https://x/?t=" + jwt + "&a=b", "https://x/?t=****&a=b"},
		{"twice", jwt + " " + jwt, "**** ****"},
		{"without a signature", "eyJhbGciOiJSUzI1NiJ9.eyJjaHQiOiJ4In0.", "****"},
		{"too short for one", "eyJ.a.b", "eyJ.a.b"},
		{"a key between texts", "before " + key + " after", "before **** after"},
		{"two keys", key + "," + key, "****,****"},
		{"an encrypted key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nabc\n-----END ENCRYPTED PRIVATE KEY-----", "****"},
		{"a public key", "-----BEGIN PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----"},
		{"a key that is cut", strings.TrimSuffix(key, "-----END EC PRIVATE KEY-----"), "****"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Escape(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := Escape(Escape(tt.text)); got != tt.want {
				t.Errorf("got %q at the second time, want %q", got, tt.want)
			}
			if limited := EscapeTo(tt.text, 40); strings.Contains(limited, "MHcCAQ") {
				t.Errorf("got %q, want no part of the key", limited)
			}
		})
	}
}
