#!/bin/sh
# Before removal. deb: `remove` or `upgrade`; rpm: how many versions stay.
set -e
case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl disable --now provision.timer provision-watch.service
	systemctl stop provision.service
fi
