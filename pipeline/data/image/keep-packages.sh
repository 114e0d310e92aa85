#!/bin/sh
# Hook of mmdebstrap, called before and after it unpacks (as extract hook: the variant
# "extract" runs no later one). Packages and lists of packages are kept below $KTRIAL_APT from
# one image to the next. As hard links: apt puts its files in place by renaming, so the content
# of a link never changes. $1 is the root that is being filled.
set -eu

# link_files FROM TO
link_files() {
	mkdir -p "$1" "$2"
	find "$1" -maxdepth 1 -type f ! -name lock -exec cp -lf -t "$2" {} +
}

for folder in var/cache/apt/archives var/lib/apt/lists; do
	case $MMDEBSTRAP_HOOK in
	setup) link_files "$KTRIAL_APT/$folder" "$1/$folder" ;;
	extract) link_files "$1/$folder" "$KTRIAL_APT/$folder" ;;
	esac
done
