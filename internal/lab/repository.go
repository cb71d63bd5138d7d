package lab

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A release is this script, which puts the server it replaced back in its
// place: only the version it then reports is new. The script must be the same
// for every version, since the standard library does not write bzip2; the
// version is what the server wrote down when it was asked to upgrade.
const (
	releaseScript = `#!/bin/sh
set -e
mv "${0%/*}/release.wanted" "${0%/*}/release"
mv "$0.backup" "$0"
exec "$0" "$@"
`
	releaseBzip2 = "QlpoMTFBWSZTWYQZKlwAAAzdgAAQfhPAAEAAPm9fyiAAVCVTanqANAA0BtQaTU0NG1B6QMjQaVEsDXswydyq7k9kBJeCaNA07cxlQdQFAwR+cIokHQ+PBuIi6ut6qFPbGeIKk2UWMVzGPxdyRThQkIQZKlw="
)

// repository serves releases over HTTP as release_update fetches them:
// VERSION/GOOS/GOARCH/release.json and the file it names, for every VERSION.
// github.com/choria-io/go-updater defines the layout.
type repository struct {
	url    string
	server *http.Server
	done   chan struct{}
}

func startRepository() (*repository, error) {
	packed, err := base64.StdEncoding.DecodeString(releaseBzip2)
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(map[string]string{
		"binary": "choria.bz2",
		"hash":   fmt.Sprintf("%x", sha256.Sum256([]byte(releaseScript))),
	})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving releases: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{version}/{os}/{arch}/release.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(spec) })
	mux.HandleFunc("GET /{version}/{os}/{arch}/choria.bz2", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed) })
	r := &repository{
		url:    "http://" + listener.Addr().String(),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		done:   make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		_ = r.server.Serve(listener) // until close
	}()
	return r, nil
}

func (r *repository) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := r.server.Shutdown(ctx)
	<-r.done
	return err
}
