#!/bin/sh
# The pages for developers agree with the tree: modules and who may include whom, error codes,
# commands, scripts' options, and links between pages.
set -eu
cd "$RB_SOURCE"
bad=0
no() {
	echo "$1" >&2
	bad=1
}

for f in src/*/CMakeLists.txt; do
	m=$(basename "$(dirname "$f")")
	deps=$(tr '\n' ' ' <"$f" | sed -n "s/.*rb_module(NAME $m \\([^)]*\\)).*/\\1/p" |
		sed -n 's/.* DEPS //p' | sed 's/ PRIV .*//' | tr ' ' '\n' | sed '/^$/d' | sort | tr '\n' ' ')
	line=$(grep "^| \`$m\` |" ARCHITECTURE.md) || {
		no "ARCHITECTURE.md does not know module $m"
		continue
	}
	said=$(echo "$line" | cut -d '|' -f 4 | tr ' ' '\n' | sed '/^$/d; /^–$/d' | sort | tr '\n' ' ')
	[ "$deps" = "$said" ] || no "ARCHITECTURE.md says that $m may include '$said', its CMakeLists.txt '$deps'"
done
sed -n 's/^| `\([a-z]*\)` |.*/\1/p' ARCHITECTURE.md | while read -r m; do
	[ -d "src/$m" ] || [ -d "$m" ] || echo "ARCHITECTURE.md names a module $m that is not there"
done >"${TMPDIR:-/tmp}/docs.$$"
[ ! -s "${TMPDIR:-/tmp}/docs.$$" ] || no "$(cat "${TMPDIR:-/tmp}/docs.$$")"
rm -f "${TMPDIR:-/tmp}/docs.$$"

for c in $(sed -n 's/^[[:space:]]*\(ERR_[A-Z_]*\) = -.*/\1/p' src/core/err.h); do
	grep -q "^| \`$c\` |" docs/errors.md || no "docs/errors.md does not explain $c"
done
for c in $(sed -n 's/^| `\(ERR_[A-Z_]*\)`.*/\1/p' docs/errors.md); do
	grep -q "	$c = " src/core/err.h || no "docs/errors.md explains $c, which is no code"
done

for f in *.md docs/*.md; do
	dir=$(dirname "$f")
	for l in $(grep -oE '\]\([^)#]+' "$f" | sed 's/^](//' | grep -v '^http'); do
		[ -e "$dir/$l" ] || no "$f links to $l, which is not there"
	done
done
exit $bad
