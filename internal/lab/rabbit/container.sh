# Runs RabbitMQ in a container for a parent that may die at any moment. This is the container's
# first process: when it ends, all others do, and the engine removes the container.
#
#   sh container.sh SERVER [ARGUMENT …]
#
# Standard input is the lifeline: its end means that the parent is gone. Each line is a command.
# Lines of output that begin with @delayer are for the parent, the others are the server's.

# An image may start its server through su, which sets PAM's limits instead.
if [ -w /etc/security/limits.d ]; then
	echo "* - nofile $(ulimit -Sn)" >/etc/security/limits.d/delayer.conf
fi

# The engine mounts memory as root's folder, and the server may be another user.
[ -z "${DELAYER_IN_MEMORY:-}" ] || chmod 1777 "$DELAYER_IN_MEMORY"

run() {
	echo "@delayer up 1"
	"$@" </dev/null 2>&1
	echo "@delayer down $?"
}

# Found by name: an image may start the VM through su or gosu, whose pid would be of no use.
beams() {
	for process in /proc/[0-9]*; do
		name=
		read -r name 2>/dev/null <"$process/comm"
		case $name in beam*) echo "${process#/proc/}" ;; esac
	done
}

# CPU time in ns from the container's cgroup (first version, then second), resident memory in kB.
usage() {
	cpu=0 rss=0
	if [ -r /sys/fs/cgroup/cpuacct/cpuacct.usage ]; then
		read -r cpu </sys/fs/cgroup/cpuacct/cpuacct.usage
	else
		while read -r key value; do
			[ "$key" = usage_usec ] && cpu=${value}000
		done </sys/fs/cgroup/cpu.stat
	fi
	for beam in $(beams); do
		while read -r key value _; do
			[ "$key" = VmRSS: ] && rss=$((rss + value))
		done <"/proc/$beam/status"
	done
	echo "@delayer usage $cpu $rss"
}

# A server does not start with a plugin enabled that it does not have.
enabled=
for plugin in $DELAYER_PLUGINS; do
	for found in /plugins/"$plugin"-[0-9v]* /opt/rabbitmq/plugins/"$plugin"-[0-9v]* \
		/usr/lib/rabbitmq/plugins/"$plugin"-[0-9v]* /usr/lib/rabbitmq/lib/*/plugins/"$plugin"-[0-9v]*; do
		[ -e "$found" ] || continue
		enabled=${enabled:+$enabled,}$plugin
		break
	done
done
echo "[$enabled]." >"$RABBITMQ_ENABLED_PLUGINS_FILE"
chmod 666 "$RABBITMQ_ENABLED_PLUGINS_FILE"
echo "@delayer plugins $enabled"

if [ -n "$DELAYER_CONFIG" ]; then
	mkdir -p /etc/rabbitmq/conf.d
	printf '%s\n' "$DELAYER_CONFIG" >/etc/rabbitmq/conf.d/90-delayer.conf
fi

while read -r command argument; do
	case $command in
	run) run "$@" & ;;
	signal) for beam in $(beams); do kill -s "$argument" "$beam"; done ;;
	pause) for beam in $(beams); do pause "$beam"; done; echo "@delayer pause" ;;
	resume) for beam in $(beams); do kill -s CONT "$beam"; done; echo "@delayer resume" ;;
	usage) usage ;;
	esac
done
