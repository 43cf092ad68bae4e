#!/bin/sh
# Checks the links of all pages to files of this repository: the file exists, and has the heading.
cd "$(dirname "$0")/.." || exit
pages=$(git ls-files '*.md') && [ -n "$pages" ] || { echo "no pages: is this a clone, of this user's?" >&2; exit 1; }
echo "$pages" | xargs awk '
# slug is the anchor that GitHub gives a heading.
function slug(text) {
	text = tolower(text)
	gsub(/[^a-z0-9_ -]/, "", text)
	gsub(/ /, "-", text)
	return text
}
function check(link,    file, anchor) {
	if (link ~ /:/) return # of another site
	anchor = file = link
	if (!sub(/.*#/, "", anchor)) anchor = ""
	sub(/#.*/, "", file)
	file = file == "" ? FILENAME : folder file
	while (sub(/[^\/]+\/\.\.\//, "", file));
	links++; from[links] = FILENAME ":" FNR; to[links] = link; target[links] = file; heading[links] = anchor
}
FNR == 1 { fenced = 0; folder = FILENAME; sub(/[^\/]*$/, "", folder) }
/^ *```/ { fenced = !fenced }
fenced { next }
/^#+ / { text = $0; sub(/^#+ /, "", text); there[FILENAME "#" slug(text)] = 1 }
/^\[[^\]]+\]: / { check($2) }
{ for (rest = $0; match(rest, /\]\([^) ]+\)/); rest = substr(rest, RSTART + RLENGTH)) check(substr(rest, RSTART + 2, RLENGTH - 3)) }
END {
	for (i = 1; i <= links; i++)
		if (system("test -e \"" target[i] "\"") || heading[i] != "" && !((target[i] "#" heading[i]) in there)) {
			print from[i] ": nothing at " to[i]
			failed = 1
		}
	exit failed
}'
