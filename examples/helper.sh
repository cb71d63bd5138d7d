#!/bin/sh
# A helper for a site with an Organization Issuer (features.ed25519): it reads
# one node's facts from stdin and writes that node's configuration to stdout.
# It needs nothing but sh, sed and a broker that nodes reach under one name.
#
# Set BROKER and ISSUER here, or in the environment of provision.
set -eu

BROKER=${BROKER:-nats://broker.example.net:4222}
ISSUER=${ISSUER:-0000000000000000000000000000000000000000000000000000000000000000}

input=$(cat)

# Without a JSON parser: within a JSON string every quote has a backslash before
# it, so nothing that a node sent can look like these keys. An identity holds
# letters, digits, dots, dashes and underscores only.
field() { printf '%s' "$input" | sed -n "s/^$1\"\\([^\"\\\\]*\\)\".*\$/\\1/p"; }

identity=$(field '{"identity":')
dir=$(field '.*"ed25519_pubkey":{[^}]*"directory":')

if [ -z "$identity" ]; then
	echo "the input names no identity" >&2 # stderr is shown to the operator
	exit 1
fi

# A dry run makes no key: ed25519_pubkey is null then. The answer is only shown.
if [ -z "$dir" ] && [ -n "${PROVISION_DRY_RUN:-}" ]; then
	dir=/etc/choria
fi
if [ -z "$dir" ]; then
	echo "the input holds no ed25519_pubkey: turn on features.ed25519" >&2
	exit 1
fi

case $identity in
*.lab.example.net)
	printf '{"defer": true, "msg": "the laboratory is provisioned by hand"}\n'
	exit 0
	;;
esac

cat <<JSON
{
  "configuration": {
    "identity": "$identity",
    "plugin.choria.server.provision": "false",
    "plugin.choria.middleware_hosts": "$BROKER",
    "plugin.choria.use_srv": "false",
    "plugin.security.provider": "choria",
    "plugin.security.choria.token_file": "$dir/server.jwt",
    "plugin.security.choria.seed_file": "$dir/server.seed",
    "plugin.security.issuer.names": "choria",
    "plugin.security.issuer.choria.public": "$ISSUER",
    "rpcauthorization": "true",
    "rpcauthprovider": "action_policy"
  },
  "action_policies": {
    "rpcutil.policy": "policy default deny\nallow\t*\tping inventory get_fact\t*\t*\n"
  },
  "server_claims": {
    "permissions": {"streams": true}
  }
}
JSON
