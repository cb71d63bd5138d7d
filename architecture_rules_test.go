package main

// packageRule states what the files of one package may import directly. Names
// of ours are relative to the module; the root package is ".".
type packageRule struct {
	pkg    string
	may    []string // packages of ours
	never  []string // families of modules: see families
	reason string
}

// familyRule names the packages that alone may import a family.
type familyRule struct {
	family string
	only   []string
	reason string
}

// fileRule names the file that alone may make an import its package may have.
type fileRule struct {
	pkg, imports, file string
	reason             string
}

// exception is an import against the rules that is still in the code, and where
// it is to go. The test fails when the code no longer needs it.
type exception struct{ pkg, imports, goes string }

// families are modules by the name that rules use for them: a prefix of import
// paths each. What a dependency imports in turn is not checked, direct imports
// are.
var families = map[string][]string{
	"NATS":          {"github.com/nats-io"},
	"go-choria":     {"github.com/choria-io/go-choria"},
	"fisk":          {"github.com/choria-io/fisk"},
	"client_golang": {"github.com/prometheus/client_golang"},
	"lipgloss":      {"github.com/charmbracelet/lipgloss"},
	"logrus":        {"github.com/sirupsen/logrus"},
	"SQLite":        {"modernc.org/sqlite", "database/sql"},
}

// Groups that several rules share.
var (
	sequencePackages = []string{"config", "discovery", "internal/network", "provision/helper", "provision/trust", "provision/workers", "provision/installstate"}
	watchPackages    = append([]string{"provision"}, sequencePackages...)
	sessionPackages  = append([]string{"output", "output/metrics"}, watchPackages...)
	daemonPackages   = append([]string{"internal/session", "provision/watch"}, sessionPackages...)
)

// packageRules has a row for every package; rows of packages that do not exist
// apply once they do.
var packageRules = []packageRule{
	{".", []string{"commands"}, nil,
		"main has arguments, streams and the exit code; everything else can be tested in commands"},
	{"commands", append([]string{"examples", "internal/daemon", "internal/fleet", "internal/lab", "internal/status"}, daemonPackages...), nil,
		"commands declares and wires, so it sees all but the scripted nodes of tests; metrics go through output/metrics"},
	{"config", nil, []string{"NATS"},
		"a configuration is loaded and checked before anything is connected or written"},
	{"internal/network", nil, nil,
		"connections carry requests without knowing what they ask"},
	{"discovery", []string{"internal/network"}, nil,
		"finding nodes needs a connection, and neither helper, state nor configuration"},
	{"provision/installstate", nil, []string{"go-choria"},
		"identities are strings and the bucket is passed in: state can be tested and replaced without Choria"},
	{"provision/helper", []string{"config", "provision/trust"}, []string{"NATS"},
		"a helper is run and its answer checked without a connection: helper run does just that; keys and certificates in an answer have their one reader in trust"},
	{"provision/trust", []string{"config"}, []string{"NATS"},
		"credentials are verified from bytes alone, so that their fuzz tests need no broker"},
	{"provision/workers", nil, []string{"go-choria"},
		"the pool knows how many nodes are called at once, not what is sent to them"},
	{"provision", sequencePackages, []string{"client_golang", "lipgloss", "logrus"},
		"the sequence emits events; terminal, log and metrics observe them from outside"},
	{"provision/watch", watchPackages, []string{"client_golang", "lipgloss"},
		"continuous mode runs the sequence again and again; it shows nothing itself"},
	{"output", []string{"config", "discovery", "provision", "provision/helper", "provision/trust", "provision/installstate"}, []string{"NATS"},
		"observers see events, never the connection that caused them"},
	{"output/metrics", []string{"config", "output", "discovery", "provision"}, nil,
		"metrics are one more observer; config names the Pushgateway and reads its password"},
	{"internal/status", []string{"provision/installstate", "output"}, nil,
		"status reads what runs left behind, and works while no broker can be reached"},
	{"internal/session", sessionPackages, nil,
		"one session serves once, node and each turn of watch, so it knows none of them"},
	{"internal/daemon", daemonPackages, nil,
		"the process side of watch wraps sessions and the watcher, and no command"},
	{"examples", nil, nil,
		"embedded files have no code"},
	{"internal/fake", []string{"config", "provision", "provision/installstate"}, nil,
		"scripted nodes replace the connection of a sequence in its tests"},
	{"internal/fleet", []string{"internal/fake", "provision"}, nil,
		"light nodes answer over a broker as the scripted ones do"},
	{"internal/lab", []string{"internal/fleet", "internal/network"}, nil,
		"a lab runs the light nodes beside its broker, so it needs fleet, against the rule that only commands imports it"},
	{"internal/crash", nil, nil,
		"it has only tests"},
}

// familyRules names who alone imports what.
var familyRules = []familyRule{
	{"fisk", []string{"commands"}, "only the command line is parsed with it"},
	{"client_golang", []string{"output/metrics"}, "only metrics are registered, pushed and served with it"},
	{"SQLite", []string{"provision/installstate", "internal/fake"}, "only the embedded engine has tables; the scripted nodes damage its file in tests"},
}

// fileRules narrow what packageRules allow.
var fileRules = []fileRule{
	{"provision", "internal/network", "choria.go", "one file joins the sequence to the broker; every other one meets it as the interface RPC"},
}

// exceptions shrinks as code moves.
var exceptions []exception
