#!/bin/sh
# After removal. deb: `remove` keeps state, log and changed configuration,
# `purge` removes state and log. Keys, tokens and what else an operator put into
# /etc/choria-provision stay. rpm has no purge: the state stays.
set -e
root=${DPKG_ROOT:-}
case ${1:-} in
purge)
	rm -rf "$root/var/lib/choria-provision" "$root/var/log/choria-provision"
	;;
remove | 0)
	if [ -z "$root" ] && [ -d /run/systemd/system ]; then
		systemctl daemon-reload
	fi
	;;
esac
