#!/usr/bin/env bash
# Measures the chart of what ran when: how long the command takes, how large the page is, how long it takes to open, and
# whether it stays smooth while it is zoomed and dragged. Prints a table in Markdown. Needs hyperfine, node with the
# packages of web/ and Chromium. `PAGE=crates/ttmem-report/assets/gantt.html` puts the data into that page instead of the one
# in the command.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5}
bin=${BIN:-target/dist}
dir=${BENCH_DIR:-$(mktemp -d)}
mkdir -p "$dir"
trap '[ -n "${BENCH_DIR:-}" ] || rm -rf "$dir"' EXIT
export LC_ALL=C ROUNDS=$rounds

printf 'What ran when, %s cores, headless Chromium (median of %s fresh contexts; ✓ goal reached):\n\n' "$(nproc)" "$rounds"
printf '| calls | recording | `ttmem gantt` | page | drawn after | frames per second | frames over 33 ms |\n'
printf '|---:|---:|---:|---:|---:|---:|---:|\n'
for calls in ${CALLS:-20000 200000}; do
  file="$dir/$calls.ttmem"
  [ -s "$file" ] || "$bin/examples/make_calls" "$calls" "$file"
  seconds=$(for _ in $(seq "$rounds"); do
    start=$(date +%s%N)
    "$bin/ttmem" gantt "$file" "$dir/$calls.html" >/dev/null
    echo $(($(date +%s%N) - start))
  done | sort -n | awk '{ all[NR] = $1 } END { printf "%.0f", all[int((NR + 1) / 2)] / 1e6 }')
  [ -z "${PAGE:-}" ] || { node web/with-data.mjs "$dir/$calls.html" "$PAGE" >"$dir/new.html" && mv "$dir/new.html" "$dir/$calls.html"; }
  node -e '
    const [line, calls, recording, ms, bytes] = process.argv.slice(1);
    const { drawn, fps, long, slowest } = JSON.parse(line);
    const mb = (bytes) => `${(Number(bytes) / 1e6).toFixed(2)} MB`;
    const mark = drawn <= 2000 ? "✓" : "**over**";
    const smooth = `${fps.toFixed(0)} ${fps >= 58 ? "✓" : fps >= 30 ? "(floor)" : "**under**"}`;
    const cells = [Number(calls).toLocaleString("en-US"), mb(recording), `${ms} ms`, mb(bytes)];
    console.log(`| ${[...cells, `${Math.round(drawn)} ms ${mark}`, smooth, `${long}, slowest ${Math.round(slowest)} ms`].join(" | ")} |`);
  ' "$(node bench/gantt.mjs "$dir/$calls.html")" "$calls" "$(stat -c %s "$file")" "$seconds" "$(stat -c %s "$dir/$calls.html")"
done
