package network

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/client/rpcutilclient"
	"github.com/choria-io/go-choria/protocol"
	v1 "github.com/choria-io/go-choria/protocol/v1"
	"github.com/nats-io/nats.go"
)

// callers is how many requests are under way at once in the benchmarks.
const callers = 10

// BenchmarkRequest and BenchmarkStockClient ask the same light responder the
// same question: calls/s of the one over calls/s of the other is the gain. cpu
// is that of the whole process, with the broker and the responder.
func BenchmarkRequest(b *testing.B) {
	server := broker(b, nil)
	conn := dial(b, server)
	respond(b, server.ClientURL())
	run(b, func() error {
		replies, err := conn.Request(b.Context(), "n1", "rpcutil", ping)
		if err == nil && len(replies) != 1 {
			err = fmt.Errorf("got %d replies", len(replies))
		}
		return err
	})
}

func BenchmarkStockClient(b *testing.B) {
	server := broker(b, nil)
	respond(b, server.ClientURL())
	fw, err := choria.NewWithConfig(client(b, "provisioner.mcollective", server.ClientURL()))
	if err != nil {
		b.Fatal(err)
	}
	run(b, func() error {
		c, err := rpcutilclient.New(fw)
		if err != nil {
			return err
		}
		result, err := c.OptionTargets([]string{"n1"}).Ping().Do(b.Context())
		if err == nil && result.Stats().OKCount() != 1 {
			err = fmt.Errorf("got %d replies", result.Stats().OKCount())
		}
		return err
	})
}

// BenchmarkBroadcast hears a fleet of n nodes answer at once.
func BenchmarkBroadcast(b *testing.B) {
	for _, n := range []int{1, 100, 1_000, 10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			server := broker(b, nil)
			conn := dial(b, server)
			choir(b, server.ClientURL(), n)
			for b.Loop() {
				senders, err := conn.Broadcast(b.Context(), "choria_provision", Window{First: time.Minute, Quiet: 300 * time.Millisecond, Total: time.Minute})
				if err != nil || len(senders) != n {
					b.Fatalf("got %d, %v, want %d senders", len(senders), err, n)
				}
			}
		})
	}
}

// run calls do b.N times, callers at once, and reports rate and CPU.
func run(b *testing.B, do func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for range callers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// respond answers every directed request at little cost, as the node asked.
func respond(tb testing.TB, url string) {
	answerAll(tb, url, "provisioning.node.*", func(nc *nats.Conn, m *nats.Msg, id string) error {
		name := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		return nc.Publish(m.Reply, replyOf(id, name))
	})
}

// choir is n nodes on one connection that name themselves when asked.
func choir(tb testing.TB, url string, n int) {
	answerAll(tb, url, "provisioning.broadcast.agent.discovery", func(nc *nats.Conn, m *nats.Msg, id string) error {
		for i := range n {
			if err := nc.Publish(m.Reply, replyOf(id, fmt.Sprintf("node%d.example.net", i))); err != nil {
				return err
			}
		}
		return nil
	})
}

func answerAll(tb testing.TB, url, subject string, answer func(nc *nats.Conn, m *nats.Msg, id string) error) {
	tb.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	_, err = nc.Subscribe(subject, func(m *nats.Msg) {
		var t v1.TransportMessage
		var s v1.SecureRequest
		var r v1.Request
		err := errors.Join(json.Unmarshal(m.Data, &t), json.Unmarshal(t.Data, &s), json.Unmarshal([]byte(s.MessageBody), &r))
		if err == nil {
			m.Reply = t.Headers.ReplyTo // the stock client sets no NATS reply subject
			err = answer(nc, m, r.Envelope.RequestID)
		}
		if err != nil {
			tb.Error(err)
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		tb.Fatal(err)
	}
}

// replyOf is what a node answers in protocol v1.
func replyOf(id, sender string) []byte {
	body := encoded(&v1.Reply{
		Protocol: protocol.ReplyV1, MessageBody: `{"statuscode":0,"statusmsg":"OK","data":{"pong":1}}`,
		Envelope: &v1.ReplyEnvelope{RequestID: id, SenderID: sender, Agent: "rpcutil", Time: time.Now().Unix()},
	})
	secure := encoded(&v1.SecureReply{Protocol: protocol.SecureReplyV1, MessageBody: string(body), Hash: hashOf(body)})
	return encoded(&v1.TransportMessage{Protocol: protocol.TransportV1, Data: secure, Headers: &v1.TransportHeaders{MCollectiveSender: sender}})
}

func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return data
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.StdEncoding.EncodeToString(sum[:])
}
