package commands

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"choria-provision/internal/lab"
)

// link is a network path to a lab's broker that can be frozen: what is sent
// then is under way and arrives when it thaws, whatever became of the sender.
type link struct {
	listener net.Listener
	broker   string

	mu     sync.Mutex
	thawed chan struct{} // closed while the link is not frozen
	all    []net.Conn
	pumps  sync.WaitGroup
}

func newLink(t *testing.T, l *lab.Lab) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{listener: listener, broker: strings.TrimPrefix(l.BrokerURL(), "nats://"), thawed: make(chan struct{})}
	close(k.thawed)
	k.pumps.Go(k.accept)
	t.Cleanup(k.close)
	return k
}

func (k *link) accept() {
	for {
		near, err := k.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", k.broker)
		if err != nil {
			near.Close()
			continue
		}
		k.mu.Lock()
		k.all = append(k.all, near, far)
		k.mu.Unlock()
		k.pumps.Go(func() { k.pump(far, near) })
		k.pumps.Go(func() { k.pump(near, far) })
	}
}

// pump takes everything in at once and passes it on while the link is thawed.
func (k *link) pump(to, from net.Conn) {
	queue := make(chan []byte, 10_000)
	k.pumps.Go(func() {
		defer close(queue)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				queue <- buffer[:n]
			}
			if err != nil {
				return
			}
		}
	})
	for data := range queue {
		k.mu.Lock()
		thawed := k.thawed
		k.mu.Unlock()
		<-thawed
		if _, err := to.Write(data); err != nil {
			break
		}
	}
	to.Close()
	for range queue { // until the reader has ended
	}
}

func (k *link) freeze() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.thawed = make(chan struct{})
}

func (k *link) thaw() {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.thawed:
	default:
		close(k.thawed)
	}
}

func (k *link) close() {
	k.listener.Close()
	k.thaw()
	k.mu.Lock()
	for _, conn := range k.all {
		conn.Close()
	}
	k.mu.Unlock()
	k.pumps.Wait()
}

// choriaConfig is the lab's client configuration, over this link.
func (k *link) choriaConfig(t *testing.T, l *lab.Lab) string {
	t.Helper()
	text, err := os.ReadFile(l.ChoriaFile())
	if err != nil {
		t.Fatal(err)
	}
	over := strings.ReplaceAll(string(text), k.broker, k.listener.Addr().String())
	if over == string(text) {
		t.Fatalf("the client configuration does not name the broker %s:\n%s", k.broker, text)
	}
	path := filepath.Join(t.TempDir(), "client.conf")
	if err := os.WriteFile(path, []byte(over), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
