#!/bin/sh
# merge_config.sh -m -O FOLDER CONFIG FRAGMENT…: CONFIG with the fragments' symbols on top.
set -eu
merge_only=
folder=.
while getopts mO: option; do
	case $option in
	m) merge_only=1 ;;
	O) folder=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ "$merge_only" ] || { echo "this miniature knows -m only" >&2; exit 2; }
[ "$folder/.config" -ef "$1" ] || cp "$1" "$folder/.config"
shift
for fragment in "$@"; do
	echo "Merging $fragment"
	sed -n 's/^\(CONFIG_[A-Za-z0-9_]*\)=.*/\1/p; s/^# \(CONFIG_[A-Za-z0-9_]*\) is not set/\1/p' "$fragment" |
	while read -r symbol; do
		sed -i -e "/^$symbol=/d" -e "/^# $symbol is not set/d" "$folder/.config"
	done
	cat "$fragment" >> "$folder/.config"
done
