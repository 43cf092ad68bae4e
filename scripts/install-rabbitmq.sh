#!/bin/sh
# Makes sure that there is a RabbitMQ to test on, and installs one only where there is none.
#
#   install-rabbitmq.sh            install rabbitmq-server from the system's packages
#   install-rabbitmq.sh --missing  only if there is no AMQP_URL, no Docker engine with an image of
#                                  RabbitMQ and no rabbitmq-server
#
# The server is installed, not started: the tests start nodes of their own.
set -eu

image=${DELAYER_RABBITMQ_IMAGE:-rabbitmq:4.0}

have() { command -v "$1" >/dev/null 2>&1; }

have_server() {
	for folder in /usr/lib/rabbitmq/bin /opt/homebrew/sbin /usr/local/sbin /opt/rabbitmq/sbin; do
		[ -x "$folder/rabbitmq-server" ] && return 0
	done
	have rabbitmq-server
}

# DELAYER_BROKER, where set, leaves one choice only.
have_broker() {
	case ${DELAYER_BROKER:-} in
	node) have_server ;;
	given | docker) return 0 ;; # the tests say what is wrong with it
	*)
		[ -n "${AMQP_URL:-}" ] || have_server ||
			{ have docker && docker image inspect "$image" >/dev/null 2>&1; }
		;;
	esac
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif have sudo; then
		sudo "$@"
	else
		echo "Installing RabbitMQ takes root, and there is no sudo. As root, type: $*" >&2
		exit 1
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
		apt-get install -y --no-install-recommends rabbitmq-server
}

if [ "${1:-}" = --missing ] && have_broker; then
	exit 0
fi
if have_server; then
	echo "rabbitmq-server is installed."
	exit 0
fi
if have apt-get; then
	with_apt
elif have dnf; then
	as_root dnf install -y rabbitmq-server
elif have brew; then
	brew install rabbitmq
else
	cat >&2 <<-END
		There is no RabbitMQ here, and none of apt-get, dnf and brew to install it with. Any of these will do:
		  a broker that runs:  export AMQP_URL=amqp://guest:guest@localhost:5672/
		  Docker:              docker pull $image
		  a rabbitmq-server:   https://www.rabbitmq.com/docs/download
	END
	exit 1
fi
