#!/bin/sh
# Runs all tests on a real broker, and ends with what a reader must know of the run: which broker it
# was, and what was skipped. Arguments are handed to go test; its exit status is ours.
set -u

summary=$(mktemp)
trap 'rm -f "$summary"' EXIT

# The race detector needs cgo, and cgo a C compiler, which a machine with nothing but Go has not.
race=-race
if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC | cut -d ' ' -f 1)" >/dev/null 2>&1; then
	race=
	echo "race detector: off, there is no C compiler" >"$summary"
fi

# Everything is compiled with all cores first. Then three packages at a time, each with a broker of its own: most tests
# wait for delays most of the time.
go test $race -count=1 -run '^$' ./... >/dev/null 2>&1
DELAYER_TEST_SUMMARY=$summary go test $race -count=1 -p 3 -timeout 40m "$@" ./...
status=$?

echo
echo "Summary"
if [ -n "$race" ]; then echo "  race detector: on"; fi
if [ -s "$summary" ]; then sed 's/^/  /' "$summary"; fi
if [ "$status" = 0 ]; then echo "  all tests passed"; else echo "  FAILED"; fi
exit "$status"
