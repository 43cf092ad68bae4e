#!/bin/sh
# Makes the reference reports of docs/results again, and the picture of the README from the first of
# them. `make results` runs it, on a machine that does nothing else. Each RabbitMQ series is a
# container of its own; with DELAYER_BROKER=node the one of this machine is measured. The exit
# status is 1 if a report could not be made. Variables:
#
#   SERIES  only these: "3.10 4.3"
#   IMAGE   the images, with %s for the series: 'rabbitmq:%s-delayed' for one with the plugin
#   PARTS   only these (default: full repeated user delays):
#             full    every scenario, every strategy and the baselines: 3.10/report.md
#             repeated  accuracy, cost and burst of these, REPEAT times: medians and what they vary by: 3.10/repeated
#             user    an exchange, a quorum queue with acknowledgements, three sizes, one consumer and four: 3.10/user
#             delays  those that people write, and those between tiers: 3.10/delays
#             million a million that wait, and a restart with them: 3.10/million
#             wheel   slots as fast as confirmed, at 4,000 a second and at 10,000: 3.10/wheel
#             steps   the ladder's steps at rates, of delays that people write, and of a millisecond: 3.10/steps
#             hour    four seconds to an hour, evenly; it takes an hour and a half: 3.10/delays/hour
#             serve   serve before the ladder and before slots: 3.10/serve
#             often   rate, hol, crash and recovery, REPEAT times: 3.10/often
#             baselines  the same of the baselines, without recovery, beside our ladder: 3.10/baselines
#             mixed   long and short delays mixed, and delays of many set bits, REPEAT times: 3.10/mixed
#             backlog a hundred thousand that wait, REPEAT times: 3.10/backlog
#           and these, whose figures are read from what they print: 3.10/hop.txt and so on
#             hop     one hop, what of it costs, what one queue takes, and what publishing costs
#             idle    controllers at rest: a quarter of an hour
#             full-destination  messages for another, beside one that refuses them
#             change  a million messages, of which 100,000 are cancelled, twice: half an hour
#             shards  1, 2 and 4 of them, on a cluster of private nodes
#             retries ten thousand orders, with everything killed, and what a handler costs
#             outbox  what a relay publishes
#             rehearsal  each way off the plugin with 20,000 messages: a quarter of an hour
#           make faults makes docs/results/faults.md
#   FLAGS   more for delayer-bench in parts full and repeated: '--queue-type quorum'
#   REPEAT  how often the parts measure each: 3 by default, but delays and steps 1 (of a millisecond 3)
set -u

failed=0 first=
measure() {
	out=docs/results/$1
	shift
	go run ./cmd/delayer-bench --out "$out" "$@" || { failed=1 && return 1; }
}

