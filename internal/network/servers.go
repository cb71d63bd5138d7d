package network

import (
	"strings"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/srvcache"
)

// brokers returns the addresses of fw's brokers. go-choria takes the brackets
// off an IPv6 address and leaves them off in the URL that it passes on, which is
// none then: they are put back.
func brokers(fw *choria.Framework) (srvcache.Servers, error) {
	servers, err := fw.MiddlewareServers()
	if err != nil {
		return nil, err
	}
	servers.Each(func(s srvcache.Server) {
		if host := s.Host(); strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			s.SetHost("[" + strings.ReplaceAll(host, "%", "%25") + "]") // a zone begins with %
		}
	})
	return servers, nil
}
