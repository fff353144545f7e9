#!/usr/bin/env bash
# A graph capture of a gigabyte: the answer is the known one, in a fraction of its size in memory; time against Python's
# json.load, which is where every script that reads a capture begins.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
target/dist/make-capture "$dir/capture.json" "${1:-600000}" >"$dir/truth.json"
echo "$(stat -c %s "$dir/capture.json") bytes"
/usr/bin/time -f 'grep -c:   %e s, %M KiB' grep -c buffer_allocate "$dir/capture.json" >"$dir/count"
/usr/bin/time -f 'ttmem:     %e s, %M KiB' target/dist/ttmem summary --json "$dir/capture.json" >"$dir/answer.json" 2>"$dir/said"
tail -1 "$dir/said"
/usr/bin/time -f 'json.load: %e s, %M KiB' python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$dir/capture.json"
python3 - "$dir" <<'PYTHON'
import json, sys
truth, answer = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("truth", "answer"))
rank = answer["ranks"][0]
phase = rank["phases"][0]
said = (rank["pools"]["DRAM"]["peak_total"], phase["allocations_bytes"], phase["l1_peak_cb_bytes"],
        phase["l1_peak_buffer_bytes"], phase["l1_peak_total_bytes"])
known = tuple(truth[name] for name in ("dram_peak", "dram_allocations", "peak_cb", "peak_l1", "peak_total"))
assert said == known, (said, known)
print("the answer is the known one")
PYTHON
