#!/bin/sh
# Fetches a release of the plugin rabbitmq_delayed_message_exchange, checks its SHA-256, and puts it
# where RabbitMQ finds it. `make install-plugin` runs it. Variables:
#
#   SERIES  of RabbitMQ, such as 4.0. Default: that of the installed one
#   FOLDER  the plugin folder. Default: that of the installed RabbitMQ
#   IMAGE   if set, build the image rabbitmq:SERIES-delayed from rabbitmq:SERIES instead
#   FILE    a local .ez file instead of a release; needs DIGEST
#   DIGEST  the SHA-256 that the file must have, in hexadecimal. Default: the one that the releases' API gives
#   MIRROR  an address that answers as the releases' API does
set -eu

plugin=rabbitmq_delayed_message_exchange
folders='/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins /opt/rabbitmq/plugins /opt/homebrew/opt/rabbitmq/plugins /usr/local/opt/rabbitmq/plugins'
part=$(mktemp -d)
trap 'rm -rf "$part"' EXIT

fail() {
	echo "install-plugin: $*" >&2
	exit 1
}
fetch() { curl --fail --silent --show-error --location --max-time 120 --max-filesize 67108864 "$1"; }
hint='(give a mirror of the releases: MIRROR=…, or a local file: FILE=… DIGEST=…)'

if [ -z "${SERIES:-}" ] || [ -z "${IMAGE:-}${FOLDER:-}" ]; then
	# shellcheck disable=SC2086 # patterns
	core=$(for folder in $folders; do ls -d "$folder"/rabbit-[0-9]* 2>/dev/null || true; done | head -n 1)
	[ -n "$core" ] || fail 'no RabbitMQ is installed here (name the series and the folder: SERIES=4.0 FOLDER=…; or build an image: SERIES=4.0 IMAGE=1)'
	FOLDER=${FOLDER:-${core%/*}}
	SERIES=${SERIES:-$(basename "$core" | sed 's/^rabbit-\([0-9]*\.[0-9]*\)\..*/\1/')}
fi
case $SERIES in
4.[3-9] | 4.[1-9][0-9]* | [5-9].* | [1-9][0-9]*.*) fail "RabbitMQ $SERIES cannot run the plugin: its last release is for 4.2, as Mnesia is gone since" ;;
esac

if [ -n "${FILE:-}" ]; then
	[ -n "${DIGEST:-}" ] || fail 'a local file needs the digest that it must have (DIGEST=…)'
	file=$part/$(basename "$FILE")
	cp "$FILE" "$file"
else
	fetch "${MIRROR:-https://api.github.com}/repos/rabbitmq/rabbitmq-delayed-message-exchange/releases?per_page=100" >"$part/releases" ||
		fail "the releases cannot be reached $hint"
	# Of each asset the digest comes before the address. The newest patch of the series is the last
	# line.
	found=$(tr ',{}' '\n\n\n' <"$part/releases" | awk -F '"' -v want="/$plugin-$SERIES." '
		$2 == "digest" { digest = $4 }
		$2 == "browser_download_url" {
			at = index($4, want)
			patch = substr($4, at + length(want))
			if (at && patch ~ /^[0-9]+\.ez$/) { print patch + 0, $4, digest }
			digest = ""
		}' | sort -n | tail -n 1)
	[ -n "$found" ] || fail "no release of the plugin is for RabbitMQ $SERIES $hint"
	address=$(echo "$found" | cut -d ' ' -f 2)
	DIGEST=${DIGEST:-$(echo "$found" | cut -d ' ' -f 3)}
	[ -n "$DIGEST" ] || fail "${address##*/}: the API gives no digest for it (give one that you trust: DIGEST=…)"
	file=$part/${address##*/}
	fetch "$address" >"$file" || fail "$address cannot be fetched $hint"
fi

want=$(echo "${DIGEST#sha256:}" | tr 'A-F' 'a-f')
got=$( (sha256sum "$file" 2>/dev/null || shasum -a 256 "$file") | cut -d ' ' -f 1)
[ "$got" = "$want" ] || fail "${file##*/}: its SHA-256 is $got, and $want is expected: nothing is installed"
echo "${file##*/}: SHA-256 as expected"

if [ -z "${IMAGE:-}" ]; then
	# Under its name only when it is whole.
	{ cp "$file" "$FOLDER/${file##*/}.part" && mv "$FOLDER/${file##*/}.part" "$FOLDER/${file##*/}"; } ||
		fail "cannot write to $FOLDER (run it as a user who may, such as root)"
	echo "installed $FOLDER/${file##*/}"
	echo "enable it: rabbitmq-plugins enable $plugin"
	exit 0
fi
mkdir "$part/image"
mv "$file" "$part/image/"
# The patterns are for the image: what this machine has must not replace them (set -f).
docker build --tag "rabbitmq:$SERIES-delayed" --file - "$part/image" <<END
FROM rabbitmq:$SERIES
COPY ${file##*/} /tmp/
RUN set -e; for core in $(set -f; for folder in $folders; do printf '%s/rabbit-[0-9]* ' "$folder"; done); do \\
	if [ -e "\$core" ]; then mv /tmp/${file##*/} "\${core%/*}/"; exit 0; fi; done; exit 1
END
echo "built rabbitmq:$SERIES-delayed; tests take it with DELAYER_RABBITMQ_IMAGE=rabbitmq:$SERIES-delayed"
