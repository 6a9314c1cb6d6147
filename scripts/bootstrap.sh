#!/usr/bin/env bash
# Installs the Debian packages of scripts/packages.txt that are missing, and those named as
# arguments. Quick, silent and offline when nothing is. WEFT_SKIP_BOOTSTRAP=1 switches it off.
set -euo pipefail

list="$(dirname "$0")/packages.txt"

[[ -z "${WEFT_SKIP_BOOTSTRAP:-}" ]] || exit 0

wanted="$(sed -e 's/#.*//' "$list" | xargs) $*"
if ! command -v dpkg-query >/dev/null; then
  echo "bootstrap: this is not a Debian system; weft needs the equivalent of: $wanted" >&2
  exit 0
fi

# The major version of the clang that the package `clang` stands for, from its dependency clang-N.
clang_version() {
  {
    dpkg-query --show --showformat '${Depends}\n' clang 2>/dev/null ||
      apt-cache depends --important clang 2>/dev/null
  } | grep -om1 'clang-[0-9]*' | cut -d- -f2
}

# The packages of "$@" that are not installed, with @ filled in where it can be.
missing_of() {
  local names="$*"
  if [[ "$names" == *@* ]]; then
    local version
    version="$(clang_version || true)"
    names="${names//@/${version:-@}}"
  fi
  # An unknown package makes dpkg-query fail; it is missing all the same.
  # shellcheck disable=SC2086
  comm -23 <(tr ' ' '\n' <<<"$names" | sed '/^$/d' | sort -u) \
    <(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' $names 2>/dev/null |
      sed -n 's/^installed //p' | sort -u)
}

# shellcheck disable=SC2086
missing="$(missing_of $wanted | xargs)"
[[ -n "$missing" ]] || exit 0

if [[ "$(id -u)" == 0 ]]; then
  as_root=()
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
  as_root=(sudo)
else
  printf 'bootstrap: these Debian packages are missing: %s\n' "$missing" >&2
  printf 'bootstrap: neither root nor sudo is available; as root, run\n  %s\n' \
    "apt-get update && apt-get install --yes --no-install-recommends $missing" >&2
  exit 1
fi

apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"; }

echo "bootstrap: installing $missing" >&2
apt_get update --quiet=2
# shellcheck disable=SC2086
missing="$(missing_of $wanted | xargs)" # apt's lists may have told clang's version
# shellcheck disable=SC2086
apt_get install --quiet=2 --yes --no-install-recommends $missing
