#!/bin/sh
# scripts/deps against a made-up machine: its package database, rights and distribution are fakes.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
for t in sh cat sed tr grep tail head mktemp rm dirname env; do
	ln -s "$(command -v $t)" "$tmp/bin/$t"
done
fake() { # NAME, script on stdin
	{
		echo '#!/bin/sh'
		cat
	} >"$tmp/bin/$1"
	chmod +x "$tmp/bin/$1"
}
fail() {
	echo "$1" >&2
	cat "$tmp/out" >&2
	exit 1
}
run() { # WANTED-STATUS ARG...
	want=$1
	shift
	r=0
	env -i PATH="$tmp/bin" HOME="$tmp" TMPDIR="$tmp" OS_RELEASE="$tmp/os" ${ci:+CI=$ci} \
		"$RB_SOURCE/scripts/deps" "$@" >"$tmp/out" 2>&1 </dev/null || r=$?
	[ $r -eq "$want" ] || fail "deps $* with uid $(cat "$tmp/uid") ended with $r, not $want"
}
has() {
	grep -qF -- "$1" "$tmp/out" || fail "the output lacks '$1'"
}
ci=
printf 'ID=debian\nVERSION_ID="12"\n' >"$tmp/os"
echo 1000 >"$tmp/uid"
: >"$tmp/absent"
fake id <<T
cat '$tmp/uid'
T
fake dpkg-query <<T
shift 2
for p; do
	grep -qx "\$p" '$tmp/absent' || echo "\$p installed"
done
T
fake apt-get <<T
[ "\$1" = update ] && exit 0
echo "apt-get \$*" >>'$tmp/calls'
[ -f '$tmp/broken' ] && { echo 'E: no space left' >&2; exit 100; }
: >'$tmp/absent'
T

# everything is there: silent, and nothing is started
run 0
[ ! -s "$tmp/out" ] || fail 'not silent'
[ ! -e "$tmp/calls" ] || fail 'apt-get was started'

printf 'nettle-dev\nshellcheck\n' >"$tmp/absent"
run 1 --check
has 'missing: nettle-dev shellcheck'
run 1 --check --for build
has 'missing: nettle-dev'
# neither rights nor a way to get them: the exact command
run 1 --yes
has 'apt-get install -y --no-install-recommends nettle-dev shellcheck'
# rights, but nobody to be asked
echo 0 >"$tmp/uid"
run 1
has 'nobody is there to be asked'
[ ! -e "$tmp/calls" ] || fail 'apt-get was started without a yes'
# a failing installation says why and how
: >"$tmp/broken"
run 1 --yes
has 'E: no space left'
has 'apt-get install -y --no-install-recommends nettle-dev shellcheck'
rm "$tmp/broken" "$tmp/calls"
# CI means yes
ci=true
run 0
grep -qx 'apt-get install -y --no-install-recommends nettle-dev shellcheck' "$tmp/calls" || fail 'wrong call'
ci=false
echo nettle-dev >"$tmp/absent"
run 1
ci=
# sudo where we are not root, without a question for a password
echo 1000 >"$tmp/uid"
fake sudo <<T
echo "sudo \$*" >>'$tmp/calls'
[ "\$1" = -n ] && shift
exec "\$@"
T
run 0 --yes
grep -q '^sudo -n apt-get install' "$tmp/calls" || fail 'sudo was not used'

# other distributions have lists that are said to be untested
for os in 'ID=ubuntu\nVERSION_ID="22.04"\nID_LIKE=debian:libjansson-dev' \
	'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4":jansson-devel' \
	'ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.6":libjansson-devel'; do
	# shellcheck disable=SC2059
	printf "${os%:*}\n" >"$tmp/os"
	run 0 --list
	has "${os##*:}"
	has 'untested'
done
echo ID=plan9 >"$tmp/os"
run 1
has "no package list for 'plan9'"
run 2 --for nothing
run 2 --nonsense
