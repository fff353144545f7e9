#!/usr/bin/env bash
# Memory snapshots of PyTorch: `ttmem summary --json` against PyTorch's own command on the same file, and its time and memory for
# files up to 20 million events. After `cargo build --profile dist`; needs Python with torch (`make python` installs it).
#
# SNAPSHOT=FILE measures that file as well; LARGE=1 also measures 5, 10 (1 GB) and 20 million events, and fails if time or memory
# per event exceeds the limits below.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=target/dist
PYTHON=${PYTHON:-target/venv/bin/python}
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT

# Seconds and MiB of a command, the best of three.
measure() {
    local best='' line
    for _ in 1 2 3; do
        line=$(/usr/bin/time -f '%e %M' "$@" 2>&1 >/dev/null | tail -1)
        if [ -z "$best" ] || awk "BEGIN { exit !(${line% *} < ${best% *}) }"; then best=$line; fi
    done
    awk "BEGIN { printf \"%8.3f s %8.1f MiB\", ${best% *}, ${best#* } / 1024 }"
}

compare() {
    local file=$1 viz
    viz=$("$PYTHON" -c 'import torch.cuda._memory_viz as viz; print(viz.__file__)')
    printf '%s\n' "$(basename "$file"), $(($(stat -c %s "$file") / 1000000)) MB"
    printf '  %-32s%s\n' 'ttmem summary --json' "$(measure "$BIN/ttmem" summary --json "$file")"
    gzip -1 -c "$file" >"$FOLDER/packed.pickle.gz"
    printf '  %-32s%s\n' 'the same, gzipped' "$(measure "$BIN/ttmem" summary --json "$FOLDER/packed.pickle.gz")"
    printf '  %-32s%s\n' '_memory_viz.py stats' "$(/usr/bin/time -f '%e %M' "$PYTHON" "$viz" stats "$file" 2>&1 >/dev/null |
        tail -1 | awk '{ printf "%8.3f s %8.1f MiB", $1, $2 / 1024 }')"
}

"$BIN/make-snapshot" "$FOLDER/million.pickle" 1100000
compare "$FOLDER/million.pickle"
if [ -n "${SNAPSHOT:-}" ]; then compare "$SNAPSHOT"; fi
if [ -z "${LARGE:-}" ]; then exit; fi

# What a million events may take, on a machine that may be slow and busy.
MAX_SECONDS=2
MAX_MIB=110
for millions in 5 10 20; do
    "$BIN/make-snapshot" "$FOLDER/large.pickle" "${millions}000000"
    found=$(measure "$BIN/ttmem" summary --json "$FOLDER/large.pickle")
    printf '%s million events, %s MB: %s\n' "$millions" "$(($(stat -c %s "$FOLDER/large.pickle") / 1000000))" "$found"
    read -r seconds _ memory _ <<<"$found"
    if awk "BEGIN { exit !($seconds > $MAX_SECONDS * $millions || $memory > $MAX_MIB * $millions) }"; then
        echo "more than $MAX_SECONDS s or $MAX_MIB MiB for a million events"
        exit 1
    fi
done
