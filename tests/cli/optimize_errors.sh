#!/bin/bash
# What goes wrong for users: each has a message that says so, and an unharmed project.
. "$(dirname "$0")/lib.sh"

project() { # project NAME [MAKE-LINES]: a fresh one in $T/NAME, and in it
	rm -rf "${T:?}/$1" && mkdir "$T/$1" && cd "$T/$1" || exit 1
	printf 'prog: prog.c\n\tgcc -O1 -o $@ prog.c\n' >Makefile
	cat >prog.c
	tree . >"$T/before"
}

unharmed() {
	tree . >"$T/after"
	diff "$T/before" "$T/after" >"$T/out" || fail "the project was changed"
	[ -z "$(ours_running)" ] || fail "left running: $(ours_running)"
}

# a compiler error
project "compile error" <<<'int main(void) { return x; }'
expect 1 "$RB_BIN" optimize --yes .
has "$T/err" "the build command 'make' exited with status 2"
has "$T/err" "'x' undeclared"
unharmed

# no compiler
project "no compiler" <<<'int main(void) { return 0; }'
sed -i 's/gcc/no-such-compiler/' Makefile
tree . >"$T/before"
expect 1 "$RB_BIN" optimize --yes .
has "$T/err" "no-such-compiler"
unharmed

# the run fails
project "failing run" <<<'int main(void) { return 3; }'
expect 1 "$RB_BIN" optimize --yes .
has "$T/err" "exited with status 3"
unharmed

# a run that hangs
project "hanging run" <<<'#include <unistd.h>
int main(void) { for (;;) pause(); }'
expect 1 "$RB_BIN" optimize --yes --run-timeout 1s .
has "$T/err" "timed out"
unharmed

# not deterministic
project "random result" <<<'#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
int main(void) { unsigned x; getrandom(&x, 4, 0); printf("checksum %u\n", x); return 0; }'
expect 1 "$RB_BIN" optimize --yes .
has "$T/err" "not deterministic in checksum"
has "$T/err" "--ignore"
unharmed

# nothing printed: unchecked, nothing kept
project "silent" <<<'int main(void) { volatile unsigned s = 0; for (int i = 0; i < 9000000; i++) s += i; return 0; }'
expect 0 "$RB_BIN" optimize --yes --pairs 8 .
has "$T/err" "unchecked"
has "$T/err" "gain: none"
has report.md "**unchecked**"
unharmed
expect 0 "$RB_BIN" report --verify .

# leaves children behind, prints binary
project "leaves children" <<<'#include <stdio.h>
#include <unistd.h>
int main(void) { if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); }
	putchar(0); putchar(255); printf("\nresult 42\n"); return 0; }'
expect 0 "$RB_BIN" optimize --yes --pairs 8 --budget 6s .
unharmed
expect 0 "$RB_BIN" report --verify .

# 100 MB of binary output
rm -rf "$T/loud" && cp -r "$RB_SOURCE/tests/support/projects/loud" "$T/loud" && cd "$T/loud" || exit 1
tree . >"$T/before"
expect 0 "$RB_BIN" optimize --yes --pairs 8 --budget 6s .
unharmed
expect 0 "$RB_BIN" report --verify .

# a path that is not UTF-8, with a quote and a blank
project $'not UTF-8 \xff\x27' <<<'#include <stdio.h>
int main(void) { puts("result 42"); return 0; }'
expect 0 "$RB_BIN" optimize --yes --name ok --pairs 8 --budget 4s .
unharmed
expect 0 "$RB_BIN" report --verify .

# two programs on one project: the second is told who holds it, the first goes on
project "two at once" <<<'#include <stdio.h>
#include <unistd.h>
int main(void) { usleep(200000); puts("result 42"); return 0; }'
"$RB_BIN" optimize --yes --pairs 8 --budget 8s . >"$T/first" 2>&1 </dev/null &
first=$!
for _ in $(seq 100); do
	[ -s .rocbudai/evidence.jsonl ] && break
	sleep 0.1
done
expect 1 "$RB_BIN" optimize --yes .
has "$T/err" "$first"
wait $first || fail "the first program did not end well: $(tail -n 3 "$T/first")"
unharmed

# interrupted: back to what it was, and --continue goes on
project "interrupted" <<<'#include <stdio.h>
#include <unistd.h>
int main(void) { usleep(50000); puts("result 42"); return 0; }'
"$RB_BIN" optimize --yes --pairs 8 --json-events . >"$T/first" 2>&1 </dev/null &
first=$!
for _ in $(seq 300); do
	grep -q '"phase":"screen"' "$T/first" && break
	sleep 0.1
done
kill -INT $first
wait $first
[ $? = 130 ] || fail "an interrupted session does not end with 130"
has report.md "interrupted"
expect 0 "$RB_BIN" optimize --yes --continue .
has "$T/err" "going on with session"
unharmed
expect 0 "$RB_BIN" report --verify .

# a full disk, and one that is read-only: said, and the project is unharmed
if [ "$(id -u)" = 0 ] && mkdir "$T/small" && mount -t tmpfs -o size=600k none "$T/small" 2>/dev/null; then
	trap 'umount -l "$T/small" 2>/dev/null; cleanup' EXIT
	cd "$T/small" && mkdir p && cd p || exit 1
	printf 'prog: prog.c\n\tgcc -O1 -o $@ prog.c\n' >Makefile
	printf '#include <stdio.h>\nint main(void) { puts("result 42"); return 0; }\n' >prog.c
	tree . >"$T/before"
	dd if=/dev/zero of="$T/small/filler" bs=1k count=500 2>/dev/null
	export XDG_STATE_HOME="$T/small/state"
	expect 1 "$RB_BIN" optimize --yes --pairs 8 .
	has "$T/err" "No space left"
	rm "$T/small/filler"
	# on a disk that is full not even the build's own product can be cleared away
	rm -f prog
	expect 0 "$RB_BIN" optimize --yes --pairs 8 --budget 5s .
	unharmed
	mount -o remount,ro "$T/small"
	expect 2 "$RB_BIN" optimize --yes .
	has "$T/err" "cannot be read and written"
	cd "$T" && umount -l "$T/small"
	export XDG_STATE_HOME="$T/state"
	trap cleanup EXIT
else
	echo "the full disk and the read-only one were left out: no file system can be mounted here"
fi

# usage
cd "$T" || exit 1
mkdir empty && cd empty || exit 1
expect 2 "$RB_BIN" optimize --yes .
has "$T/err" "--build"
expect 2 "$RB_BIN" optimize --yes --build true .
has "$T/err" "--run"
expect 2 "$RB_BIN" optimize --higher --lower .
expect 2 "$RB_BIN" optimize --pairs 3 .
expect 2 "$RB_BIN" optimize --tunable X .
expect 2 "$RB_BIN" optimize a b
expect 2 "$RB_BIN" optimize "$T/none"
has "$T/err" "does not exist"
expect 1 "$RB_BIN" optimize --continue .
has "$T/err" "no session"

# a folder that cannot be written
if [ "$(id -u)" != 0 ]; then
	mkdir "$T/ro" && chmod 555 "$T/ro"
	expect 2 "$RB_BIN" optimize --yes "$T/ro"
fi

# Slurm shares the node out and no job of ours is here
cd "$T" || exit 1
SLURM_CONF=/nowhere/slurm.conf expect 1 "$RB_BIN" optimize --yes .
has "$T/err" "salloc"
has "$T/err" "--here"
