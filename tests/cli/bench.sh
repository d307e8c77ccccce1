#!/bin/sh
# rocbudai bench: the options and JSON keys of old, what a failing program leads to, interruption.
# shellcheck disable=SC2154 # tmp comes from the library
set -eu
# shellcheck source=tests/cli/measure_lib.sh
. "$RB_SOURCE/tests/cli/measure_lib.sh"

# ---- people ----
rb 0 bench -- sh -c 'echo hello from it'
[ "$(head -n 1 "$tmp/out")" = 'hello from it' ] || fail 'the last output is not shown first'
out_has '3 repetitions that count'
out_has '^wall time .*(no interval below 6)  \[FACT\]'
out_has '^disturbances'
out_has 'dropped as warm-up'
out_lacks evidence
rb 0 bench -n 12 -- true
out_has '^wall time .*95 % interval .*\[FACT\]'
rb 0 bench -n 2 -- true
out_has '\[OPINION\]'
# one repetition is measured, not thrown away
rb 0 bench -n 1 -- true
out_has '1 repetition that counts'
# the link of old
ln -s "$RB_BIN" "$tmp/rocbudai-bench"
"$tmp/rocbudai-bench" -n 3 --json -- true >"$tmp/out"
json effective 2

# ---- JSON: the keys of old, in seconds; one document, chatter elsewhere ----
rb 0 bench --json -- sh -c 'echo noise; echo {not json'
json reps 4
json effective 3
json tag FACT
for k in median min max; do json_number $k 'x > 0 && x < 60'; done
json wall.ci95_low null
json wall.unit s
json warmup 1
json samples 4
json samples.0.warmup true
json_number samples.3.peak_memory_bytes 'x > 100000'
json_number samples.3.minor_faults 'x > 0'
json command "sh -c 'echo noise; echo {not json'"
json pinned 'not pinned'
json end repetitions
json_number machine.cpus_online 'x >= 1'
err_has noise
rb 0 bench --json -n 9 --warmup 2 --tag mine -- true
json reps 9
json effective 7
json label mine
json_number wall.ci95_low 'x > 0'

# ---- figure of merit ----
cat >run <<'S'
#!/bin/sh
echo step 1
echo "speed: 40 MLUPS"
echo "speed: 42.5 MLUPS"
S
chmod +x run
rb 0 bench --json --fom 'speed: ([0-9.]+)' --unit MLUPS -- ./run
json fom.median 42.5
json fom.unit MLUPS
json fom.higher true
json_number median 'x > 0'
# a word or unit is enough
rb 0 bench --fom MLUPS -- ./run
err_has "--fom '.*MLUPS' --unit 'MLUPS' --higher (42.5 in a trial run)"
out_has '^figure  *42.5 MLUPS'
rb 1 bench --fom 'sped: ([0-9.]+)' --unit MLUPS -- ./run
err_has "nothing matches 'sped"
out_lacks 'wall time'
rb 2 bench --fom speed: --unit x --higher --lower -- ./run
rb 2 bench --fom '(a' --lower -- ./run
err_has 'not a POSIX extended regular expression'
rb 2 bench --fom 'value ([0-9])' -- ./run
err_has 'higher or --lower'
rb 2 bench --unit s -- ./run

# ---- failures ----
rb 1 bench -- sh -c 'i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; exit 7'
err_has 'exited with status 7'
err_has 'line 30'
err_has 'line 11'
! grep -q 'line 10$' "$tmp/err" || fail 'more than the last 20 lines'
out_lacks 'wall time'
rb 1 bench --json -- sh -c 'echo why; exit 7'
json failure.exit_status 7
json failure.last_lines 'why'
json_lacks median
rb 1 bench -- sh -c 'kill -SEGV $$'
err_has 'signal 11'
rb 1 bench --timeout 100ms -- sleep 60
err_has 'timed out'
rb 1 bench -- ./nowhere
err_has 'nowhere'
# a program that fails at its third run
echo 0 >count
rb 1 bench -n 9 -- sh -c 'read n <count; n=$((n+1)); echo $n >count; [ $n -lt 3 ]'
err_has 'repetition 3 of'

# ---- usage ----
rb 2 bench
rb 2 bench --
rb 2 bench -n 0 -- true
rb 2 bench -n x -- true
rb 2 bench -n 3 --warmup 3 -- true
rb 2 bench --warmup some -- true
rb 2 bench --target-ci 200 -- true
rb 2 bench --cpus 3-1 -- true
err_has '--cpus'
rb 2 bench --bogus -- true
rb 0 bench --help
out_has -- '--target-ci'
ROCBUDAI_BENCH_CPUS=a rb 2 bench -- true
err_has ROCBUDAI_BENCH_CPUS

