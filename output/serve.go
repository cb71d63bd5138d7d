package output

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MetricsServer serves /metrics and /healthz over HTTP for the continuous mode.
type MetricsServer struct {
	server *http.Server
	ended  chan struct{}
}

// ServeMetrics serves what g gathers, and what this process uses, at /metrics
// and what healthy says at /healthz on address, such as 127.0.0.1:8080, until
// Close: 200 while it says nil, else 503 and why. It returns once it listens.
func ServeMetrics(address string, g prometheus.Gatherer, healthy func() error) (*MetricsServer, net.Addr, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("monitor_port: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(withProcess(g), promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, Escape(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s := &MetricsServer{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute},
		ended:  make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(listener) // ends with Close only
	}()
	return s, listener.Addr(), nil
}

// withProcess adds the standard series of a Go process. They have a registry of
// their own: pushed or in a textfile they would tell of a process that is gone.
func withProcess(g prometheus.Gatherer) prometheus.Gatherer {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return prometheus.Gatherers{g, own}
}

// Close ends the server and its connections.
func (s *MetricsServer) Close() error {
	err := s.server.Close()
	<-s.ended
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
