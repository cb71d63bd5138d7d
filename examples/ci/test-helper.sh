#!/bin/sh
# Tests a site's helper with real Choria servers and a broker on this machine.
# Usage: test-helper.sh HELPER [NODES]. Writes provision.xml (JUnit).
set -eu

provision lab --nodes "${2:-5}" --helper "$1" --junit provision.xml -- sh -euc '
	# What the helper needs to know of the lab in place of the site.
	BROKER=$(sed -n "s/.*middleware_hosts = //p" "$PROVISION_CHORIA_CONFIG")
	ISSUER=$(cat "${PROVISION_CONFIG%/*}/keys/issuer.public")
	export BROKER ISSUER

	provision helper run # for a node that does not exist: shows the answer
	provision once'
