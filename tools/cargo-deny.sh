#!/usr/bin/env bash
# Compiles cargo-deny into target/tools, without optimization, where it is not installed.
#
# Several may run at the same time: one works, the others wait for it.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p target/tools
exec 9>target/tools/lock
flock 9
if ! cargo deny --version >/dev/null 2>&1 && ! target/tools/bin/cargo-deny --version >/dev/null 2>&1; then
	cargo install cargo-deny --version 0.20.2 --locked --quiet \
		--debug --config profile.dev.debug=false --root target/tools
fi
