#!/bin/bash
# A whole session on a small project: kept, delivered, verified, reported, undone.
. "$(dirname "$0")/lib.sh"

mkdir "it's a project" && cd "it's a project" || exit 1
cat >Makefile <<'M'
CC = gcc
CFLAGS = -O0
prog: prog.c
	$(CC) $(CFLAGS) -o $@ prog.c
M
cat >prog.c <<'C'
#include <stdio.h>
#include <time.h>
/* Times that do not depend on how busy the machine is: what is tested is the session, not the speed. */
#ifdef __OPTIMIZE__
static const struct timespec work = { 0, 20000000 };
#else
static const struct timespec work = { 0, 80000000 };
#endif
static unsigned value(unsigned n)
{
	return n < 2 ? n : value(n - 1) + value(n - 2);
}
int main(void)
{
	nanosleep(&work, NULL);
	printf("checksum %u\n", value(12));
	return 0;
}
C
git init -q . && git add -A && git -c user.name=x -c user.email=x@y commit -qm one
echo untracked >notes.txt
index=$(sha256sum .git/index)
tree . >"$T/before"

expect 0 "$RB_BIN" optimize --yes --pairs 10 --name "first try" --json-events .
has "$T/err" "gain: "
has "$T/out" '"event":"phase"'
has Makefile "-O3"
[ -s report.md ] || fail "no report.md"
has report.md "[FACT] Gain of the delivered program"
[ "$(sha256sum .git/index)" = "$index" ] || fail "the user's index was changed"
[ "$(cat notes.txt)" = untracked ] || fail "an untracked file was changed"
grep -rlE 'librbrec|LD_PRELOAD' --exclude-dir=.rocbudai --exclude=report.md . >"$T/out" && fail "traces of the recorder"

expect 0 "$RB_BIN" report --verify .
expect 0 "$RB_BIN" report --json .
gain=$(json gain <"$T/out")
case $gain in 1.[1-9]* | [2-9]* | [1-9][0-9]*) ;; *) fail "gain '$gain' is not over 1.1" ;; esac
has "$T/out" '"decision": "kept"'

# what is delivered builds and runs without us
make -s >"$T/out" 2>&1 || fail "the delivered project does not build"
./prog >"$T/out"
has "$T/out" checksum

# a second session on the same project: its own start, the old evidence stays
expect 0 "$RB_BIN" optimize --undo --yes .
tree . >"$T/after"
diff "$T/before" "$T/after" >"$T/out" || fail "undo did not bring the tree back"
expect 1 "$RB_BIN" optimize --yes --continue .
has "$T/err" "ended"
[ -z "$(ours_running)" ] || fail "left running: $(ours_running)"
