#!/usr/bin/env bash
# Measures `ttmem diff` on stored reports, with the time for reading both: programs of 100,000 operations that are all different,
# compared with themselves and with an unrelated program, and programs of a million operations. Prints a table in Markdown;
# docs/performance.md has the last one. Needs hyperfine and GNU time, which are installed with apt-get if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5}
dir=${BENCH_DIR:-$(mktemp -d)}
bin=target/dist
mkdir -p "$dir"
trap '[ -n "${BENCH_DIR:-}" ] || rm -rf "$dir"' EXIT
export LC_ALL=C
command -v hyperfine >/dev/null && [ -x /usr/bin/time ] || apt-get install -y hyperfine time >/dev/null

# The profile of a made log: name, scenario, options of make-log.
profile() {
  local name=$1 scenario=$2
  shift 2
  [ -s "$dir/$name/$name.ttmem" ] && return
  "$bin/make-log" "$scenario" "$@" -o "$dir/$name.log"
  "$bin/ttmem" report "$dir/$name.log" -o "$dir/$name" --name "$name" >/dev/null
  rm "$dir/$name.log"
  find "$dir/$name" -type f ! -name "*.ttmem" -delete
}

row() { # label before after
  local label=$1 files=("$dir/$2/$2.ttmem" "$dir/$3/$3.ttmem") memory
  hyperfine -N --output=pipe --warmup 1 --runs "$rounds" --export-csv "$dir/times.csv" \
    "$bin/ttmem diff ${files[*]}" "$bin/ttmem summary --json ${files[1]}" >/dev/null 2>&1
  memory=$(/usr/bin/time -f %M "$bin/ttmem" diff "${files[@]}" 2>&1 >/dev/null | tail -n 1)
  awk -F, -v label="$label" -v memory="$memory" '
    NR == 2 { median = $4; from = $7; until = $8 } NR == 3 { summary = $4 }
    END { printf "| %s | %.2f s | %.2f to %.2f s | %.0f MB | %.2f s |\n",
          label, median, from, until, memory * 1024 / 1e6, summary }' "$dir/times.csv"
}

profile distinct distinct --ops 200000
profile unrelated distinct --ops 200000 --seed 2
profile million repeated --ops 2060000
profile more repeated --ops 2080000
printf '| | median | range | memory | `summary` of the second |\n|---|---:|---:|---:|---:|\n'
row '100,000 operations with themselves, all different' distinct distinct
row '100,000 operations with 100,000 of an unrelated program' distinct unrelated
row 'a million operations with another million' million more
