package config

// formerKeys are keys of the peer's older releases that its current ones pass
// over in silence; here each is a warning. None of them is unsafe to pass over:
// with leader_election on, all instances of current releases share one election,
// and a policy that rego_policy named decided nothing.
var formerKeys = map[[2]string]struct{ text, hint string }{ // by the mapping and the key in it
	{"", "leader_election_name"}: {"is read by nothing: the election is always `provisioner`; an instance of an older release that still uses another name leads beside this one, and sites that share a broker share the election",
		"take it out, and end instances of older releases before this one starts"},
	{"features", "broker"}: {"is read by nothing: no broker is built in any more, nodes and provisioner connect to an ordinary Choria broker",
		"take it out; name the broker in the Choria client configuration (plugin.choria.middleware_hosts) and in provisioning.jwt"},
	{"", "broker_port"}: {"is read by nothing: it belonged to the broker that older releases had built in", "take it out"},
	{"", "rego_policy"}: {"is read by nothing", "take it out; policies come in the helper's answer (opa_policies)"},
}

// former reports a key of an older release, and whether it is one.
func (d *decoder) former(path string, e entry) bool {
	was, known := formerKeys[[2]string{path, e.key}]
	if known {
		at := placeOf(e.value)
		p := warning(join(path, e.key), was.text, was.hint)
		p.Line, p.Column = at.line, at.column
		d.problems = append(d.problems, p.Problem)
	}
	return known
}
