#!/bin/bash
# A declared tunable, once as a variable of the run and once as a word of its command: found, delivered
# as a script, and the script works without us.
. "$(dirname "$0")/lib.sh"

mkdir p && cd p || exit 1
printf 'prog: prog.c\n\tgcc -O3 -o $@ prog.c\n' >Makefile
cat >prog.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* A figure that does not depend on how busy the machine is. */
int main(int argc, char **argv)
{
	struct timespec work = { 0, 5000000 };
	const char *v = argc > 1 ? argv[1] : getenv("BLOCK");

	nanosleep(&work, NULL);
	printf("checksum 42\nRATE: %d it/s\n", v && atoi(v) == 32 ? 30 : 10);
	return 0;
}
C
tree . >"$T/before"
fom=(--fom 'RATE: ([0-9]+)' --unit it/s --higher --fom-only --pairs 8 --yes)

expect 0 "$RB_BIN" optimize "${fom[@]}" --tunable BLOCK=16,32,64 .
has "$T/err" "BLOCK=32"
has "$T/err" "gain: 3.000"
has "$T/err" "apply.sh"
has .rocbudai/apply.sh "BLOCK=32 ./prog"
expect 0 "$RB_BIN" report --verify .
expect 0 sh .rocbudai/apply.sh
has "$T/out" "RATE: 30"
expect 0 "$RB_BIN" optimize --undo --yes .
tree . | diff "$T/before" - >"$T/out" || fail "undo did not bring the tree back"

expect 0 "$RB_BIN" optimize "${fom[@]}" --run './prog {BLOCK}' --tunable BLOCK=16,32 .
has "$T/err" "gain: 3.000"
has .rocbudai/apply.sh "./prog 32"
expect 0 "$RB_BIN" report --json .
has "$T/out" '"change": "BLOCK=32"'
has "$T/out" '"decision": "kept"'
