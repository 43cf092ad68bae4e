#!/bin/sh
# Publishes a message that arrives two seconds later, and receives it. The programs are those of
# amqp-tools, made with the C library rabbitmq-c.
set -eu

url=${AMQP_URL:-amqp://guest:guest@localhost:5672}
amqp-consume --url="$url" --exchange=orders --routing-key=hello.c --no-ack --count=1 cat &

published=$(date +%s%N)
amqp-publish --url="$url" --exchange=later --routing-key=hello.c --header="x-delay: 2000" \
	--content-type=text/plain --persistent --body="Hello from C"
wait
printf ', after %d ms\n' $((($(date +%s%N) - published) / 1000000))
