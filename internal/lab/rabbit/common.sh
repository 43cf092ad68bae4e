# What node.sh and container.sh begin with.

# RabbitMQ before 4.0 sets files aside for each quorum queue, three on one node. Where none is left,
# the node's classic queues stand still.
ulimit -Sn 65536 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"

# A thread goes on until one of its process takes the signal. Its state is behind its name's
# parenthesis. Only Linux has /proc.
pause() {
	kill -s STOP "$1"
	for stat in /proc/"$1"/task/*/stat; do
		while read -r line 2>/dev/null <"$stat"; do
			case ${line##*) } in T* | t* | Z* | X*) break ;; esac
			sleep 0.01
		done
	done
}

