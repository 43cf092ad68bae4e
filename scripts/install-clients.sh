#!/bin/sh
# Installs what runs examples/clients, where it is missing: RabbitMQ's clients and frameworks for
# Python, PHP, Ruby, C and, beside a JDK, Java from the packages of Debian or Ubuntu, and those for
# Node.js from npm, into bin/clients. Exit status 1 says that some could not be installed: the tests
# of those are skipped.
set -u

what="RabbitMQ's clients"
. "$(dirname "$0")/packages.sh"

# The names and versions of npm. What they need in turn is npm's to choose.
modules="amqplib@2.3.1 amqp-connection-manager@5.0.0 rascal@21.0.1 @golevelup/nestjs-rabbitmq@9.0.2
	@nestjs/common@11.2.10 @nestjs/core@11.2.10 reflect-metadata@0.2.2 rxjs@7.8.2 typescript@5.9.3"
folder=$(dirname "$0")/../bin/clients
jar=/usr/share/java/amqp-client.jar

# have_packages asks the system's Python, which packages are for.
have_packages() {
	/usr/bin/python3 -c 'import pika, kombu, celery' && php -r 'require "PhpAmqpLib/autoload.php";' &&
		php -r 'require "Symfony/Component/Messenger/Bridge/Amqp/autoload.php"; new AMQPConnection();' &&
		ruby -e 'require "bunny"' && have amqp-publish && { ! have javac || [ -f "$jar" ]; }
} >/dev/null 2>&1

packages() {
	if ! have apt-get; then
		echo "Only the packages of Debian and Ubuntu are known here; examples/clients/README.md names others." >&2
		return 1
	fi
	set -- python3-pika python3-kombu python3-celery php-cli php-amqplib php-amqp php-symfony-amqp-messenger \
		ruby-bunny amqp-tools
	if have javac; then
		set -- "$@" librabbitmq-client-java
	fi
	with_apt "$@"
}

# for_node leaves a Node.js that is not there alone: with npm, Debian's is four hundred packages.
for_node() {
	if ! have npm; then
		echo "There is no npm to install clients for Node.js with." >&2
		return 1
	fi
	for module in $modules; do
		if ! grep -qs "\"version\": \"${module##*@}\"" "$folder/node_modules/${module%@*}/package.json"; then
			# shellcheck disable=SC2086 # one argument each
			limited npm install --prefix "$folder" --no-save --ignore-scripts --no-audit --no-fund $modules
			return
		fi
	done
}

status=0
have_packages || packages || status=1
for_node || status=1
[ "$status" = 0 ] && echo "RabbitMQ's clients are installed."
exit "$status"
