package config

import (
	"fmt"

	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/protocol"
)

// checkRecords holds that shared records have the login that reaches them.
func checkRecords(c *Config) []finding {
	switch {
	case c.Records != RecordsEmbedded && c.Records != RecordsStreams:
		return []finding{mistake("records", fmt.Sprintf("%q is no place for records", c.Records), "write embedded for this host alone, or streams to share them in Choria Streams")}
	case c.Records == RecordsEmbedded && c.RecordsChoria != "":
		return []finding{warning("records_choria_config", "is not used: records are embedded", "write records: streams, or take it out")}
	case c.Records == RecordsEmbedded:
		return nil
	case c.RecordsChoria == "":
		return []finding{mistake("records", "streams needs records_choria_config", "write the path of a Choria client configuration whose credentials may use Choria Streams in the production account")}
	}
	_, problem := readable("records_choria_config", c.RecordsChoria)
	return asList(problem)
}

// RecordsClient makes the Choria client configuration of the connection to shared
// records. It leads to the production account: the provisioning account has no
// Choria Streams. Mistakes come back as *Invalid.
func (c *Config) RecordsClient(getenv func(string) string) (*choriaconfig.Config, error) {
	file := c.RecordsChoria
	cfg, err := loadChoriaFile(file)
	if err != nil {
		return nil, err
	}
	cfg.LogLevel, cfg.LogFile = c.LogLevel, "stderr"
	if c.LogFile != "" {
		cfg.LogFile = c.LogFile
	}
	cfg.Choria.NatsUser, cfg.Choria.NatsPass = "", ""
	cfg.Collectives = []string{cfg.MainCollective}
	cfg.Choria.NetworkConnectTimeout = min(c.ConnectTimeout.Duration/2, maxDial)
	if c.Insecure {
		cfg.DisableTLS = true
		cfg.Choria.SecurityProvider = "file"
		protocol.Secure = "false"
	}
	if cfg.Choria.SecurityProvider == "choria" && getenv("USER") == "" {
		return nil, choriaMistake(file, "go-choria's security provider choria needs $USER, which is not set", "set USER in the environment (systemd: Environment=USER=...)")
	}
	c.certname(cfg, getenv)
	return cfg, nil
}
