// Package config knows the YAML file of the product: its keys, their defaults,
// the checks they must pass, where secrets come from, the pause flag, and the
// Choria client configuration that is made from all that. It does not touch
// the network and does not know what provisioning is.
package config

import (
	"regexp"
	"runtime"
	"time"
)

// Config is the effective configuration: every key, after defaults, with
// durations, patterns and command lines already parsed. Load is the only
// source of a checked one; Default gives one without file.
type Config struct {
	// File is the absolute path the configuration was read from, empty for Default.
	File string `yaml:"-"`

	Workers            int       `yaml:"workers"`             // nodes worked on at once, from their first answer on
	Interval           Duration  `yaml:"interval"`            // of watch; twice as old is stale
	LogFile            string    `yaml:"logfile"`             // empty: stderr
	LogLevel           string    `yaml:"loglevel"`            // debug, info, warn, error
	Helper             Command   `yaml:"helper"`              // split as a shell would
	Token              Secret    `yaml:"token"`               // shared with provisioning.jwt
	LifecycleComponent string    `yaml:"lifecycle_component"` // one NATS subject token
	Insecure           bool      `yaml:"choria_insecure"`     // no TLS, no signatures
	Site               string    `yaml:"site"`                // label on every metric
	MonitorPort        int       `yaml:"monitor_port"`        // 0: off; watch only
	BrokerPassword     Secret    `yaml:"broker_provisioning_password"`
	CertDenyList       []Pattern `yaml:"cert_deny_list"`
	CertAllowList      []Pattern `yaml:"cert_allow_list"`   // matched against whole names
	JWTVerifyCert      string    `yaml:"jwt_verify_cert"`   // a file, else a hex ed25519 public key
	JWTSigningKey      string    `yaml:"jwt_signing_key"`   // seed file
	JWTSigningToken    string    `yaml:"jwt_signing_token"` // JWT file
	ServerJWTValidity  Duration  `yaml:"server_jwt_validity"`
	LeaderElection     bool      `yaml:"leader_election"`
	UpgradesRepository string    `yaml:"upgrades_repository"`
	UpgradesOptional   bool      `yaml:"upgrades_optional"`
	Features           Features  `yaml:"features"`

	StateDir           string      `yaml:"state_dir"`
	Records            string      `yaml:"records"`               // embedded or streams
	RecordsChoria      string      `yaml:"records_choria_config"` // Choria client configuration; for streams
	ConnectTimeout     Duration    `yaml:"connect_timeout"`
	DiscoveryTimeout   Duration    `yaml:"discovery_timeout"`
	RPCTimeout         Duration    `yaml:"rpc_timeout"` // 0: the agent's own
	HelperTimeout      Duration    `yaml:"helper_timeout"`
	HelperWorkers      int         `yaml:"helper_workers"` // 0: as many as workers
	HelperMode         string      `yaml:"helper_mode"`    // exec or persistent
	RunTimeout         Duration    `yaml:"run_timeout"`    // 0: none
	Limit              int         `yaml:"limit"`          // 0: none
	TokenFile          string      `yaml:"token_file"`
	BrokerPasswordFile string      `yaml:"broker_provisioning_password_file"`
	Pushgateway        Pushgateway `yaml:"pushgateway"`
	MetricsTextfile    string      `yaml:"metrics_textfile"`
	MonitorAddress     string      `yaml:"monitor_address"` // of monitor_port; an IP address

	keys siteKeys // found by the checks
}

// Features gate single steps of the sequence.
type Features struct {
	PKI      bool `yaml:"pki"`
	JWT      bool `yaml:"jwt"`
	ED25519  bool `yaml:"ed25519"` // turns JWT on, excludes PKI
	Upgrades bool `yaml:"upgrades"`
}

// Pushgateway says where and how a run pushes its metrics; an empty URL turns
// pushing off.
type Pushgateway struct {
	URL          string            `yaml:"url"`
	Job          string            `yaml:"job"`
	Grouping     map[string]string `yaml:"grouping"` // labels beside job and site
	Username     string            `yaml:"username"`
	PasswordFile string            `yaml:"password_file"`
	Headers      Headers           `yaml:"headers"` // values are secrets
	CA           string            `yaml:"ca"`      // PEM file
	Timeout      Duration          `yaml:"timeout"`
}

// Headers are HTTP headers; their values print as **** since they may hold
// credentials.
type Headers map[string]string

// Duration is a time.Duration that is written as go-choria writes them: 1m,
// 10h, 1d, 1y.
type Duration struct{ time.Duration }

// Pattern is a compiled regular expression and the text it came from.
type Pattern struct {
	*regexp.Regexp
	Source string
}

// Command is a command line and the arguments a shell would make of it.
type Command struct {
	Line string
	Args []string // program first; empty when Line is
}

// The values of helper_mode.
const (
	HelperExec       = "exec"       // one process for each node
	HelperPersistent = "persistent" // few processes, each asked about many nodes
)

// The values of records.
const (
	RecordsEmbedded = "embedded" // in the state directory of this host
	RecordsStreams  = "streams"  // in Choria Streams, shared by several hosts
)

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Workers:            runtime.NumCPU(),
		Interval:           Duration{time.Minute},
		LogLevel:           "info",
		LifecycleComponent: "provision_mode_server",
		CertDenyList:       defaultDenyList(),
		CertAllowList:      []Pattern{},
		ServerJWTValidity:  Duration{365 * 24 * time.Hour},
		ConnectTimeout:     Duration{10 * time.Second},
		DiscoveryTimeout:   Duration{2 * time.Second},
		HelperTimeout:      Duration{10 * time.Second},
		HelperMode:         HelperExec,
		Records:            RecordsEmbedded,
		MonitorAddress:     "127.0.0.1",
		Pushgateway: Pushgateway{
			Job:     "choria_provision",
			Timeout: Duration{5 * time.Second},
		},
	}
}

func defaultDenyList() []Pattern {
	var list []Pattern
	for _, source := range []string{`\.privileged.mcollective$`, `\.privileged.choria$`, `\.mcollective$`, `\.choria$`} {
		list = append(list, Pattern{regexp.MustCompile(source), source})
	}
	return list
}
