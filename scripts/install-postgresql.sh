#!/bin/sh
# Makes sure that there is a PostgreSQL to test the outbox on, and installs one only where there is none.
#
#   install-postgresql.sh            install PostgreSQL from the system's packages
#   install-postgresql.sh --missing  only if there is neither POSTGRES_URL nor an initdb; a failure is
#                                    said and then passed over: the tests that need it are skipped
#
# The server is installed, not started: the tests start clusters of their own.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

have_server() {
	for program in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
		/opt/homebrew/opt/postgresql@*/bin/initdb /usr/local/opt/postgresql@*/bin/initdb; do
		[ -x "$program" ] && return 0
	done
	have initdb
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif have sudo; then
		sudo "$@"
	else
		echo "Installing PostgreSQL takes root, and there is no sudo. As root, type: $*" >&2
		return 1
	fi
}

# Debian starts a service when it installs it, unless this file says no.
policy=/usr/sbin/policy-rc.d

with_apt() {
	as_root apt-get update || echo "apt-get update failed: going on with the lists that are here" >&2
	if [ ! -e "$policy" ]; then
		trap 'as_root rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
		apt-get install -y --no-install-recommends postgresql
}

install() {
	if have apt-get; then
		with_apt
	elif have dnf; then
		as_root dnf install -y postgresql-server
	elif have brew; then
		brew install postgresql@17
	else
		echo "There is none of apt-get, dnf and brew to install PostgreSQL with. Give one that runs:" >&2
		echo "  export POSTGRES_URL=postgres://user:password@localhost:5432/database" >&2
		return 1
	fi
}

if [ "${1:-}" = --missing ]; then
	if [ -n "${POSTGRES_URL:-}" ] || have_server; then
		exit 0
	fi
	install || echo "PostgreSQL is not installed: the tests of outbox and once/pgstore are skipped." >&2
	exit 0
fi
if have_server; then
	echo "PostgreSQL is installed."
	exit 0
fi
install
