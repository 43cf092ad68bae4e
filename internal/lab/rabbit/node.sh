# Runs a private RabbitMQ node for a parent that may die at any moment, and leaves nothing behind.
#
#   sh node.sh FOLDER EPMD SERVER
#
# Without EPMD the node uses that of another, which runs on the same port.
#
# Standard input is the lifeline: its end means that the parent is gone. Each line is a command.
# Lines of output that begin with @delayer are for the parent, the others are the server's.
#
# With DELAYER_FAKETIME, the path of libfaketime, the server has a clock of its own.
folder=$1 epmd=$2 server=$3


# epmd in the foreground is a child to kill; the one that Erlang starts by itself would stay for
# ever.
epmd_pid=
if [ -n "$epmd" ]; then
	"$epmd" -address 127.0.0.1 -port "$ERL_EPMD_PORT" >/dev/null 2>&1 &
	epmd_pid=$!
	# The server does not wait for it.
	until "$epmd" -port "$ERL_EPMD_PORT" -names >/dev/null 2>&1; do
		kill -0 "$epmd_pid" 2>/dev/null || break
	done
fi
job=

# forget removes two files that libfaketime leaves in memory, named after its process.
forget() {
	[ -z "$DELAYER_FAKETIME" ] || rm -f "/dev/shm/faketime_shm_$1" "/dev/shm/sem.faketime_sem_$1"
}

# The pid is written before the look at "gone", and "gone" before the pid is read: so whichever
# comes first, no server outlives this script. exec keeps the pid all the way to the Erlang VM.
run() {
	sh -c 'echo $$ >"$0/pid"; [ -e "$0/gone" ] && exit; echo "@delayer up $$"
		[ -n "$DELAYER_FAKETIME" ] && export LD_PRELOAD="$DELAYER_FAKETIME"; exec "$1"' \
		"$folder" "$server" </dev/null 2>&1
	code=$?
	forget "$(cat "$folder/pid")"
	rm -f "$folder/pid"
	echo "@delayer down $code"
}

while read -r command argument; do
	case $command in
	run) run & job=$! ;;
	signal) kill -s "$argument" "$(cat "$folder/pid")" ;;
	pause) pause "$(cat "$folder/pid")"; echo "@delayer pause" ;;
	resume) kill -s CONT "$(cat "$folder/pid")"; echo "@delayer resume" ;;
	esac
done

: >"$folder/gone"
pid=
[ -r "$folder/pid" ] && pid=$(cat "$folder/pid") && kill -KILL "$pid" 2>/dev/null
[ -n "$job" ] && wait "$job"
[ -n "$pid" ] && forget "$pid" # where the parent is gone, run may have ended at its first word to it
[ -n "$epmd_pid" ] && kill -KILL "$epmd_pid" 2>/dev/null
rm -rf "$folder"
