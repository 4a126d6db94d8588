#!/bin/sh
# Run by dpkg and rpm after they have put the files in place. A first installation starts nothing: the server has no key yet. An upgrade
# restarts a server that runs.
set -e
[ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
case "$1" in
configure) upgrade=${2:-} ;; # dpkg: the version that was there
1) upgrade= ;;              # rpm: how many versions are there now
*) upgrade=yes ;;
esac
[ -z "$upgrade" ] || systemctl try-restart weir.service || true
