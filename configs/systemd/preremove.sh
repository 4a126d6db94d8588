#!/bin/sh
# Run by dpkg and rpm before they take the files away: stops the server, unless another version follows.
set -e
[ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ] || exit 0
case "$1" in
remove | 0) systemctl disable --now weir.service || true ;;
esac
