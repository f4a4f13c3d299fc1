#!/usr/bin/env bash
# Sees to it that commands of Debian packages are there: arguments command:package. Installs what is missing
# if it may, else names it; no server that a package brings is started.
set -euo pipefail
missing=()
for each in "$@"; do
  command -v "${each%%:*}" >/dev/null || missing+=("${each#*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}" >&2
  echo "    Debian: apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
