#!/bin/sh
# Installs libfaketime from the system's packages where there is none, for the tests of long delays:
# they put the clock of a broker forward. Exit status 1 says that it could not: nothing else needs
# it.
set -u

what=libfaketime
. "$(dirname "$0")/packages.sh"

# Debian, Fedora and Alpine have it in different folders.
have_libfaketime() {
	for library in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib64/faketime/libfaketimeMT.so.1 \
		/usr/lib/faketime/libfaketimeMT.so.1 /usr/local/lib/faketime/libfaketimeMT.so.1; do
		[ -r "$library" ] && return 0
	done
	return 1
}

if have_libfaketime; then
	echo "libfaketime is installed."
	exit 0
fi
from_packages libfaketime libfaketime libfaketime && have_libfaketime
