#!/bin/sh
# Installs Chromium from the system's packages where there is none, for the tests that look at
# pages. Exit status 1 says that it could not: nothing else needs it.
set -u

what=Chromium
. "$(dirname "$0")/packages.sh"

# Some systems have the name without the browser: what counts is that it runs.
have_chromium() {
	for name in chromium chromium-browser google-chrome google-chrome-stable chrome headless-shell \
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
		if have "$name" && "$name" --version >/dev/null 2>&1; then
			return 0
		fi
	done
	return 1
}

if have_chromium; then
	echo "Chromium is installed."
	exit 0
fi
from_packages chromium chromium "--cask chromium" && have_chromium
