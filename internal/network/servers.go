package network

import (
	"fmt"
	"strings"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/srvcache"
)

// Where go-choria looks for brokers that its configuration does not name.
const (
	defaultBroker = "puppet"
	defaultPort   = 4222
)

// srvRecords are looked up in the domain of plugin.choria.srv_domain, or of facter.
var srvRecords = []string{"_mcollective-server._tcp", "_x-puppet-mcollective._tcp"}

// brokers returns the addresses of fw's brokers and, where the configuration
// does not name them, where they are from. go-choria takes the brackets off an
// IPv6 address and leaves them off in the URL that it passes on, which is none
// then: they are put back.
func brokers(fw *choria.Framework) (servers srvcache.Servers, origin string, err error) {
	if len(fw.Configuration().Choria.MiddlewareHosts) == 0 && !fw.IsFederated() {
		servers, origin = unnamedBrokers(fw)
	} else if servers, err = fw.MiddlewareServers(); err != nil {
		return nil, "", err
	}
	servers.Each(func(s srvcache.Server) {
		if host := s.Host(); strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			s.SetHost("[" + strings.ReplaceAll(host, "%", "%25") + "]") // a zone begins with %
		}
	})
	return servers, origin, nil
}

// unnamedBrokers is go-choria's MiddlewareServers without hosts. That one logs
// each lookup that fails through a logger of its own, which no option silences.
func unnamedBrokers(fw *choria.Framework) (servers srvcache.Servers, origin string) {
	why := "`plugin.choria.use_srv` is off"
	if fw.Configuration().Choria.UseSRVRecords {
		servers, err := fw.QuerySrvRecords(srvRecords)
		switch {
		case err != nil:
			why = fmt.Sprintf("looking for SRV records: %v", err)
		case servers.Count() > 0:
			servers.Each(func(s srvcache.Server) {
				if s.Scheme() == "" {
					s.SetScheme("nats")
				}
			})
			return servers, "from SRV records"
		default:
			why = "no SRV records in " + fw.Configuration().Choria.SRVDomain
		}
	}
	servers = srvcache.NewServers(srvcache.NewServer(defaultBroker, defaultPort, "nats"))
	return servers, "the default: `plugin.choria.middleware_hosts` is missing; " + why
}
