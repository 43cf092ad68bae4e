#!/bin/sh
# Measures again what docs/measured.md tells. `make results` runs it, on a machine that does
# nothing else. Each RabbitMQ series is a container of its own; with DELAYER_BROKER=node the one of
# this machine is measured. The exit status is 1 if a report could not be made. Variables:
#
#   SERIES  only these: "3.10 4.3"
#   IMAGE   the images, with %s for the series: 'rabbitmq:%s-delayed' for one with the plugin
#   PARTS   only these (default: full)
#   FLAGS   more for delayer-bench in part full: '--queue-type quorum'
#   REPEAT  how often each is measured: 3 by default
#
# Part full is every scenario with every strategy and the baselines: docs/results/3.10.json, and the
# picture of the README from the first series. The others write into report/3.10/, which is not kept:
#
#   user     an exchange, a quorum queue with acknowledgements, three sizes, one consumer and four
#   delays   those that people write, and those between tiers
#   hour     four seconds to an hour, evenly; it takes an hour and a half
#   million  a million that wait
#   wheel    slots as fast as confirmed, at 4,000 a second and at 10,000
#   steps    the ladder's steps at rates, of delays that people write, and of a millisecond
#   serve    serve before the ladder and before slots
#   publish  Go benchmarks, as are all below: what publishing costs
#   idle     controllers at rest: a quarter of an hour
#   change   a million messages, of which 100,000 are cancelled, twice: half an hour
#   retries  ten thousand orders, with everything killed
#   outbox   what a relay publishes
#
# make faults makes docs/results/faults.
set -u

failed=0
repeat=${REPEAT:-3}

# measure runs delayer-bench: measure OUT FLAGS…
measure() {
	out=report/$1
	shift
	go run ./cmd/delayer-bench --out "$out" --repeat "$repeat" "$@" || failed=1
}

# quorum is measure with quorum queues.
quorum() {
	out=$1
	shift
	measure "$out" --queue-type quorum "$@"
}

# bench runs Go tests and keeps what they say, without what their programs log: bench OUT FLAGS…
bench() {
	out=report/$1.txt
	shift
	mkdir -p "$(dirname "$out")"
	go test -vet=off -count=1 -timeout 3h "$@" >"$out.all" 2>&1 || failed=1
	grep -E '^(\||Benchmark|broker:|PostgreSQL|cpu:|ok|FAIL|skipped:| *---| +[a-z_]+_test\.go)' "$out.all" | tee "$out"
	rm "$out.all"
}

