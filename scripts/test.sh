#!/bin/sh
# Runs the tests, and ends with what a reader must know of the run: which brokers it had, and what
# was skipped. Its exit status is that of go test.
#
#   test.sh [ARGUMENT …]       all tests, on a real broker, with the race detector
#   test.sh unit [ARGUMENT …]  the tests that need no broker; the summary names the others
#   test.sh summary FILE       only the summary of a run that wrote FILE
#
# The arguments are handed to go test.
set -u

if [ "${1:-}" = summary ]; then
	summary=$2
else
	summary=$(mktemp)
	trap 'rm -f "$summary"' EXIT
fi
export DELAYER_TEST_SUMMARY="$summary"
unset DELAYER_URL # the broker of a service is not for tests: theirs is at AMQP_URL

# The compiler and the tests collect garbage a quarter as often: to build takes 15 % less processor
# time.
export GOGC="${GOGC:-400}"

# With the race detector each test binary, of which there are some seventy, sleeps for a second
# before it exits, in case a goroutine that is still at work has a race. Tests leave none at work.
export GORACE="${GORACE:-atexit_sleep_ms=10}"

unit() {
	DELAYER_BROKER=none go test -count=1 "$@" ./...
}

processors() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# The race detector needs cgo, and cgo a C compiler.
have_race() {
	[ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC | cut -d ' ' -f 1)" >/dev/null 2>&1
}

# The packages that take longest come first. One package more than there are processors is tested at
# a time, each with brokers of its own, and two tests of each: most of them wait most of the time.
# With another package and a third test of each a fast machine was half a minute faster; on one half
# as fast, whatever waited for a broker waited for a processor, for minutes, and tests failed.
# `make lint` vets: to vet again takes 40 seconds of processor time where nothing is cached.
all() {
	race=-race
	if ! have_race; then
		race=
		echo "race detector: off, there is no C compiler" >"$summary"
	fi
	# Without the race detector: the simulator, which has one goroutine a seed and would take ten
	# times as long, and the conformance suite's own tests. In those Go 1.26's runtime crashed now
	# and then (a SIGSEGV in runtime.(*timer).modify, of time.AfterFunc in a bubble of synctest), and
	# the detector would notice some of the faults that the suite must notice. On a broker the suite
	# runs with the detector.
	simulated=passed
	apart="./backend/controller/internal/logsim ./conformance"
	go test -vet=off -count=1 "$@" $apart || simulated=failed
	go test -p "$(($(processors) + 1))" $race -vet=off -count=1 -parallel 2 -timeout 25m "$@" \
		./internal/lab/tests/conformance ./internal/lab/tests/controller ./cmd/delayer ./internal/lab/tests/broker \
		./internal/lab/faults ./internal/lab/tests/backend ./internal/lab/tests/satellites ./internal/lab/rabbit \
		$(go list ./... | grep -vE "/(logsim|delayer/conformance)\$") && [ "$simulated" = passed ]
}

case ${1:-} in
summary) ;;
unit)
	shift
	unit "$@"
	;;
*) all "$@" ;;
esac
status=$?

# not_run says first how many tests did not run, and in which packages, by reason.
not_run() {
	awk -F ': skipped: ' 'NF > 1 {
		split($2, part, ": ")
		reason = substr($2, length(part[1]) + 3)
		n = split(part[1], names, ", ")
		tests[reason] += n; all += n
		if (!seen[reason, $1]++) packages[reason] = packages[reason] (packages[reason] == "" ? "" : ", ") $1
	}
	END {
		if (all) { print all, all == 1 ? "test did not run:" : "tests did not run:"; fflush() }
		for (reason in tests) printf "%6d in %s: %s\n", tests[reason], packages[reason], reason | "sort -k1,1nr"
	}' "$summary"
}

# untested says what of Delayer the tests that did not run would have tested, and on which RabbitMQ
# all others ran.
untested() {
	awk '
	function say(what) { if (!said[what]++) print "not tested: " what }
	/: skipped: / {
		if (/delayed_message/) say("the backend plugin, the way off it, and serve in its place")
		if (/Docker/) say("the images, and a broker in a container")
		if (match($0, /needs RabbitMQ [0-9.]+/)) say("what only RabbitMQ " substr($0, RSTART + 15, RLENGTH - 15) " and later can do")
		if (/libfaketime|LONG_DELAYS/) say("delays of hours to years on a real broker")
		if (/PostgreSQL/) say("the outbox")
		if (/cluster/) say("a cluster of three nodes")
		if (/Chromium/) say("the pages in a browser")
		if (/install-clients/) say("publishers in other languages")
		if (/no broker, as/) say("everything that RabbitMQ does")
	}
	match($0, /broker: RabbitMQ [0-9.]+/) { tested[substr($0, RSTART + 17, RLENGTH - 17)] = 1 }
	END {
		for (version in tested) { list = list (list == "" ? "" : ", ") version }
		if (list != "") say("every RabbitMQ but " list " (make test-matrix)")
	}' "$summary"
}

echo
echo "Summary"
not_run | sed 's/^/  /'
untested | sed 's/^/  /'
if [ -s "$summary" ]; then sed 's/^/  /' "$summary"; fi
if [ "${1:-}" = summary ]; then exit; fi
if [ "$status" = 0 ]; then echo "  every test that ran passed"; else echo "  FAILED"; fi
exit "$status"
