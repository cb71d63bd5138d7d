package metrics

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"choria-provision/output"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server serves /metrics and /healthz over HTTP for the continuous mode.
type Server struct {
	server *http.Server
	ended  chan struct{}
}

// Serve listens on address, such as 127.0.0.1:8080, and serves until Close. At
// /metrics it serves what g gathers and the resources that this process uses. At
// /healthz it answers 200 while healthy returns nil, else 503 and the error.
// Serve returns once it listens; the address it returns has the real port.
func Serve(address string, g prometheus.Gatherer, healthy func() error) (*Server, net.Addr, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("monitor_port: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(withProcess(g), promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, output.Escape(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s := &Server{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute},
		ended:  make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(listener) // returns after Close only
	}()
	return s, listener.Addr(), nil
}

// withProcess adds the standard series of a Go process. They have a registry of
// their own because a push and a textfile outlive the process.
func withProcess(g prometheus.Gatherer) prometheus.Gatherer {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return prometheus.Gatherers{g, own}
}

// Close closes the listener and all connections and waits for the server's end.
func (s *Server) Close() error {
	err := s.server.Close()
	<-s.ended
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
