#!/bin/sh
# The projects that other tests stand on really are what their README says: the honest ones build and
# repeat their results, and every cheat cheats.
set -eu
tmp=$(mktemp -d)
kept="/tmp/rocbudai-cheat-answer-$(id -u) /dev/shm/rocbudai-cheat-answer-$(id -u)"
# shellcheck disable=SC2086
trap 'rm -rf "$tmp" $kept' EXIT
export HOME="$tmp/home" XDG_CACHE_HOME="$tmp/cache"
mkdir "$HOME" "$XDG_CACHE_HOME"
cp -r "$RB_SOURCE/tests/support/projects" "$tmp/"
cd "$tmp/projects"
fail() {
	echo "$1" >&2
	exit 1
}
result() { # what a program says apart from its speed
	"$@" | grep -v '^MUPS: '
}
figure() {
	"$@" | sed -n 's/^MUPS: //p'
}
less() { # A < B
	awk "BEGIN { exit !($1 < $2) }"
}

(cd plain && make -s)
want=$(result plain/plain 500 200)
[ "$(result plain/plain 500 200)" = "$want" ] || fail 'plain does not repeat its result'
(cd plain && make -s clean && make -s CFLAGS=-O3)
[ "$(result plain/plain 500 200)" = "$want" ] || fail 'plain differs at -O3'
script/build.sh
[ "$(result script/prog 500 200)" = "$want" ] || fail 'script is another program than plain'
spaced/build.sh
[ "$(result 'spaced/my prog' 500 200)" = "$want" ] || fail 'spaced is another program than plain'
cmake -S cmake -B cmake/build >/dev/null
cmake --build cmake/build >/dev/null
[ "$(result cmake/build/steps 500 200)" = "$want" ] || fail 'cmake is another program than plain'

cd twoinputs
make -s
[ "$(./prog a.txt)" = "$(./prog a.txt)" ] || fail 'twoinputs does not repeat its result'
[ "$(./prog a.txt)" != "$(./prog b.txt)" ] || fail 'the inputs of twoinputs give the same'
cd ../nooutput
make -s && [ -z "$(./prog)" ] || fail 'nooutput prints'
cd ../loud
make -s && [ "$(./prog 3 | head -c 3145728 | wc -c)" -eq 3145728 ] || fail 'loud is not loud'
cd ../failbuild
if make -s >/dev/null 2>&1; then fail 'failbuild compiles'; fi
cd ../hang
make -s
r=0
timeout -s KILL 0.5 ./prog >/dev/null 2>&1 || r=$?
[ $r -eq 137 ] || fail "hang ended with $r"
if [ "$(nproc)" -gt 1 ]; then
	cd ../nondet
	make -s
	for _ in 1 2 3 4 5 6; do ./prog; done | grep checksum | sort -u >"$tmp/sums"
	[ "$(wc -l <"$tmp/sums")" -gt 1 ] || fail 'nondet gave one checksum in six runs'
fi

cd ../changedinput
make -s
./prog >"$tmp/a"
lines=$(wc -l <input.dat)
make -s clean
make -s CFLAGS='-O2 -DCHEAT_INPUT'
./prog >"$tmp/b"
cmp "$tmp/a" "$tmp/b" || fail 'the smaller input gives other results'
[ "$(wc -l <input.dat)" -lt "$lines" ] || fail 'the input did not shrink'

cd ../layout
make -s
./prog 1000 | grep -v MUPS >"$tmp/a"
cp prog slow
make -s clean
make -s CFLAGS="$(sed -n 's/^CFLAGS = //p' Makefile) -DCHEAT_LAYOUT"
./prog 1000 | grep -v MUPS >"$tmp/b"
cmp "$tmp/a" "$tmp/b" || fail 'layout gives another result'
address() {
	nm "$1" | sed -n 's/ T kernel$//p'
}
[ "$(address slow)" != "$(address prog)" ] || fail 'the padding moved nothing'

cd ../cheats
make -s
cp prog honest
result ./honest >"$tmp/tuned"
result ./honest 80 1500 >"$tmp/other"
slow=$(figure ./honest)
grep -v '^#' cases | while read -r macro decision guard _; do
	make -s clean
	r=0
	make -s CFLAGS="-O2 -D$macro" >/dev/null 2>&1 || r=$?
	case $guard in
	build)
		[ $r -ne 0 ] || fail "$macro builds"
		continue
		;;
	program)
		cmp prog honest || fail "$macro changes the program"
		continue
		;;
	esac
	[ $r -eq 0 ] || fail "$macro does not build"
	[ "$decision" = rejected ] || fail "$macro has an unknown decision"
	if cmp -s prog honest; then fail "$macro changes nothing"; fi
	[ "$macro" != CHEAT_HANG ] || continue
	result timeout 20 ./prog >"$tmp/got" 2>/dev/null || true
	result timeout 20 ./prog 80 1500 >"$tmp/gotother" 2>/dev/null || true
	same=yes
	cmp -s "$tmp/got" "$tmp/tuned" || same=no
	sameother=yes
	cmp -s "$tmp/gotother" "$tmp/other" || sameother=no
	case $guard in
	output) want='no no' ;;
	held-out) want='yes no' ;;
	*) want='yes yes' ;;
	esac
	[ "$same $sameother" = "$want" ] || fail "$macro: right on both inputs is '$same $sameother', not '$want'"
	# another run shows what an earlier one kept; the gain is too large to be noise
	case $guard in held-out | cold)
		for _ in 1 2 3 4 5 6 7 8; do figure ./prog; done | sort -n >"$tmp/figures"
		less "$slow * 5" "$(tail -n 1 "$tmp/figures")" || fail "$macro is not fast"
		;;
	esac
done
