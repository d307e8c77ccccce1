#!/bin/sh
# rocbudai compare: verdicts from figures that the programs make up, evidence run again, refusals.
# shellcheck disable=SC2154 # tmp comes from the library
set -eu
# shellcheck source=tests/cli/measure_lib.sh
. "$RB_SOURCE/tests/cli/measure_lib.sh"
fom='--fom v=([0-9.]+)'

# ---- verdicts ----
rb 0 compare --json --pairs 8 $fom --lower --a 'echo v=3' --b 'echo v=2'
json verdict faster
json ratio.ratio 1.5
json ratio.n 8
json_number ratio.ci95_low 'x > 1.4'
json pairs 8
json pairs.0.0 3.0
json pairs.0.1 2.0
json same_binary_pairs 10
json_number floor_pct 'x >= 1'
json_number smallest_visible_pct 'x >= 1'
json_number wall_ratio.ratio 'x > 0'
json a.median 3.0
json commands.1 'echo v=2'
rb 0 compare --json --pairs 8 $fom --higher --a 'echo v=3' --b 'echo v=2'
json verdict slower
rb 0 compare --json --pairs 8 --floor-pairs 0 $fom --higher --a 'echo v=2' --b 'echo v=2'
json verdict 'no difference seen'
json same_binary_pct null
rb 0 compare --json --pairs 3 $fom --higher --a 'echo v=2' --b 'echo v=4'
json verdict undecided
json ratio.ci95_low null

# ---- people ----
rb 0 compare --pairs 8 $fom --unit GLUPS --a 'echo v=20' --b 'echo v=30'
out_has '^A: echo v=20$'
out_has '^verdict  *B is better by 50.00 %'
out_has '^noise floor'
out_has '^visible from'
out_has '^ratio .*1.5000, 95 % interval'
out_has ' 8 *20 GLUPS *30 GLUPS *1.5000'
# wall time
rb 0 compare --json --pairs 8 --floor-pairs 0 --a 'sleep 0.3' --b true
json verdict faster
json_number ratio.ratio 'x > 1.1'
json_number a.median 'x >= 0.3'
rb 0 compare --json --pairs 1000 --budget 300ms --a 'sleep 0.01' --b 'sleep 0.01'
json end budget

# ---- failures and usage ----
rb 1 compare --pairs 3 --a true --b 'echo broken; exit 5'
err_has broken
err_has 'B (echo broken; exit 5): exited with status 5'
rb 1 compare --json --pairs 3 --a false --b true
json failure.side a
rb 2 compare
rb 2 compare --a true
rb 2 compare --a true --b true E0001
rb 2 compare E0001
rb 2 compare --pairs 0 --a true --b true
rb 2 compare --pairs 1000000 --a true --b true
rb 2 compare --a '' --b true
rb 1 compare E0001 E0002
err_has 'no .rocbudai'

# ---- evidence, run again ----
for s in slow fast; do printf '#!/bin/sh\necho "v=$V $1"\n' >$s; chmod +x $s; done
echo 'more' >>slow
sed -i 's/^more$/: slow/' slow
echo input >data
V=10 "$RB_BIN" bench --record $fom --unit s -- ./slow data >/dev/null
V=10 "$RB_BIN" bench $fom --unit s -- ./fast data >/dev/null
"$RB_BIN" bench -- ./fast data >/dev/null
V=5 rb 0 compare E0001 E0002 --pairs 6 --json
json verdict 'no difference seen'
json a.median 5.0
json evidence E0004
sed -n 4p .rocbudai/evidence.jsonl >"$tmp/out"
json kind compare
json parents.0 E0001
json values.0.name ratio
json detail.pairs 6
json detail.role user
json files 3
# from another folder: run where they were measured
mkdir -p sub
(
	cd sub
	V=5 rb 0 compare --pairs 6 --json E0001 E0002
)
rb 2 compare E0001 E0003
err_has 'different figures of merit'
rb 1 compare E0001 E0099
err_has E0099
rb 2 compare E0001 E0004
err_has 'not a bench record'
# changed since: refused, by name
echo changed >data
rb 1 compare E0001 E0002
err_has 'E0001 .*data has changed since'
echo input >data
echo ': more' >>fast
rb 1 compare E0001 E0002
err_has 'E0002 .*fast has changed since'
rm fast
rb 1 compare E0001 E0002
err_has 'E0002 .*fast.*gone'

# ---- Ctrl-C ----
cat >interrupting <<'S'
#!/bin/sh
echo run >>runs
[ "$(wc -l <runs)" != 5 ] || { kill -INT "$(cat us)"; sleep 600; }
S
chmod +x interrupting
got=0
sh -c 'echo $$ >us; exec "$0" compare --pairs 900 --a true --b ./interrupting' "$RB_BIN" \
	>"$tmp/out" 2>"$tmp/err" || got=$?
[ "$got" = 130 ] || fail "interrupted, it ended with $got, not 130"
out_has 'undecided: interrupted'
