#!/bin/sh
# /usr/include is visible to every module, so the compiler cannot keep a third-party header inside
# its module; this does.  HEADER-PREFIX MODULES...
set -u
bad=0
while read -r hdr mods; do
  for f in $(grep -rlE "#include <$hdr" src); do
    m=${f#src/}; m=${m%%/*}
    case " $mods " in *" $m "*) ;; *) echo "$f: <$hdr...> belongs to: $mods"; bad=1;; esac
  done
done <<'T'
jansson base
yaml base
nettle/ base
event2/ evt http
curl/ http
sqlite3 profile
curses term tui
ncurses term tui
seccomp sandbox
nftables/ airgap
T
if grep -rnE "#include \"\.\./" src; then bad=1; fi
exit $bad