# ---- enough is enough ----
rb 0 bench --json --target-ci 50 --fom 'v=([0-9]+)' --lower -- echo v=3
json end target
json effective 10
rb 0 bench --json --budget 1s -- sleep 0.1
json end budget
json_number effective 'x >= 1 && x <= 10'

# ---- pinning ----
cpu=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
rb 0 bench -n 2 --cpus "$cpu" -- sed -n 's/^Cpus_allowed_list:[[:space:]]*/seen /p' /proc/self/status
out_has "^seen $cpu\$"
out_has "CPUs $cpu"

# ---- GPUs: a machine made of files ----
root=$tmp/root
gpu=$root/sys/class/drm/renderD128/device
export ROCBUDAI_SYSROOT="$root"
mkdir -p "$gpu" "$root/sys/class/kfd/kfd/topology/nodes/0"
rb 3 bench --gpu 0 -- true
err_has 'GPU 0'
rb 0 bench -n 2 --gpu 0 --no-wait -- sh -c 'echo $ROCR_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES'
out_has '^0 0$'
printf 'simd_count 304\ndrm_render_minor 128\n' >"$root/sys/class/kfd/kfd/topology/nodes/0/properties"
rb 3 bench --gpu 0 -- true
err_has gpu_busy_percent
echo "$cpu" >"$gpu/local_cpulist"
echo 3 >"$gpu/gpu_busy_percent"
rb 0 bench --json -d 1ms --gpu 0 -- true
json gpu_was_quiet true
json pinned "CPUs $cpu (near the GPU); GPU 0"
echo 60 >"$gpu/gpu_busy_percent"
rb 0 bench --json -d 1ms -T 5ms --gpu 0 -- true
json gpu_was_quiet false
err_has 'still 60 % busy'
ROCBUDAI_BENCH_GPU=0 rb 0 bench -t 70 -d 1ms -- true
out_has 'GPU was already 60 % busy'
# no GPU asked for: nothing to wait for
rb 0 bench -- true
unset ROCBUDAI_SYSROOT

# ---- evidence ----
rb 0 bench --record -n 8 --tag first -- ./run
out_has '^evidence  *E0001'
[ -f .rocbudai/evidence.jsonl ] || fail 'nothing was recorded'
mkdir sub
(
	cd sub
	rb 0 bench --json -- ../run
	json evidence E0002
)
tail -n 1 .rocbudai/evidence.jsonl >"$tmp/out"
json kind bench
json values.0.name wall
json values.0.n 3
json values.0.unit s
json detail.role user
json detail.run.argv.0 ../run
json detail.samples 4
json detail.tag FACT
json files.0.path ../run
sed -n 1p .rocbudai/evidence.jsonl >"$tmp/out"
json detail.label first
json_number values.0.ci95_low 'x > 0'
# a failed one is no evidence
rb 1 bench -- false
[ "$(wc -l <.rocbudai/evidence.jsonl)" = 2 ] || fail 'a failure was recorded'

# ---- Ctrl-C (in the fourth run): the tree is gone, what was measured is printed ----
cat >interrupting <<'S'
#!/bin/sh
(setsid sh -c 'trap "" TERM INT; echo $$ >>pids; sleep 600; sleep 600' &)
while [ ! -s pids ]; do sleep 0.02; done
echo run >>runs
if [ "$(wc -l <runs)" = 4 ]; then
	kill -INT "$(cat us)"
	sleep 600
fi
S
chmod +x interrupting
got=0
sh -c 'echo $$ >us; exec "$0" bench -n 1000 -- ./interrupting' "$RB_BIN" \
	>"$tmp/out" 2>"$tmp/err" || got=$?
[ "$got" = 130 ] || fail "interrupted, it ended with $got, not 130"
out_has '2 repetitions that count (interrupted)'
out_has 'wall time'
[ -s pids ] || fail 'the program under test left nothing to look for'
while read -r pid; do
	[ ! -d "/proc/$pid" ] || fail "process $pid of a measured program is still there"
done <pids
[ "$(wc -l <.rocbudai/evidence.jsonl)" = 2 ] || fail 'an interrupted one was recorded'
