#!/usr/bin/env bash
# A log of some 5 GB goes through, from a file and as it comes from a pipe, and both give the same answer.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --profile dist --locked --workspace --quiet
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
target/dist/make-log repeated --ops 100000 -o "$dir/one.log"
for _ in $(seq 30); do cat "$dir/one.log"; done >"$dir/large.log"
/usr/bin/time -f 'file: %e s, %M KiB' target/dist/ttmem summary --json "$dir/large.log" >"$dir/file.json"
/usr/bin/time -f 'pipe: %e s, %M KiB' target/dist/ttmem summary --json - <"$dir/large.log" >"$dir/pipe.json"
sed -i "s|$dir/large.log|-|" "$dir/file.json"
cmp "$dir/file.json" "$dir/pipe.json"
echo "the same answer for $(stat -c %s "$dir/large.log") bytes"
