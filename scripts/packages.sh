# What the install scripts share; they source it. The variable `what` names what they install.

have() { command -v "$1" >/dev/null 2>&1; }

# A package server that does not answer must not hold up who waits for this.
limited() {
	if have timeout; then timeout 600 "$@"; else "$@"; fi
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		limited "$@"
	elif have sudo; then
		limited sudo ${CI:+-n} "$@"
	else
		echo "Installing $what takes root, and there is no sudo. As root, type: $*" >&2
		return 1
	fi
}

# Debian starts a service when it installs it, unless this file says no.
policy=/usr/sbin/policy-rc.d

# with_apt PACKAGE … installs packages, and starts no service of theirs.
with_apt() {
	as_root apt-get update || echo "apt-get update failed: going on with the lists that are here" >&2
	if [ ! -e "$policy" ]; then
		trap 'as_root rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends "$@"
}

# from_packages APT DNF BREW installs by the package manager that there is. Status 1: there is none
# of them.
from_packages() {
	if have apt-get; then
		with_apt "$1"
	elif have dnf; then
		as_root dnf install -y "$2"
	elif have brew; then
		# shellcheck disable=SC2086 # some have an option in front
		brew install $3
	else
		echo "There is none of apt-get, dnf and brew to install $what with." >&2
		return 1
	fi
}
