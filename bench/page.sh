#!/usr/bin/env bash
# Measures the page of a report: its size, how long writing it takes beyond `ttmem summary`, how long it takes to open,
# and whether it stays smooth under the mouse. Prints tables in Markdown; docs/performance.md holds the last ones.
# Needs hyperfine, node with the packages of web/ and Chromium. `PAGE=crates/ttmem-report/assets/report.html` puts the data
# into that page instead of the one in the command; `LARGE=0` leaves the logs of a million operations out,
# `EVENTS=0` the recording with call stacks.
set -euo pipefail
cd "$(dirname "$0")/.."

ops=${OPS:-100000}
large=${LARGE:-1000000}
events=${EVENTS:-1000000}
rounds=${ROUNDS:-5}
dir=${BENCH_DIR:-$(mktemp -d)}
bin=target/dist
mkdir -p "$dir"
trap '[ -n "${BENCH_DIR:-}" ] || rm -rf "$dir"' EXIT
export LC_ALL=C ROUNDS=$rounds
command -v hyperfine >/dev/null || apt-get install -y hyperfine >/dev/null

make_log() { # name scenario ops
  [ -s "$dir/$1.log" ] || "$bin/make-log" "$2" --ops "$3" -o "$dir/$1.log"
  cat "$dir/$1.log" >/dev/null
}

make_page() { # name input
  "$bin/examples/page" "$dir/$2" "$dir/$1.html" 2>"$dir/$1.times"
  [ -z "${PAGE:-}" ] || { node web/with-data.mjs "$dir/$1.html" "$PAGE" >"$dir/new.html" && mv "$dir/new.html" "$dir/$1.html"; }
}

# Both commands from the page cache, in one run; the difference is what the page costs.
writing() { # label name
  hyperfine -N --output=pipe --warmup 1 --runs "$rounds" --export-csv "$dir/times.csv" \
    "$bin/ttmem summary --json $dir/$2.log" "$bin/examples/page $dir/$2.log $dir/timed.html" >/dev/null 2>&1
  awk -F, -v label="$1" -v size="$(stat -c %s "$dir/$2.log")" '
    NR == 2 { summary = $4 * 1e3 } NR == 3 { page = $4 * 1e3 }
    END { cost = page - summary
          mark = cost <= 50 ? "✓" : cost <= summary + 50 ? "(floor)" : "**over**"
          printf "| %s | %d MB | %.0f ms | %.0f ms | %.0f ms %s |\n", label, size / 1e6, summary, page, cost, mark }' \
    "$dir/times.csv"
  rm -f "$dir/timed.html"
}

reading() { # label name most_mb floor_ms goal_ms
  local line
  line=$(node bench/page.mjs "$dir/$2.html")
  node -e '
    const [line, label, bytes, mostMb, floor, goal] = process.argv.slice(1);
    const { unpacked, chart, table, fps, long, slowest } = JSON.parse(line);
    const mark = (value, floor, goal) => (value <= goal ? "✓" : value <= floor ? "(floor)" : "**over**");
    const mb = Number(bytes) / 1e6;
    const ms = (value) => `${Math.round(value)} ms`;
    const size = `${mb.toFixed(2)} MB ${mostMb === "-" ? "" : mark(mb, Number(mostMb), Number(mostMb))}`;
    const smooth = `${fps.toFixed(0)} ${mark(-fps, -30, -58)}`;
    const cells = [label, size, ms(unpacked), ms(chart), `${ms(table)} ${mark(table, Number(floor), Number(goal))}`];
    console.log(`| ${[...cells, smooth, `${long}, slowest ${ms(slowest)}`].join(" | ")} |`);
  ' "$line" "$1" "$(stat -c %s "$dir/$2.html")" "$3" "$4" "$5"
}

make_log repeated repeated "$ops"
make_log distinct distinct "$ops"
names=(repeated distinct)
if [ "$large" -gt 0 ]; then
  make_log large-repeated repeated "$large"
  make_log large-distinct distinct "$large"
  names+=(large-repeated large-distinct)
fi

# The floor: the page costs no more than the summary and 50 ms. The goal: no more than 50 ms.
printf 'Writing the page (median of %s):\n\n' "$rounds"
printf '| log | size | `summary --json` | reading and the page | the page |\n|---|---:|---:|---:|---:|\n'
writing "(a) one module, run many times, $ops operations" repeated
writing "(b) every operation distinct, $ops operations" distinct
if [ "$large" -gt 0 ]; then
  writing "(a) with $large operations" large-repeated
  writing "(b) with $large operations" large-distinct
fi

for name in "${names[@]}"; do make_page "$name" "$name.log"; done
if [ "$events" -gt 0 ]; then
  [ -s "$dir/stacks.ttmem" ] || "$bin/examples/make_stacks" "$events" "$dir/stacks.ttmem"
  make_page stacks stacks.ttmem
fi
printf '\nReading it, headless Chromium, %s cores (median of %s fresh contexts; ✓ goal reached):\n\n' "$(nproc)" "$rounds"
printf '| page | size | unpacked | chart drawn | table filled | frames per second | frames over 33 ms |\n'
printf '|---|---:|---:|---:|---:|---:|---:|\n'
reading "(a), $ops operations" repeated 3 1500 1000
reading "(b), $ops operations" distinct 8 1500 1000
if [ "$large" -gt 0 ]; then
  reading "(a) with $large operations" large-repeated - 5000 5000
  reading "(b) with $large operations" large-distinct - 5000 5000
fi
# A recording in the shape of a CUDA snapshot: allocations and frees with 3,000 distinct stacks.
if [ "$events" -gt 0 ]; then
  reading "(c) $events events with call stacks" stacks 15 5000 5000
fi
