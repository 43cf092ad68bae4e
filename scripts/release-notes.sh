#!/bin/sh
# Prints the section of CHANGELOG.md for a version, without its heading. It fails if there is none.
#
#   release-notes.sh 0.1.0
set -eu

version=${1:?which version, such as 0.1.0}
cd "$(dirname "$0")/.."
notes=$(awk -v version="$version" '
	/^## / { found = ($2 == version); next }
	found
' CHANGELOG.md)
[ -n "$notes" ] || {
	echo "CHANGELOG.md has no section \"## $version\"" >&2
	exit 1
}
echo "$notes"
