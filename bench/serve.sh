#!/usr/bin/env bash
# Puts `ttmem serve` under load: many readers and uploads of large logs at once. Every answer is checked; memory is the
# peak that the kernel counts. Prints a table in Markdown; docs/performance.md holds the last one.
set -euo pipefail
cd "$(dirname "$0")/.."

readers=${READERS:-200}
ops=${OPS:-60000}
dir=${BENCH_DIR:-$(mktemp -d)}
bin=target/dist
mkdir -p "$dir"
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -n "${BENCH_DIR:-}" ] || rm -rf "$dir"
}
trap finish EXIT

make_log() { # name scenario ops
  [ -s "$dir/$1.log" ] || "$bin/make-log" "$2" --ops "$3" -o "$dir/$1.log"
}

load() { # label log…
  local label=$1
  shift
  rm -rf "$dir/home" "$dir/address"
  export TTMEM_HOME=$dir/home
  "$bin/ttmem" report -q "$dir/distinct.log" --name large >/dev/null
  "$bin/ttmem" report -q corpus/tt_log/vae-decoder.log >/dev/null
  "$bin/ttmem" serve -q --no-open --port 0 >"$dir/address" &
  server=$!
  until [ -s "$dir/address" ]; do sleep 0.05; done
  "$bin/examples/load" "$(cat "$dir/address")" "$server" "$readers" "$@" >"$dir/load.txt"
  kill -TERM "$server"
  wait "$server"
  server=
  local left
  left=$(find "$dir/home/uploads" -type f ! -name .lock | wc -l)
  [ "$left" -eq 0 ] || { echo "$left files of uploads were left behind"; exit 1; }
  awk -v label="$label" '
    { value = $0; sub(/^.*  +/, "", value); fact[$1 " " $2 " " $3] = value; first[$1] = value }
    END { printf "| %s | %s | %s s | %s | %s | %s | %s |\n", label, first["uploads"], first["seconds"],
          first["correct"], first["read"], fact["peak memory of"], fact["peak memory with"] }' "$dir/load.txt"
}

make_log repeated repeated "$ops"
make_log distinct distinct "$((ops * 4 / 5))"
a=$dir/repeated.log b=$dir/distinct.log
printf '| %s readers, and | uploads | stored after | correct responses | read | server | with its workers |\n' "$readers"
printf '|---|---:|---:|---:|---:|---:|---:|\n'
load "no upload but a small one" corpus/tt_log/vae-decoder.log
load "(a) one module, run many times" "$a" "$a" "$a" "$a" "$a" "$a" "$a" "$a"
load "(b) every operation distinct" "$b" "$b" "$b" "$b" "$b" "$b" "$b" "$b"
load "four of each" "$a" "$b" "$a" "$b" "$a" "$b" "$a" "$b"
