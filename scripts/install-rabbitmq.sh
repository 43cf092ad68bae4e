#!/bin/sh
# Makes sure that there is a RabbitMQ to test on, and installs one only where there is none.
#
#   install-rabbitmq.sh            install rabbitmq-server from the system's packages
#   install-rabbitmq.sh --missing  only if there is no AMQP_URL, no Docker engine with an image of
#                                  RabbitMQ and no rabbitmq-server
#
# The server is installed, not started: the tests start nodes of their own.
set -eu

what=RabbitMQ
. "$(dirname "$0")/packages.sh"

image=${DELAYER_RABBITMQ_IMAGE:-rabbitmq:4.0}

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

if [ "${1:-}" = --missing ] && have_broker; then
	exit 0
fi
if have_server; then
	echo "rabbitmq-server is installed."
	exit 0
fi
from_packages rabbitmq-server rabbitmq-server rabbitmq || {
	cat >&2 <<-END
		Any of these will do:
		  a broker that runs:  export AMQP_URL=amqp://guest:guest@localhost:5672/
		  Docker:              docker pull $image
		  a rabbitmq-server:   https://www.rabbitmq.com/docs/download
	END
	exit 1
}
