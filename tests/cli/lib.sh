# Sourced by the command-line tests: a folder of their own with a space in its name, a home and a
# state folder in it, and assertions that name what they saw.
# Needs RB_BIN and RB_SOURCE; sets T (the folder) and leaves the test in it.
set -u
umask 022
export LC_ALL=C
T=$(mktemp -d "${TMPDIR:-/tmp}/rb cli-XXXXXX") || exit 1
export HOME="$T/home" XDG_STATE_HOME="$T/state"
unset ROCBUDAI_FAULT ROCBUDAI_PLAYS_DIR ROCBUDAI_BENCH_CPUS ROCBUDAI_BENCH_GPU SLURMD_NODENAME SLURM_JOB_NODELIST
mkdir -p "$HOME"
cd "$T" || exit 1

cleanup() {
	cd / && rm -rf "$T"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAILED: $*" >&2
	for f in "$T"/out "$T"/err; do
		[ -s "$f" ] && { echo "--- ${f##*/}:"; tail -n 25 "$f" | cut -c1-300; } >&2
	done
	exit 1
}

skip() {
	echo "skipped: $*"
	exit 77
}

# expect STATUS COMMAND...: runs it, output in $T/out and $T/err
expect() {
	want=$1
	shift
	"$@" >"$T/out" 2>"$T/err" </dev/null
	got=$?
	[ "$got" = "$want" ] || fail "exit status $got, not $want: $*"
}

# has FILE TEXT: the file contains the text
has() {
	grep -qF -- "$2" "$1" || fail "${1##*/} does not contain: $2"
}

has_not() {
	if grep -qF -- "$2" "$1"; then fail "${1##*/} contains: $2"; fi
}

# json KEY < DOC: the first value of a key in one of our own documents
json() {
	sed -n "s/^ *\"$1\": *\"\\{0,1\\}\\([^\",]*\\)\"\\{0,1\\},\\{0,1\\}\$/\\1/p" | head -n 1
}

# tree DIR: every path with type, mode, mtime, size and content hash; our own files left out
tree() {
	(cd "$1" && find . -mindepth 1 -path ./.rocbudai -prune -o -path ./.git -prune -o \
		-name '.rocbudai-sessions.json' -o -name report.md -o \
		-printf '%y %m %T@ %s %l %p\n' | sort -k6
	find . -path ./.rocbudai -prune -o -path ./.git -prune -o -name '.rocbudai-sessions.json' \
		-o -name report.md -o -type f -print0 | sort -z | xargs -0 -r sha256sum)
}

# Processes of ours that are left over: those that work below the test's folder
ours_running() {
	for p in /proc/[0-9]*; do
		[ "${p#/proc/}" = "$$" ] && continue
		case $(readlink "$p/cwd" 2>/dev/null) in "$T"*) ;; *) continue ;; esac
		name=$(tr '\0' ' ' <"$p/cmdline" 2>/dev/null)
		case $name in *"${0##*/}"* | "") ;; *) echo "${p#/proc/}: $name" ;; esac
	done
}
