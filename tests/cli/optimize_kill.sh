#!/bin/bash
# Kills at every named step and at random moments, one chain of --continue: the tree is the original
# or a kept state, the ledger valid, nothing left running.
# KILLS=N: random kills (default 6; the soak takes 50).
. "$(dirname "$0")/lib.sh"

mkdir p && cd p || exit 1
cat >Makefile <<'M'
prog: prog.c
	gcc -O0 -o $@ prog.c
M
cat >prog.c <<'C'
#include <stdio.h>
#include <time.h>
/* A figure that does not depend on how busy the machine is: what is tested is the session. */
#ifdef __OPTIMIZE__
#define RATE 30
#else
#define RATE 10
#endif
static const struct timespec work = { 0, 10000000 };
static unsigned value(unsigned n)
{
	return n < 2 ? n : value(n - 1) + value(n - 2);
}
int main(void)
{
	nanosleep(&work, NULL);
	printf("checksum %u\nRATE: %d it/s\n", value(12), RATE);
	return 0;
}
C
tree . >"$T/original"
opts=(--pairs 8 --yes --fom 'RATE: ([0-9]+)' --unit it/s --higher --fom-only)

gone() { # after a kill nothing of ours may go on
	for _ in $(seq 50); do
		[ -z "$(ours_running)" ] && return 0
		sleep 0.1
	done
	fail "still running after the kill at $1: $(ours_running)"
}

# sources are not touched before the delivery, killed or not
sources() {
	case $(grep -ho '"state":"[a-z]*"' .rocbudai/sessions/*.jsonl 2>/dev/null | tail -n 1) in
	*deliver* | *report*) return ;;
	esac
	tree . | grep -E ' \./(Makefile|prog\.c)$' >"$T/now"
	grep -E ' \./(Makefile|prog\.c)$' "$T/original" | diff - "$T/now" >"$T/out" ||
		fail "sources changed after the kill at $1"
}

# run FAULT: starts a session or goes on with it
run() {
	local more=()
	ls .rocbudai/sessions/*.jsonl >/dev/null 2>&1 && more=(--continue)
	ROCBUDAI_FAULT=$1 exec "$RB_BIN" optimize "${more[@]}" "${opts[@]}" . >"$T/out" 2>"$T/err" </dev/null
}

points="enter-discover enter-agree enter-setup enter-build enter-check enter-baseline enter-profile
enter-diagnose enter-propose enter-change enter-recheck enter-screen pair:3 enter-confirm pair:9
decided decision-recorded enter-decide enter-restore before-evidence:2 after-evidence:2 enter-deliver
delivered enter-report"
n=0
for at in $points; do
	(run "$at")
	s=$?
	case $s in
	137) n=$((n + 1)) ;;
	0) # the session came to its end without passing the point: a new one for the rest
		"$RB_BIN" optimize --undo --yes . >"$T/out" 2>"$T/err" || fail "undo after $at"
		rm -rf .rocbudai .rocbudai-sessions.json report.md
		tree . | diff "$T/original" - >"$T/out" || fail "undo did not restore"
		;;
	*) fail "exit status $s at $at" ;;
	esac
	gone "$at"
	sources "$at"
done
[ "$n" -ge 18 ] || fail "only $n of the named points were reached"

kills=${KILLS:-6}
for i in $(seq "$kills"); do
	run none &
	pid=$!
	sleep "$((RANDOM % 4)).$((RANDOM % 10))"
	kill -KILL $pid 2>/dev/null
	wait $pid 2>/dev/null
	s=$?
	gone "random $i"
	if [ $s = 0 ]; then
		"$RB_BIN" optimize --undo --yes . >"$T/out" 2>"$T/err" || fail "undo"
		rm -rf .rocbudai .rocbudai-sessions.json report.md
	fi
done

# and to the end
(run none)
s=$?
[ $s = 0 ] || [ $s = 1 ] || fail "exit status $s at the end"
[ $s = 1 ] && has "$T/err" "the last session ended"
expect 0 "$RB_BIN" report .
expect 0 "$RB_BIN" report --verify .
./prog >"$T/out" || fail "the program does not run"
has "$T/out" checksum
expect 0 "$RB_BIN" optimize --undo --yes .
tree . >"$T/after"
diff "$T/original" "$T/after" >"$T/out" || fail "the original did not come back"
[ -z "$(ours_running)" ] || fail "left running: $(ours_running)"
echo "$n named points, $kills random kills"
