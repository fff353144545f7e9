#!/usr/bin/env bash
# A detailed ttnn report of six gigabytes, of which 1% is the graph: time and memory, with the known answer, and time against
# Python's json.load on a tenth of it (it needs about three times the size of the file in memory).
#
#   report.sh [MEGABYTES]
set -euo pipefail
cd "$(dirname "$0")/.."
megabytes=${1:-6000}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

ttmem() {
	/usr/bin/time -f "ttmem, $2 MB:     %e s (user %U s), %M KiB" target/dist/ttmem summary --json "$1" >"$dir/answer.json" 2>"$dir/said"
	tail -1 "$dir/said"
	python3 - "$dir" <<'PYTHON'
import json, sys
truth, answer = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("truth", "answer"))
rank = answer["ranks"][0]
phase, ttnn = rank["phases"][0], rank["l1"]["ttnn"]
said = (rank["pools"]["DRAM"]["peak_total"], phase["allocations_bytes"], ttnn["peak_cb"], ttnn["peak_l1"], ttnn["peak_total"])
known = tuple(truth[name] for name in ("dram_peak", "dram_allocations", "peak_cb", "peak_l1", "peak_total"))
assert said == known, (said, known)
PYTHON
}

target/dist/make-report "$dir/report.json" "$megabytes" >"$dir/truth.json"
/usr/bin/time -f "cat, $megabytes MB:       %e s" cat "$dir/report.json" >/dev/null
ttmem "$dir/report.json" "$megabytes"
rm "$dir/report.json"
target/dist/make-report "$dir/report.json" $((megabytes / 10)) >"$dir/truth.json"
ttmem "$dir/report.json" $((megabytes / 10))
/usr/bin/time -f "json.load, $((megabytes / 10)) MB: %e s, %M KiB" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$dir/report.json"
