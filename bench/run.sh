#!/usr/bin/env bash
# Measures `ttmem summary --json` against `grep -c` on the same files, in one run, from the page cache.
# Prints a table in Markdown; docs/performance.md holds the last one with the machine it was made on.
set -euo pipefail
cd "$(dirname "$0")/.."

ops=${OPS:-100000}
rounds=${ROUNDS:-9}
dir=${BENCH_DIR:-$(mktemp -d)}
bin=target/release
mkdir -p "$dir"
trap '[ -n "${BENCH_DIR:-}" ] || rm -rf "$dir"' EXIT

make_log() { # name scenario
  [ -s "$dir/$1.log" ] || "$bin/make-log" "$2" --ops "$ops" -o "$dir/$1.log"
}

# The median of several rounds, in milliseconds, and the peak memory in KiB.
measure() { # command…
  local times=() memory=0 line
  for _ in $(seq "$rounds"); do
    line=$( { /usr/bin/time -f '%e %M' "$@" | cat >/dev/null; } 2>&1 | tail -n 1)
    times+=("$(awk '{ printf "%d", $1 * 1000 }' <<<"$line")")
    memory=$(awk -v m="$memory" '{ print ($2 > m) ? $2 : m }' <<<"$line")
  done
  printf '%s %s\n' "$(printf '%s\n' "${times[@]}" | sort -n | sed -n "$((rounds / 2 + 1))p")" "$memory"
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a / b }'; }

row() { # label log command…
  local label=$1 log=$2 grep_ms ms kib
  shift 2
  read -r grep_ms _ < <(measure env LC_ALL=C grep -c "memory state" "$log")
  read -r ms kib < <(measure "$@")
  printf '| %s | %s MB | %s ms | %s ms | %s × | %s MB |\n' "$label" "$(($(stat -c %s "$log") / 1000000))" \
    "$grep_ms" "$ms" "$(ratio "$ms" "$grep_ms")" "$((kib * 1024 / 1000000))"
}

make_log repeated repeated
make_log distinct distinct
printf '| what | log | grep -c | ttmem | ratio | memory |\n|---|---:|---:|---:|---:|---:|\n'
row "(a) one module, run many times: summary --json" "$dir/repeated.log" "$bin/ttmem" summary --json "$dir/repeated.log"
row "(b) every operation distinct: summary --json" "$dir/distinct.log" "$bin/ttmem" summary --json "$dir/distinct.log"
row "(a) report folder" "$dir/repeated.log" "$bin/ttmem" report "$dir/repeated.log" -o "$dir/report" --name bench

# Ten copies of (a): how memory grows with the operations.
for _ in $(seq 10); do cat "$dir/repeated.log"; done >"$dir/ten.log"
read -r _ one < <(rounds=1 measure "$bin/ttmem" summary --json "$dir/repeated.log")
read -r _ ten < <(rounds=1 measure "$bin/ttmem" summary --json "$dir/ten.log")
printf '\nTen copies of (a): %s bytes of memory for each further operation.\n' "$(((ten - one) * 1024 / (9 * ops)))"
rm -f "$dir/ten.log"
