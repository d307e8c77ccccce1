# Shared by the tests of bench and compare: a scratch folder, and a few assertions.
# shellcheck shell=sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export HOME="$tmp/home" XDG_STATE_HOME="$tmp/state" LC_ALL=C
unset ROCBUDAI_BENCH_GPU ROCBUDAI_BENCH_CPUS ROCR_VISIBLE_DEVICES ROCBUDAI_SYSROOT
mkdir "$HOME" "$tmp/work"
cd "$tmp/work" || exit 1
jsonq="$RB_BUILD/tests/jsonq"

fail() {
	echo "$1" >&2
	[ ! -s "$tmp/out" ] || sed 's/^/  out: /' "$tmp/out" >&2
	[ ! -s "$tmp/err" ] || sed 's/^/  err: /' "$tmp/err" >&2
	exit 1
}
# rb STATUS ARGUMENTS...: runs the program, its output in $tmp/out and $tmp/err
rb() {
	want=$1
	shift
	got=0
	"$RB_BIN" "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
	[ "$got" = "$want" ] || fail "rocbudai $* ended with $got, not $want"
}
out_has() { grep -q -- "$1" "$tmp/out" || fail "no '$1' on standard output"; }
out_lacks() { ! grep -q -- "$1" "$tmp/out" || fail "'$1' on standard output"; }
err_has() { grep -q -- "$1" "$tmp/err" || fail "no '$1' on standard error"; }
# json KEY VALUE: standard output is one document that has the value there
json() {
	v=$("$jsonq" "$tmp/out" "$1") || fail "no $1 in the JSON"
	[ "$v" = "$2" ] || fail "$1 is $v, not $2"
}
json_lacks() { ! "$jsonq" "$tmp/out" "$1" >/dev/null || fail "$1 is in the JSON"; }
# json_number KEY AWK-CONDITION ON x
json_number() {
	v=$("$jsonq" "$tmp/out" "$1") || fail "no $1 in the JSON"
	awk -v x="$v" "BEGIN { exit !(x ~ /^-?[0-9.]+(e[-+]?[0-9]+)?\$/ && ($2)) }" ||
		fail "$1 is $v, which is not $2"
}
