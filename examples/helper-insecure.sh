#!/bin/sh
# A helper for a network without credentials: it reads one node's facts from stdin
# and writes that node's configuration to stdout. It needs sh and sed.
#
# Set BROKER here, or in the environment of provision.
set -eu

BROKER=${BROKER:-nats://broker.example.net:4222}

# Without a JSON parser: within a JSON string every quote has a backslash before
# it, so nothing that a node sent can look like this key.
identity=$(sed -n 's/^{"identity":"\([^"\\]*\)".*$/\1/p')
if [ -z "$identity" ]; then
	echo "the input names no identity" >&2 # stderr is shown to the operator
	exit 1
fi

cat <<JSON
{
  "configuration": {
    "identity": "$identity",
    "plugin.choria.server.provision": "false",
    "plugin.choria.middleware_hosts": "$BROKER",
    "plugin.choria.use_srv": "false",
    "plugin.security.provider": "file",
    "rpcauthorization": "true",
    "rpcauthprovider": "action_policy"
  },
  "action_policies": {
    "rpcutil.policy": "policy default deny\nallow\t*\tping inventory get_fact\t*\t*\n"
  }
}
JSON
