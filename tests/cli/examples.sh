#!/bin/sh
# The examples build as they are and compute what they should, however they are compiled.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() {
	echo "$1" >&2
	exit 1
}
cp -r "$RB_SOURCE/share/rocbudai/examples/stencil2d" "$tmp/"
cd "$tmp/stencil2d"
results() {
	sed -n 's/^\(residual\|checksum\): //p' "$1" | tr '\n' ' '
}

make -s >/dev/null
grep -q -- '-O0' Makefile || fail 'the example is not built the slow way'
# the same sums, worked out by another program
./stencil2d 14 23 9 >small
awk 'BEGIN {
	nx = 14; ny = 23
	for (i = 0; i < nx + 2; i++) for (j = 0; j < ny + 2; j++) {
		x = i / nx - 0.4; y = j / ny - 0.6
		t = 1 / (1 + 40 * (x * x + y * y))
		if (i == 0 || i == nx + 1 || j == ny + 1) t = 0
		else if (j == 0) t = 0.5
		u[i, j] = v[i, j] = t
	}
	for (s = 0; s < 9; s++) {
		worst = 0
		for (i = 1; i <= nx; i++) for (j = 1; j <= ny; j++) {
			d = 0.2 * (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1] - 4 * u[i, j])
			v[i, j] = u[i, j] + d
			d = v[i, j] - u[i, j]
			if (d < 0) d = -d
			if (d > worst) worst = d
		}
		for (i = 1; i <= nx; i++) for (j = 1; j <= ny; j++) u[i, j] = v[i, j]
	}
	for (i = 1; i <= nx; i++) for (j = 1; j <= ny; j++) sum += u[i, j]
	printf "%.12e %.12e ", worst, sum
}' >want
[ "$(results small)" = "$(cat want)" ] || fail "small plate: $(results small) instead of $(cat want)"

./stencil2d 301 203 40 >base
grep -q '^grid: 301 x 203, 40 steps$' base || fail 'the size is not printed'
grep -Eq '^GLUPS: [0-9]+\.[0-9]{3}$' base || fail 'no figure of merit'
for flags in -O1 -O3 '-O3 -march=native -ffp-contract=off' '-O2 -fopenmp' '-O3 -flto'; do
	make -s clean
	make -s CFLAGS="$flags" >/dev/null
	for threads in 1 2 3; do
		OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=passive ./stencil2d 301 203 40 >other
		[ "$(results other)" = "$(results base)" ] ||
			fail "$flags, $threads threads: $(results other) instead of $(results base)"
	done
done
for bad in '1 2' '0 3 3' '3 3 x' '3 3 99999999999'; do
	# shellcheck disable=SC2086
	if ./stencil2d $bad >/dev/null 2>&1; then fail "'$bad' was accepted"; fi
done
make -s clean
[ ! -e stencil2d ] || fail 'make clean leaves the program'
