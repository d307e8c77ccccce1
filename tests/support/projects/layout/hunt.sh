#!/bin/sh
# Finds, for this machine and compiler, a slow and a fast place for the loop of kernel.c, writes
# them to pad.h and prints "slow S fast F ratio R".  Each figure is the best of many short tries, so
# that neighbours on the machine do not matter, and the extremes are measured again, alternating.
set -eu
cd "$(dirname "$0")"
flags=$(sed -n 's/^CFLAGS = //p' Makefile)
trap 'rm -f hunt-*; make -s clean' EXIT
make -s kernel.o main.o
best() { # PAD
	# shellcheck disable=SC2086
	[ -x "hunt-$1" ] || {
		gcc $flags "-DPAD=$1" -c pad.c -o hunt-pad.o
		gcc $flags -no-pie -o "hunt-$1" hunt-pad.o kernel.o main.o
	}
	"./hunt-$1" 200000 100 | sed -n "s/^MUPS: \\(.*\\)/\\1 $1/p"
}
better() { # FILE: the best line of each pad, sorted by figure
	sort -k 2,2n -k 1,1nr "$1" | awk '$2 != last { print; last = $2 }' | sort -n
}
p=0
while [ $p -lt 64 ]; do
	best $p
	p=$((p + 3))
done >hunt-all
for _ in 1 2 3 4; do
	better hunt-all | sed -n '1,4p;$p' | while read -r _ p; do
		best "$p"
	done >hunt-more
	cat hunt-more >>hunt-all
done
better hunt-all >hunt-sorted
slow=$(awk 'NR == 1 { print $2 }' hunt-sorted)
fast=$(awk 'END { print $2 }' hunt-sorted)
{
	echo '/* Bytes before the loop of kernel.c: a slow and a fast place, as hunt.sh found them. */'
	echo "#define PAD_SLOW $slow"
	echo "#define PAD_FAST $fast"
} >pad.h
awk -v s="$slow" -v f="$fast" 'NR == 1 { a = $1 } END { printf "slow %d fast %d ratio %.3f\n", s, f, $1 / a }' hunt-sorted
