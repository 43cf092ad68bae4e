#!/bin/sh
# Publishes a message by HTTP that arrives two seconds later, and receives it with amqp-tools.
set -eu

url=${AMQP_URL:-amqp://guest:guest@localhost:5672}
amqp-consume --url="$url" --exchange=orders --routing-key=hello.http --no-ack --count=1 cat &

published=$(date +%s%N)
curl --fail --silent --show-error --output /dev/null --header "Content-Type: application/json" \
	--header "Authorization: Bearer ${DELAYER_TOKEN:-delayer}" \
	"${DELAYER_HTTP:-http://localhost:8081}/v1/messages" --data '{
	"exchange": "orders", "key": "hello.http", "delay": "2s",
	"text": "Hello from HTTP", "properties": {"content_type": "text/plain", "delivery_mode": 2}
}'
wait
printf ', after %d ms\n' $((($(date +%s%N) - published) / 1000000))
