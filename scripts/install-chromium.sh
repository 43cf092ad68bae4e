#!/bin/sh
# Installs Chromium from the system's packages where there is none, for the test that looks at report.html. Exit status 1
# says that it could not: nothing else needs it.
set -u

have() { command -v "$1" >/dev/null 2>&1; }

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

# A package server that does not answer must not hold up who waits for this.
limited() {
	if have timeout; then timeout 600 "$@"; else "$@"; fi
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		limited "$@"
	elif have sudo; then
		limited sudo -n "$@"
	else
		echo "Installing Chromium takes root, and there is no sudo. As root, type: $*" >&2
		return 1
	fi
}

install() {
	if have apt-get; then
		as_root apt-get update || echo "apt-get update failed: going on with the lists that are here" >&2
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium
	elif have dnf; then
		as_root dnf install -y chromium
	elif have brew; then
		brew install --cask chromium
	else
		echo "There is none of apt-get, dnf and brew to install Chromium with." >&2
		return 1
	fi
}

if have_chromium; then
	echo "Chromium is installed."
	exit 0
fi
install && have_chromium
