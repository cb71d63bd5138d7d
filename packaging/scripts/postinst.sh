#!/bin/sh
# After unpacking. deb: `configure [OLD-VERSION]`; rpm: how many versions there
# are. dpkg sets DPKG_ROOT when it installs into another root directory.
set -e
case ${1:-} in
configure | [1-9]*) ;;
*) exit 0 ;;
esac
root=${DPKG_ROOT:-}
name=choria-provision

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers ${root:+"--root=$root"} $name.conf
elif ! grep -q "^$name:" "$root/etc/passwd"; then
	useradd ${root:+--prefix "$root"} --system --user-group --home-dir / \
		--no-create-home --shell /usr/sbin/nologin $name
fi

user=$name group=$name
if [ -n "$root" ]; then # the names of that root count, not this machine's
	user=$(awk -F: -v n=$name '$1 == n { print $3 }' "$root/etc/passwd")
	group=$(awk -F: -v n=$name '$1 == n { print $3 }' "$root/etc/group")
fi

# Only at the first installation: an operator may have changed them since.
if [ "$1" = configure ] && [ -z "${2:-}" ]; then
	chgrp "$group" "$root/etc/$name" "$root/etc/$name/provision.yaml.example"
fi
[ -d "$root/var/lib/$name" ] || install -d -m 0700 -o "$user" -g "$group" "$root/var/lib/$name"
[ -d "$root/var/log/$name" ] || install -d -m 0750 -o "$user" -g "$group" "$root/var/log/$name"

# Nothing is enabled or started here. A `watch` that runs goes on with the new
# program; a run that a timer started ends with the old one.
if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart provision-watch.service
fi
