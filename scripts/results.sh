#!/bin/sh
# Makes the reference reports of docs/results again: `delayer-bench --full` on each RabbitMQ series, in a
# container of its own, and the picture of the README from the first of them. `make results` runs it, on a machine
# that does nothing else. The exit status is 1 if a report could not be made. Variables:
#
#   SERIES  only these: "3.10 4.3"
#   IMAGE   the images, with %s for the series: 'rabbitmq:%s-delayed' for one with the plugin
#   FLAGS   for delayer-bench: '--queue-type quorum'
set -u

failed=0 first=
for series in ${SERIES:-3.10 3.13 4.0 4.2 4.3}; do
	# shellcheck disable=SC2059 # the variable is the format
	image=$(printf "${IMAGE:-rabbitmq:%s}" "$series")
	if ! docker image inspect "$image" >/dev/null 2>&1 && ! docker pull --quiet "$image" >/dev/null 2>&1; then
		echo "$series: not measured: there is no image $image here, and it cannot be pulled" >&2
		failed=1
		continue
	fi
	out=docs/results/$series
	# shellcheck disable=SC2086 # several flags
	DELAYER_BROKER=docker DELAYER_RABBITMQ_IMAGE="$image" go run ./cmd/delayer-bench --full --out "$out" ${FLAGS:-} || failed=1
	first=${first:-$out}
done
if [ -n "$first" ]; then
	go run ./cmd/delayer-bench render "$first/report.json" --picture docs/results/comparison.svg || failed=1
else
	echo 'nothing was run: start a Docker engine, and docker pull rabbitmq:4.3' >&2
fi
exit "$failed"
