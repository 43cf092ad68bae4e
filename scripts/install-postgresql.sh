#!/bin/sh
# Makes sure that there is a PostgreSQL to test the outbox on, and installs one only where there is
# none.
#
#   install-postgresql.sh            install PostgreSQL from the system's packages
#   install-postgresql.sh --missing  only if there is neither POSTGRES_URL nor an initdb; a failure is
#                                    said and then passed over: the tests that need it are skipped
#
# The server is installed, not started: the tests start clusters of their own.
set -eu

what=PostgreSQL
. "$(dirname "$0")/packages.sh"

have_server() {
	for program in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
		/opt/homebrew/opt/postgresql@*/bin/initdb /usr/local/opt/postgresql@*/bin/initdb; do
		[ -x "$program" ] && return 0
	done
	have initdb
}

install() {
	from_packages postgresql postgresql-server postgresql@17 || {
		echo "Give one that runs: export POSTGRES_URL=postgres://user:password@localhost:5432/database" >&2
		return 1
	}
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
