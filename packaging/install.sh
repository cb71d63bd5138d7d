#!/bin/sh
# Installs what `make build` made: the work of `make install`. PREFIX takes the
# place of /usr, DESTDIR goes before every path. Users and services are not
# touched: docs/install.md says what comes next.
set -eu
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
program=bin/provision
if [ ! -x "$program" ]; then
	echo "$program: not there: run \`make build\` first, as an ordinary user" >&2
	exit 1
fi

# place SOURCE MODE DESTINATION installs one file; paths in units and cron
# tables follow the prefix.
place() {
	install -d "$(dirname "$3")"
	case $1 in
	packaging/systemd/* | packaging/cron/* | packaging/provision-as-service)
		sed "s,/usr/bin/provision,$PREFIX/bin/provision,g" "$1" >"$3.new"
		mv "$3.new" "$3"
		chmod "$2" "$3"
		;;
	*) install -m "$2" "$1" "$3" ;;
	esac
}

place "$program" 0755 "$DESTDIR$PREFIX/bin/provision"
place docs/provision.8 0644 "$DESTDIR$PREFIX/share/man/man8/provision.8"
place docs/provision.yaml.5 0644 "$DESTDIR$PREFIX/share/man/man5/provision.yaml.5"

# completion SHELL DESTINATION
completion() {
	install -d "$(dirname "$2")"
	"$program" completion "$1" >"$2"
	chmod 0644 "$2"
}
completion bash "$DESTDIR$PREFIX/share/bash-completion/completions/provision"
completion zsh "$DESTDIR$PREFIX/share/zsh/site-functions/_provision"
completion fish "$DESTDIR$PREFIX/share/fish/vendor_completions.d/provision.fish"

grep -v '^#' packaging/contents | while read -r kind mode destination sources _; do
	case $destination in
	/usr/*) destination=$DESTDIR$PREFIX${destination#/usr} ;;
	*) destination=$DESTDIR$destination ;;
	esac
	if [ "$kind" = dir ]; then
		[ -d "$destination" ] || install -d -m "$mode" "$destination"
		continue
	fi
	for source in $sources; do
		target=$destination
		case $destination in */) target=$destination${source##*/} ;; esac
		if [ "$kind" = config ] && [ -e "$target" ]; then
			echo "$target: kept"
			continue
		fi
		place "$source" "$mode" "$target"
	done
done
