#!/usr/bin/env bash
# How long people wait for small things: the start of the command, and the summary of a log of 300 kB. Prints a table
# in Markdown; docs/performance.md holds the last one. Needs hyperfine; installs it with apt-get where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-50}
dir=$(mktemp -d)
bin=target/dist
trap 'rm -rf "$dir"' EXIT
export TTMEM_HOME=$dir/home
command -v hyperfine >/dev/null || apt-get install -y hyperfine >/dev/null

log=corpus/tt_log/vae-decoder.log
"$bin/ttmem" report -q "$log" >/dev/null

row() { # label command…
  local label=$1
  shift
  # `ttmem` alone exits with 2 off a terminal.
  hyperfine -N -i --output=pipe --warmup 3 --runs "$rounds" --export-csv "$dir/times.csv" "$*" >/dev/null 2>&1
  awk -F, -v label="$label" 'NR == 2 { printf "| %s | %.1f ms | %.1f ms |\n", label, $4 * 1e3, $7 * 1e3 }' "$dir/times.csv"
}

printf '| what | median | fastest |\n|---|---:|---:|\n'
row "\`true\`, to compare" true
row "\`ttmem\` alone, off a terminal" "$bin/ttmem"
row "\`ttmem --version\`" "$bin/ttmem" --version
row "\`ttmem list\`, one report" "$bin/ttmem" list
row "\`ttmem summary\` of a log of $(($(stat -c %s "$log") / 1000)) kB" "$bin/ttmem" summary "$log"
row "\`ttmem summary --markdown\` of it" "$bin/ttmem" summary --markdown "$log"
row "\`ttmem report\` of it" "$bin/ttmem" report -q "$log"
