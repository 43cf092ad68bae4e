#!/bin/sh
# Looks for known vulnerabilities in what this module calls, and fails if there are any. Where the
# database cannot be reached it says so and goes on: that is no finding. VULN_DB names another
# database, as govulncheck -db takes it.
#
#   vuln.sh [FILE]   what was not done is also appended to FILE
set -u

version=v1.8.0
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

not_done() {
	echo "vulnerabilities: not looked for: $1" | tee ${2:+-a "$2"}
	exit 0
}

GOBIN=$bin go install "golang.org/x/vuln/cmd/govulncheck@$version" >"$bin/log" 2>&1 || {
	cat "$bin/log" >&2
	not_done "govulncheck $version cannot be had" "${1:-}"
}
patience= # for a network that answers nothing at all
command -v timeout >/dev/null 2>&1 && patience='timeout 600'
$patience "$bin/govulncheck" ${VULN_DB:+-db "$VULN_DB"} -test ./... >"$bin/log" 2>&1
status=$?
cat "$bin/log"
if [ "$status" = 124 ] && [ -n "$patience" ]; then
	not_done "no answer within ten minutes" "${1:-}"
fi
if [ "$status" != 0 ] && grep -q "fetching vulnerabilities:" "$bin/log"; then
	not_done "the database cannot be reached" "${1:-}"
fi
exit "$status"
