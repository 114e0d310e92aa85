#!/bin/sh
# conf.sh TREE CONFIG none|default: write CONFIG anew from what it holds, so that each symbol
# whose dependencies are not met is dropped without a word, as Kconfig does.
# Reads the part of the language that the miniature uses; no choices, no select.
set -eu
tree=$1 config=$2 mode=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# All entries, one a line: NAME|TYPE|PROMPT (1, 0)|DEPENDS|DEFAULT
flatten() {
	while IFS= read -r line || [ -n "$line" ]; do
		number=$((number + 1))
		case $line in
		'source "'*)
			sub=${line#source \"}
			sub=${sub%\"}
			sub=$(printf '%s' "$sub" | sed "s/\$(SRCARCH)/$SRCARCH/")
			echo "F $sub"
			(number=0; flatten "$sub" < "$tree/$sub") || exit 1
			echo "F $1" ;;
		*) echo "L $number $line" ;;
		esac
	done
}
number=0
flatten Kconfig < "$tree/Kconfig" > "$work/lines"

awk '
function flush() {
	if (name == "") return
	all = depends
	for (i = 1; i <= depth; i++) all = all (all == "" ? "" : " && ") "(" around[i] ")"
	print name "|" type "|" prompt "|" all "|" value
	name = ""
}
function fail(text) { print file ":" line ": " text > "/dev/stderr"; failed = 1; exit 1 }
$1 == "F" { flush(); file = $2; next }
{
	line = $2
	sub(/^L [0-9]+ ?/, "")
	raw = $0
	if (help) { if (raw ~ /^[ \t]/ || raw == "") next; help = 0 }
	sub(/^[ \t]+/, "")
	if ($0 == "" || $0 ~ /^#/) next
	rest = $0; sub(/^[^ \t]+[ \t]*/, "", rest)
}
$1 == "mainmenu" { next }
$1 == "menu" || $1 == "endmenu" { flush(); next }
$1 == "if" { flush(); around[++depth] = rest; next }
$1 == "endif" { flush(); depth--; next }
$1 == "config" { flush(); name = rest; type = "bool"; prompt = 0; depends = ""; value = ""; next }
$1 == "bool" || $1 == "tristate" || $1 == "int" || $1 == "string" { type = $1; prompt = rest != ""; next }
$1 == "def_bool" { type = "bool"; value = rest; next }
$1 == "default" { value = rest; next }
$1 == "depends" { sub(/^on[ \t]*/, "", rest); depends = depends (depends == "" ? "" : " && ") "(" rest ")"; next }
$1 == "help" { help = 1; next }
{ fail("unknown statement \"" $1 "\"") }
END { if (!failed) flush() }
' "$work/lines" > "$work/entries"

# One pass in the order of declaration; what an entry depends on is declared before it.
awk -F'|' -v mode="$mode" '
FNR == NR {
	if (match($0, /^CONFIG_[A-Za-z0-9_]+=/))
		asked[substr($0, 8, RLENGTH - 8)] = substr($0, RLENGTH + 1)
	else if ($0 ~ /^# CONFIG_[A-Za-z0-9_]+ is not set/) {
		split($0, words, " ")
		asked[substr(words[2], 8)] = "n"
	}
	next
}
# An expression of names, !, && and ||, with parentheses: innermost ones first.
function holds(text,   inner) {
	while (match(text, /\([^()]*\)/)) {
		inner = flat(substr(text, RSTART + 1, RLENGTH - 2))
		text = substr(text, 1, RSTART - 1) (inner ? "y" : "n") substr(text, RSTART + RLENGTH)
	}
	return flat(text)
}
function flat(text,   ors, ands, i, j, n, m, all) {
	gsub(/[ \t]/, "", text)
	n = split(text, ors, /\|\|/)
	for (i = 1; i <= n; i++) {
		m = split(ors[i], ands, /&&/)
		all = 1
		for (j = 1; j <= m; j++) all = all && term(ands[j])
		if (all) return 1
	}
	return 0
}
function term(word) {
	if (word ~ /^!/) return !term(substr(word, 2))
	if (word == "y") return 1
	if (word == "n") return 0
	return (word in final) && final[word] != "n"
}
{
	name = $1; type = $2; prompt = $3
	if ($4 != "" && !holds($4)) next
	value = (mode == "none" && prompt && (type == "bool" || type == "tristate")) ? "n" : $5
	if (prompt && (name in asked)) value = asked[name]
	if (type == "tristate" && value == "m" && final["MODULES"] != "y") value = "y"
	if (value == "" && type != "string") value = "n"
	if (value == "" && type == "string") value = "\"\""
	final[name] = value
	if (value == "n") print "# CONFIG_" name " is not set"
	else print "CONFIG_" name "=" value
}
' "$config" "$work/entries" > "$work/config"
cat "$work/config" > "$config"
