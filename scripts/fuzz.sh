#!/bin/sh
# Runs every fuzz test for a while, one after the other: FUZZTIME each, a minute by default. What
# one finds is written below its package's testdata/fuzz, and is from then on a test of `make test`.
set -u
cd "$(dirname "$0")/.." || exit

failed= seen=
for file in $(grep -rl --include='*_test.go' '^func Fuzz' .); do
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file"); do
		seen=$name
		echo "$name, $(dirname "$file")"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-1m}" "$@" "$(dirname "$file")" || failed="$failed $name"
	done
done
if [ -n "$failed" ] || [ -z "$seen" ]; then
	echo "FAILED:${failed:- there is no fuzz test}"
	exit 1
fi
