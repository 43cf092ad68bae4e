#!/bin/sh
# Runs the conformance suite and the short faults on each RabbitMQ series, in containers of the
# image rabbitmq:SERIES, and prints how many tests passed, for docs/reliability.md.
# `make test-matrix` runs it. The exit status is 1 if a test failed, or if nothing was run.
# Variables:
#
#   SERIES  only these: "4.0 4.3". 4.3-strict is 4.3 with every deprecated feature denied
#   SUITES  only these: conformance, faults
#   IMAGE   the images, with %s for the series: 'rabbitmq:%s-delayed'
set -u

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0 ran=0

# Tests without subtests are counted, in rows by the test that they belong to.
count='
	/^ *--- (PASS|SKIP|FAIL): / { sub(":", "", $2); result[$3] = $2; n[++names] = $3 }
	END {
		for (i = 1; i <= names; i++) { at = n[i]; while (sub("/[^/]*$", "", at)) parent[at] = 1 }
		for (i = 1; i <= names; i++) {
			if (parent[n[i]]) continue
			row = n[i]
			sub("/[^/]*$", "", row)
			if (!(row in seen)) { rows[++many] = row; seen[row] = 1 }
			c[row, result[n[i]]]++
		}
		for (i = 1; i <= many; i++) {
			row = rows[i]
			printf "| %s | %s | %d | %d | %d |\n", series, row, c[row, "PASS"], c[row, "SKIP"], c[row, "FAIL"]
		}
	}'

for series in ${SERIES:-3.10 3.13 4.0 4.2 4.3 4.3-strict 4.4}; do
	# shellcheck disable=SC2059 # the variable is the format
	image=$(printf "${IMAGE:-rabbitmq:%s}" "${series%-strict}")
	if ! docker image inspect "$image" >/dev/null 2>&1 && ! docker pull --quiet "$image" >/dev/null 2>&1; then
		echo "$series: skipped: there is no image $image here, and it cannot be pulled"
		continue
	fi
	export AMQP_URL='' DELAYER_BROKER=docker DELAYER_RABBITMQ_IMAGE="$image" DELAYER_TEST_RABBITMQ_CONFIG=''
	if [ "$series" != "${series%-strict}" ]; then # what 4.3 still permits by default
		DELAYER_TEST_RABBITMQ_CONFIG='deprecated_features.permit.management_metrics_collection = false
deprecated_features.permit.transient_nonexcl_queues = false'
	fi
	for suite in ${SUITES:-conformance faults}; do
		case $suite in
		conformance) set -- ./internal/lab/tests/conformance -run '^TestConformance$' ;;
		faults) set -- ./internal/lab/faults -run '^TestFaults' ;;
		*) echo "there is no suite $suite: conformance, faults" >&2 && exit 1 ;;
		esac
		echo "$series: $suite …"
		ran=1
		if ! go test -v -count=1 -timeout 1h "$@" >"$log" 2>&1; then
			failed=1
			cat "$log"
		fi
		printf '| RabbitMQ | %s | passed | skipped | failed |\n|---|---|--:|--:|--:|\n' "$suite, $(date -u +%F)"
		awk -v series="$series ($(sed -n 's/.*broker: RabbitMQ \([^,]*\),.*/\1/p' "$log" | head -n 1))" "$count" "$log"
	done
done
[ "$ran" = 1 ] || echo 'nothing was run: start a Docker engine, and docker pull rabbitmq:4.3' >&2
[ "$ran" = 1 ] && [ "$failed" = 0 ]
