#!/usr/bin/env bash
# Measures the page of a fleet: how long the command takes, how large the page is, how long it takes to open, and whether it
# stays smooth while ranks scroll and the mouse moves over them. Prints a table in Markdown. Needs the Python package with
# DuckDB, node with the packages of web/ and Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5}
python=${PYTHON:-target/venv/bin/python}
dir=${BENCH_DIR:-$(mktemp -d)}
mkdir -p "$dir"
trap '[ -n "${BENCH_DIR:-}" ] || rm -rf "$dir"' EXIT
export LC_ALL=C ROUNDS=$rounds

printf 'The page of a fleet, %s cores, headless Chromium (median of %s fresh contexts; ✓ goal reached):\n\n' "$(nproc)" "$rounds"
printf '| ranks | dataset | `ttmem fleet report` | page | drawn after | frames per second | frames over 33 ms |\n'
printf '|---:|---:|---:|---:|---:|---:|---:|\n'
for ranks in ${RANKS:-512 4096}; do
  fleet="$dir/$ranks"
  [ -d "$fleet" ] || "$python" python/tests/made_fleet.py "$fleet" 8 $((ranks / 8))
  ms=$(for _ in $(seq "$rounds"); do
    start=$(date +%s%N)
    "$python" -m ttmem fleet report "$fleet" -o "$dir/$ranks.html" >/dev/null
    echo $((($(date +%s%N) - start) / 1000000))
  done | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }')
  node -e '
    const [line, ranks, dataset, ms, bytes] = process.argv.slice(1);
    const { drawn, fps, long, slowest } = JSON.parse(line);
    const mb = (bytes) => `${(Number(bytes) / 1e6).toFixed(2)} MB`;
    const mark = drawn <= 2000 ? "✓" : "**over**";
    const smooth = `${fps.toFixed(0)} ${fps >= 58 ? "✓" : fps >= 30 ? "(floor)" : "**under**"}`;
    const cells = [Number(ranks).toLocaleString("en-US"), mb(dataset), `${ms} ms`, mb(bytes)];
    console.log(`| ${[...cells, `${Math.round(drawn)} ms ${mark}`, smooth, `${long}, slowest ${Math.round(slowest)} ms`].join(" | ")} |`);
  ' "$(node bench/fleet-page.mjs "$dir/$ranks.html")" "$ranks" "$(du -sb "$fleet" | cut -f1)" "$ms" "$(stat -c %s "$dir/$ranks.html")"
done
