package output

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MetricsServer serves /metrics over HTTP for the continuous mode.
type MetricsServer struct {
	server *http.Server
	ended  chan struct{}
}

// ServeMetrics serves what g gathers at /metrics on address, such as :8080,
// until Close. It returns once it listens.
func ServeMetrics(address string, g prometheus.Gatherer) (*MetricsServer, net.Addr, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("monitor_port: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
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

// Close ends the server and its connections.
func (s *MetricsServer) Close() error {
	err := s.server.Close()
	<-s.ended
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
