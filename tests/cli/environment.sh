#!/bin/sh
# docs/environment.md says what the program's own table says.  UPDATE_GOLDEN=1 writes it anew.
set -eu
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
{
	echo '# Environment variables'
	echo
	echo 'Generated from the table that the program reads them by (`rocbudai help environment`);'
	echo '`UPDATE_GOLDEN=1 ctest --preset debug -R cli.environment` writes this page anew.'
	echo
	"$RB_BIN" help environment
} >"$tmp"
if [ -n "${UPDATE_GOLDEN:-}" ]; then
	cat "$tmp" >"$RB_SOURCE/docs/environment.md"
fi
diff "$RB_SOURCE/docs/environment.md" "$tmp" || {
	echo 'docs/environment.md is out of date: run the test once with UPDATE_GOLDEN=1' >&2
	exit 1
}
# nothing but the table reads the environment by name
if grep -rnE '\bgetenv[[:space:]]*\(' "$RB_SOURCE/src" | grep -vE '/(base/env\.c|interpose/)|environment-ok:'; then
	echo 'these read the environment past src/base/env.c' >&2
	exit 1
fi
