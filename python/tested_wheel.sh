#!/usr/bin/env bash
# Builds the wheel that the tests install, in target/wheels/tested, as `cargo test` builds the workspace: only what is Python's
# is compiled. Leaves it as it is where nothing has changed since.
#
# Several may run at the same time: one works, the others wait for it.
set -euo pipefail
cd "$(dirname "$0")/.."

bash python/environment.sh test
exec 9>target/wheels.lock
flock 9
# Written before the build: what changes during it is newer.
started=target/wheels/tested.started
sources=(Cargo.lock Cargo.toml .cargo LICENSE pyproject.toml crates python/README.md python/ttmem python/ttmem.data)
wheel=$(echo target/wheels/tested/*.whl)
if [ -f "$wheel" ] && [ -f "$started" ] && [ -z "$(find "${sources[@]}" -newer "$started" -print -quit)" ]; then
	exit
fi
rm -rf target/wheels/tested
mkdir -p target/wheels
touch "$started"
target/venv/bin/maturin build --profile dev --features as-tested --interpreter target/venv/bin/python --out target/wheels/tested
