#!/bin/sh
# A helper for a site with a certificate authority of its own (features.pki): it
# signs what the node asks for and answers with its configuration. It needs sh,
# sed and openssl.
#
# Set BROKER and CA here, or in the environment of provision. CA is a directory
# with ca.pem and ca.key, which this user must be able to read.
set -eu

BROKER=${BROKER:-nats://broker.example.net:4222}
CA=${CA:-/etc/choria-provision/ca}

input=$(cat)

# See helper.sh: nothing that a node sent can look like these keys.
field() { printf '%s' "$input" | sed -n "s/^$1\"\\([^\"]*\\)\".*\$/\\1/p"; }

identity=$(field '{"identity":')
csr=$(field '.*"csr":{"csr":')
ssldir=$(field '.*"csr":{[^}]*"ssldir":')

# A dry run has no node ask for a certificate: csr is null then.
if [ -z "$csr" ] && [ -n "${PROVISION_DRY_RUN:-}" ]; then
	printf '{"defer": true, "msg": "no certificate is signed in a dry run"}\n'
	exit 0
fi
if [ -z "$csr" ]; then
	echo "the input holds no csr: turn on features.pki" >&2 # stderr is shown to the operator
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# %b turns the \n of JSON into line ends. The names come from us, not from the
# request: provision has compared its CN and names already.
printf '%b' "$csr" >"$work/csr.pem"
printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$identity" >"$work/extensions"
openssl x509 -req -in "$work/csr.pem" -CA "$CA/ca.pem" -CAkey "$CA/ca.key" \
	-set_serial "0x$(openssl rand -hex 16)" -days 365 -sha256 \
	-extfile "$work/extensions" -out "$work/certificate.pem"

pem() { awk '{ printf "%s\\n", $0 }' "$1"; }

cat <<JSON
{
  "certificate": "$(pem "$work/certificate.pem")",
  "ca": "$(pem "$CA/ca.pem")",
  "configuration": {
    "identity": "$identity",
    "plugin.choria.server.provision": "false",
    "plugin.choria.middleware_hosts": "$BROKER",
    "plugin.choria.use_srv": "false",
    "plugin.security.provider": "file",
    "plugin.security.file.certificate": "$ssldir/certificate.pem",
    "plugin.security.file.key": "$ssldir/private.pem",
    "plugin.security.file.ca": "$ssldir/ca.pem",
    "rpcauthorization": "true",
    "rpcauthprovider": "action_policy"
  },
  "action_policies": {
    "rpcutil.policy": "policy default deny\nallow\t*\tping inventory get_fact\t*\t*\n"
  }
}
JSON
