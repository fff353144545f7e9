#!/usr/bin/env bash
# What the tracker costs the program that it watches, in nanoseconds for each allocation or free, against a hash map in the
# same run. The best of five rounds counts: another program on the machine makes all of them longer.
set -euo pipefail
cd "$(dirname "$0")/.."
target/dist/examples/tracker_cost
target/dist/examples/live_cost
