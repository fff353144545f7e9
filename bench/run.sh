#!/usr/bin/env bash
# Measures `ttmem summary --json` against `grep -c` on the same files, in one run, from the page cache: time by
# hyperfine (medians), memory as the kernel counts it. Prints a table in Markdown; docs/performance.md holds the last
# one. Needs hyperfine and GNU time; installs them with apt-get where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

ops=${OPS:-100000}
rounds=${ROUNDS:-15}
dir=${BENCH_DIR:-$(mktemp -d)}
bin=target/dist
mkdir -p "$dir"
trap '[ -n "${BENCH_DIR:-}" ] || rm -rf "$dir"' EXIT
export LC_ALL=C
command -v hyperfine >/dev/null && [ -x /usr/bin/time ] || apt-get install -y hyperfine time >/dev/null

make_log() { # name scenario
  [ -s "$dir/$1.log" ] || "$bin/make-log" "$2" --ops "$ops" -o "$dir/$1.log"
  cat "$dir/$1.log" >/dev/null
}

# The peak memory of a command, in KiB.
peak() { /usr/bin/time -f %M "$@" 2>&1 >/dev/null | tail -n 1; }

row() { # label log command…
  local label=$1 log=$2
  shift 2
  # Into a pipe: grep gives up early when it sees that nobody looks.
  hyperfine -N --output=pipe --warmup 2 --runs "$rounds" --export-csv "$dir/times.csv" \
    "grep -c 'memory state' $log" "$*" >/dev/null 2>&1
  awk -F, -v label="$label" -v size="$(stat -c %s "$log")" -v memory="$(peak "$@")" '
    NR == 2 { grep = $4 } NR == 3 { ours = $4 }
    END { printf "| %s | %d MB | %.0f ms | %.0f ms | %.1f × | %.0f MB |\n",
          label, size / 1e6, grep * 1e3, ours * 1e3, ours / grep, memory * 1024 / 1e6 }' "$dir/times.csv"
}

make_log repeated repeated
make_log distinct distinct
printf '| what | log | grep -c | ttmem | ratio | memory |\n|---|---:|---:|---:|---:|---:|\n'
row "(a) one module, run many times: \`summary --json\`" "$dir/repeated.log" \
  "$bin/ttmem" summary --json "$dir/repeated.log"
row "(b) every operation distinct: \`summary --json\`" "$dir/distinct.log" \
  "$bin/ttmem" summary --json "$dir/distinct.log"
row "(a) \`report\`: the folder's files" "$dir/repeated.log" \
  "$bin/ttmem" report "$dir/repeated.log" -o "$dir/report-a" --name bench
row "(b) \`report\`: the folder's files" "$dir/distinct.log" \
  "$bin/ttmem" report "$dir/distinct.log" -o "$dir/report-b" --name bench

# Ten copies of (a): how memory grows with the operations.
for _ in $(seq 10); do cat "$dir/repeated.log"; done >"$dir/ten.log"
one=$(peak "$bin/ttmem" summary --json "$dir/repeated.log")
ten=$(peak "$bin/ttmem" summary --json "$dir/ten.log")
printf '\nTen copies of (a): %s bytes of memory for each further operation.\n' "$(((ten - one) * 1024 / (9 * ops)))"
rm -rf "$dir/ten.log" "$dir/report-a" "$dir/report-b"
