#!/bin/bash
# Every way to look faster that a program should not be believed for is tried as a play of its own in
# one session, and none is kept: tests/support/projects/cheats/cases says which guard sees which.
. "$(dirname "$0")/lib.sh"

kept="/tmp/rocbudai-cheat-answer-$(id -u) /dev/shm/rocbudai-cheat-answer-$(id -u)"
# shellcheck disable=SC2086
trap 'rm -f $kept; cleanup' EXIT

# A program of our own beside plays of our own: the built-in plays are none of this test's.
bin=$(dirname "$RB_BIN")
mkdir bin lib
cp "$RB_BIN" bin/rocbudai
cp -r "$(dirname "$bin")/lib/rocbudai" lib/
with_plays_of() { # PROJECT
	cp -r "$RB_SOURCE/tests/support/projects/$1" "$T/$1"
	rm -rf "$T/share"
	mkdir -p "$T/share/rocbudai"
	mv "$T/$1/plays" "$T/share/rocbudai/plays"
}
optimize() { # OPTION...
	expect 0 "$T/bin/rocbudai" optimize --yes --here --pairs 8 --build make "$@" .
	has_not "$T/err" "kept: "
	has "$T/err" "gain: none"
}
# decided MACRO DECISION REASON: what became of the play that sets the macro
decided() {
	n=$(sed -n "s/^iteration \([0-9]*\): -D$1 .*/\1/p" "$T/err")
	[ -n "$n" ] || fail "$1 was not tried"
	line=$(grep "^iteration $n: $2: " "$T/err") || fail "$1 was not $2"
	echo "$line" | grep -qE "$3" || fail "$1 was $2 for another reason: $line"
}

with_plays_of cheats
cd "$T/cheats" || exit 1
# RB_SHORT: one for each guard, where the program is slow itself
if [ -n "${RB_SHORT:-}" ]; then
	grep -E 'FIGURE|TUNED|TIMER|CACHE_TMP|FAILBUILD|UNUSED' cases >few
	for p in "$T"/share/rocbudai/plays/*; do
		grep -qF "$(sed -n 's/.*"-D\(.*\)"$/\1/p' "$p") " few || rm "$p"
	done
	mv few cases
fi
optimize --run ./prog --heldout './prog 800 15000' --run-timeout 8s \
	--fom 'MUPS: ([0-9.]+)' --unit MUPS --higher
while read -r macro decision guard _; do
	case $guard in
	output) why='became|is missing|exited with status|timed out|killed by' ;;
	held-out) why='became 4\.000000000000e\+02' ;;
	cold) why='^iteration [0-9]*: rejected: cold' ;;
	wall) why='wall' ;;
	noise) why='noise floor' ;;
	build) why='the build exited' ;;
	program) why='same program' ;;
	*) fail "cases: no guard is called $guard" ;;
	esac
	decided "$macro" "$decision" "$why"
done < <(grep -v '^#' cases)
[ -z "$(ours_running)" ] || fail "left running: $(ours_running)"
expect 0 "$T/bin/rocbudai" report --verify .

with_plays_of changedinput
cd "$T/changedinput" || exit 1
optimize --run ./prog
decided CHEAT_INPUT rejected 'input\.dat'

[ -z "${RB_SHORT:-}" ] || exit 0
with_plays_of layout
cd "$T/layout" || exit 1
./hunt.sh >"$T/hunt"
optimize --run './prog 20000000' --fom 'MUPS: ([0-9.]+)' --unit MUPS --higher
decided CHEAT_LAYOUT rejected 'noise floor|neutral|wall'
cat "$T/hunt"
grep '^iteration 1: rejected' "$T/err"