# bench runs Go tests and keeps what they say, without what their programs log.
bench() {
	out=docs/results/$1.txt
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
		measure "$1" --full ${FLAGS:-}
		first=${first:-docs/results/$1}
		;;
	repeated)
		# shellcheck disable=SC2086 # several flags
		measure "$1/repeated" --full --scenario accuracy,cost,burst --repeat "${REPEAT:-3}" ${FLAGS:-}
		;;
	user)
		for how in 100/1 1024/1 65536/1 1024/4; do
			measure "$1/user/body-${how%/*}-consumers-${how#*/}" --queue-type quorum --backend "$ours" \
				--scenario accuracy,cost --rate 200 --messages 1000 --delays 1s-3s --repeat "${REPEAT:-3}" \
				--destination exchange --consume quorum --body "${how%/*}" --consumers "${how#*/}"
		done
		;;
	delays)
		for delays in people:1s,2s,3s,5s,10s,15s,20s,30s,45s between:4s,7s,11s,13s,16s,17s,19s,23s,26s,28s; do
			measure "$1/delays/${delays%%:*}" --queue-type quorum --backend "$ours,fixedtiers/few" \
				--scenario accuracy --rate 500 --messages 5000 --delays "${delays#*:}" --repeat "${REPEAT:-1}"
		done
		;;
	million)
		measure "$1/million" --queue-type quorum --scenario backlog,recovery --messages 1000000 \
			--backend binaryladder/source,fixedtiers,controller/slots,plugin
		;;
	wheel)
		measure "$1/wheel/fast" --queue-type quorum --scenario cost --messages 20000 --delays 1s-15s --repeat "${REPEAT:-3}" \
			--backend binaryladder/source,controller/slots,controller/rounds,plugin,bit-entry --steps calendar --steps binary
		measure "$1/wheel/steady" --queue-type quorum --scenario accuracy --messages 120000 --rate 4000 --delays 60s-120s \
			--repeat "${REPEAT:-3}" --backend controller/slots,plugin,undelayed
		measure "$1/wheel/busy" --queue-type quorum --scenario accuracy --messages 100000 --rate 10000 --delays 1s-3s \
			--repeat "${REPEAT:-3}" --backend controller/slots,plugin,binaryladder/source
		;;
	steps)
		measure "$1/steps/steady" --queue-type quorum --scenario accuracy --messages 120000 --rate 4000 --delays 60s-120s \
			--repeat "${REPEAT:-1}" --backend binaryladder/source --steps calendar --steps binary
		# The delays of people and the steps of calendar, a sixtieth of them, so that the run ends.
		measure "$1/steps/people" --queue-type quorum --scenario accuracy --messages 120000 --rate 2000 \
			--delays 250ms,500ms,750ms,1s,1500ms,2s,3s,5s,10s,15s,20s,30s,45s,1m,90s,2m --tick 250ms \
			--repeat "${REPEAT:-1}" --backend binaryladder/source,plugin --steps binary \
			--steps 250ms,500ms,750ms,1s,1250ms,1500ms,1750ms,2s,3s,5s,8s,10s,12500ms,15s,18500ms,20s,24s,28s,30s,34s,39500ms,45s,50500ms,56s,1m,90s,2m,3m,4m,6m,8m,12m
		measure "$1/steps/tick" --queue-type quorum --scenario accuracy --messages 5000 --rate 400 --delays 100ms-15s --tick 1ms \
			--repeat "${REPEAT:-3}" --backend binaryladder/source --steps calendar \
			--steps "$(seq -s, -f %gms 63),$(seq -s, -f %gms 64 64 4096),8192ms"
		;;
	hour)
		# Side by side, each beside a broker of its own: one after the other they take five hours.
		of=
		for backend in binaryladder/source controller/slots plugin undelayed; do
			measure "$1/delays/hour/$backend" --queue-type quorum --backend "$backend" \
				--scenario accuracy --rate 20 --messages 18000 --delays 4s-1h --step 4s &
			of="$of $!"
		done
		for pid in $of; do wait "$pid" || failed=1; done
		;;
	serve)
		both=undelayed,binaryladder/source,controller/slots,serve
		measure "$1/serve/steady" --queue-type quorum --scenario accuracy --messages 12000 --rate 2000 --delays 1s-5s \
			--repeat "${REPEAT:-3}" --backend "$both"
		measure "$1/serve/fast" --queue-type quorum --scenario cost --messages 20000 --delays 1s-5s \
			--repeat "${REPEAT:-3}" --backend "$both"
		measure "$1/serve/busy" --queue-type quorum --scenario accuracy --messages 64000 --rate 8000 --delays 1s-5s \
			--repeat "${REPEAT:-3}" --backend serve
		;;
	often)
		measure "$1/often" --full --scenario rate,hol,crash,recovery --repeat "${REPEAT:-3}" --queue-type quorum \
			--backend binaryladder/source,fixedtiers,controller/slots,plugin
		;;
	baselines)
		measure "$1/baselines" --full --scenario rate,hol,crash --repeat "${REPEAT:-3}" --queue-type quorum \
			--backend bit-entry,top-entry,per-message-ttl,binaryladder/source
		;;
	mixed) measure "$1/mixed" --full --scenario hol-mix,hops --repeat "${REPEAT:-3}" --queue-type quorum ;;
	backlog) measure "$1/backlog" --full --scenario backlog --repeat "${REPEAT:-3}" --queue-type quorum ;;
	hop)
		bench "$1/hop" -run '^$' -bench QuorumHop -benchtime 12000x -count 3 "$tests/backend"
		for turn in $(seq "${REPEAT:-3}"); do # -count would measure each three times in a row, and the machine drifts
			bench "$1/one-hop-$turn" -run '^$' -bench 'BenchmarkHop$' -benchtime 6000x "$tests/backend"
		done
		bench "$1/one-queue" -run '^$' -bench OneQueue -benchtime 60000x "$tests/backend"
		bench "$1/publish" -run '^$' -bench '^BenchmarkPublish$' -benchtime 25000x -count "${REPEAT:-3}" "$tests/backend"
		;;
	idle) bench "$1/idle" -run '^$' -bench Idle -benchtime 1x "$tests/controller" ;;
	full-destination) bench "$1/full-destination" -run '^$' -bench FullDestination -benchtime 1200x -count "${REPEAT:-3}" "$tests/controller" ;;
	change)
		bench "$1/change" -run '^$' -bench Cancel -benchtime 1000000x "$tests/controller"
		# The limit is the controllers': the benchmark itself ignores it.
		GOMEMLIMIT=112MiB bench "$1/change-limit" -run '^$' -bench Cancel -benchtime 1000000x "$tests/controller"
		;;
	shards) bench "$1/shards" -run '^$' -bench Shards -benchtime 1x "$tests/controller" ;;
	retries)
		DELAYER_TEST_ORDERS=10000 bench "$1/retries" -v -run '^TestKilled_Many$' ./examples/notify
		bench "$1/consume" -run '^$' -bench '^BenchmarkConsume$' -benchtime 60000x -count "${REPEAT:-3}" "$tests/satellites"
		;;
	outbox) bench "$1/outbox" -run '^$' -bench Relay -benchtime 30000x -count "${REPEAT:-3}" "$tests/satellites" ;;
	rehearsal) DELAYER_TEST_REHEARSAL=20000 bench "$1/rehearsal" -v -run '^TestRehearsal$' "$tests/migrate" ;;
	*) echo "there is no part $2: see scripts/results.sh" >&2 && exit 1 ;;
	esac
}

parts() {
	for part in ${PARTS:-full repeated user delays}; do part "$1" "$part"; done
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
if [ -n "$first" ]; then
	go run ./cmd/delayer-bench render "$first/report.json" --picture docs/results/comparison.svg || failed=1
fi
exit "$failed"