part() {
	tests=./internal/lab/tests
	ours=binaryladder/source,fixedtiers,controller/slots,plugin,undelayed
	case $2 in
	full)
		# shellcheck disable=SC2086 # several flags
		measure "$1" --full ${FLAGS:-} && cp "report/$1/report.json" "docs/results/$1.json"
		;;
	user)
		for how in 100/1 1024/1 65536/1 1024/4; do
			quorum "$1/user/body-${how%/*}-consumers-${how#*/}" --backend "$ours" --scenario accuracy,cost --rate 200 \
				--messages 1000 --delays 1s-3s --destination exchange --consume quorum --body "${how%/*}" --consumers "${how#*/}"
		done
		;;
	delays)
		for delays in people:1s,2s,3s,5s,10s,15s,20s,30s,45s between:4s,7s,11s,13s,16s,17s,19s,23s,26s,28s; do
			quorum "$1/delays/${delays%%:*}" --backend "$ours,fixedtiers/few" \
				--scenario accuracy --rate 500 --messages 5000 --delays "${delays#*:}"
		done
		;;
	hour)
		# Side by side, each beside a broker of its own: one after the other they take five hours.
		of=
		for backend in binaryladder/source controller/slots plugin undelayed; do
			go run ./cmd/delayer-bench --out "report/$1/hour/$backend" --queue-type quorum --backend "$backend" \
				--scenario accuracy --rate 20 --messages 18000 --delays 4s-1h &
			of="$of $!"
		done
		for pid in $of; do wait "$pid" || failed=1; done
		;;
	million)
		quorum "$1/million" --scenario backlog --messages 1000000 \
			--backend binaryladder/source,fixedtiers,controller/slots,plugin
		;;
	wheel)
		quorum "$1/wheel/fast" --scenario cost --messages 20000 --delays 1s-15s --steps calendar --steps binary \
			--backend binaryladder/source,controller/slots,controller/rounds,plugin,bit-entry
		quorum "$1/wheel/steady" --scenario accuracy --messages 120000 --rate 4000 --delays 60s-120s \
			--backend controller/slots,plugin,undelayed
		quorum "$1/wheel/busy" --scenario accuracy --messages 100000 --rate 10000 --delays 1s-3s \
			--backend controller/slots,plugin,binaryladder/source
		;;
	steps)
		quorum "$1/steps/steady" --scenario accuracy --messages 120000 --rate 4000 --delays 60s-120s \
			--backend binaryladder/source --steps calendar --steps binary
		# The delays of people and the steps of calendar, a sixtieth of them, so that the run ends.
		quorum "$1/steps/people" --scenario accuracy --messages 120000 --rate 2000 \
			--delays 250ms,500ms,750ms,1s,1500ms,2s,3s,5s,10s,15s,20s,30s,45s,1m,90s,2m \
			--backend binaryladder/source,plugin --steps binary \
			--steps 250ms,500ms,750ms,1s,1250ms,1500ms,1750ms,2s,3s,5s,8s,10s,12500ms,15s,18500ms,20s,24s,28s,30s,34s,39500ms,45s,50500ms,56s,1m,90s,2m,3m,4m,6m,8m,12m
		quorum "$1/steps/tick" --scenario accuracy --messages 5000 --rate 400 --delays 100ms-15s \
			--backend binaryladder/source --steps calendar \
			--steps "$(seq -s, -f %gms 63),$(seq -s, -f %gms 64 64 4096),8192ms"
		;;
	serve)
		both=undelayed,binaryladder/source,controller/slots,serve
		quorum "$1/serve/steady" --scenario accuracy --messages 12000 --rate 2000 --delays 1s-5s --backend "$both"
		quorum "$1/serve/fast" --scenario cost --messages 20000 --delays 1s-5s --backend "$both"
		quorum "$1/serve/busy" --scenario accuracy --messages 64000 --rate 8000 --delays 1s-5s --backend serve
		;;
	publish)
		bench "$1/publish" -run '^$' -bench '^BenchmarkPublish$' -benchtime 25000x -count "$repeat" "$tests/backend"
		;;
	idle) bench "$1/idle" -run '^$' -bench Idle -benchtime 1x "$tests/controller" ;;
	change)
		bench "$1/change" -run '^$' -bench Cancel -benchtime 1000000x "$tests/controller"
		# The limit is the controllers': the benchmark itself ignores it.
		GOMEMLIMIT=112MiB bench "$1/change-limit" -run '^$' -bench Cancel -benchtime 1000000x "$tests/controller"
		;;
	retries)
		for backend in binaryladder fixedtiers controller plugin; do
			DELAYER_TEST_ORDERS=10000 DELAYER_BACKEND=$backend DELAYER_FIXEDTIERS_TIERS=1s,2s \
				bench "$1/retries-$backend" -v -run '^TestKilled$' ./examples/notify
		done
		;;
	outbox) bench "$1/outbox" -run '^$' -bench Relay -benchtime 30000x -count "$repeat" "$tests/satellites" ;;
	*) echo "there is no part $2: see scripts/results.sh" >&2 && exit 1 ;;
	esac
}

first=
parts() {
	first=${first:-$1}
	for part in ${PARTS:-full}; do part "$1" "$part"; done
}

if [ "${DELAYER_BROKER:-}" = node ]; then
	series=$(rabbitmqctl version | sed -n 's/^\([0-9]*\.[0-9]*\)\..*/\1/p')
	if [ -z "$series" ]; then
		echo "nothing was measured: rabbitmqctl does not tell its version (run this as root or rabbitmq)" >&2
		exit 1
	fi
	parts "$series"
elif ! docker info >/dev/null 2>&1; then
	echo "nothing was measured: there is no Docker engine (start one, or measure this machine's RabbitMQ: DELAYER_BROKER=node make results)" >&2
	failed=1
else
	for series in ${SERIES:-3.10 3.13 4.0 4.2 4.3}; do
		# shellcheck disable=SC2059 # the variable is the format
		image=$(printf "${IMAGE:-rabbitmq:%s}" "$series")
		if ! docker image inspect "$image" >/dev/null 2>&1 && ! docker pull --quiet "$image" >/dev/null 2>&1; then
			echo "$series: not measured: there is no image $image here, and it cannot be pulled (name yours with IMAGE)" >&2
			failed=1
			continue
		fi
		export DELAYER_BROKER=docker DELAYER_RABBITMQ_IMAGE="$image"
		parts "$series"
	done
fi
case " ${PARTS:-full} " in
*" full "*)
	if [ -n "$first" ]; then
		go run ./cmd/delayer-bench render "docs/results/$first.json" --picture docs/results/comparison.svg || failed=1
	fi
	;;
esac
exit "$failed"
