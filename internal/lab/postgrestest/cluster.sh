# Runs a private PostgreSQL for a parent that may die at any moment, and leaves nothing behind.
#
#   sh cluster.sh FOLDER BIN PORT
#
# Standard input is the lifeline: its end means that the parent is gone.
folder=$1 bin=$2 port=$3
data=$folder/data

trap '' INT # typed at the terminal it ends the parent, and only then the server

# PostgreSQL does not run as root: there it runs as the user that Debian's package comes with.
as=
if [ "$(id -u)" = 0 ]; then
	chown postgres "$folder" "$folder/password" || exit
	as="runuser -u postgres --"
fi

# No fsync: what a power cut would do to test data does not matter.
start() {
	$as "$bin/initdb" -D "$data" -U postgres -A scram-sha-256 --pwfile="$folder/password" \
		-E UTF8 --locale=C --no-sync </dev/null &&
		$as "$bin/pg_ctl" -D "$data" -w -s -l "$folder/log" start </dev/null -o \
			"-p $port -h 127.0.0.1 -k '' -F -c max_connections=200 -c shared_buffers=128MB"
}

if start; then
	echo "@delayer ready"
	cat >/dev/null
	$as "$bin/pg_ctl" -D "$data" -m immediate -s stop
else
	cat "$folder/log" 2>/dev/null
fi
cd / && rm -rf "$folder"
