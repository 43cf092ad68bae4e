#!/bin/sh
# Installs what tests of the page check it with, from npm into bin/checkers: axe-core looks in the
# browser for what keeps people out. Exit status 1 says that it could not: the test says then that
# it did not run. Nothing else needs it.
set -u

what="the checkers of the page"
. "$(dirname "$0")/packages.sh"

axe=4.14.1
folder=$(dirname "$0")/../bin/checkers

there() { grep -qs "\"version\": \"$2\"" "$folder/node_modules/$1/package.json"; }

# With npm, Debian's Node.js is four hundred packages: it is left alone where it is not there.
if ! have npm || ! have node; then
	echo "There is no npm to install $what with." >&2
	exit 1
fi
if ! there axe-core "$axe"; then
	limited npm install --prefix "$folder" --no-save --ignore-scripts --no-audit --no-fund \
		"axe-core@$axe" || exit 1
fi
echo "The checkers of the page are installed."
