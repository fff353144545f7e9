#!/usr/bin/env bash
# Compares ttmem with real ttnn on described cards: installs both, then runs the tests. `make tested-wheel` builds the wheel.
# Without a Python that ttnn has a wheel for, it says so and succeeds; with TTMEM_REQUIRE_TTNN=1 it fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

if ! reason=$("$here/environment.sh" --interpreter 2>&1); then
	if [ "${TTMEM_REQUIRE_TTNN:-}" = 1 ]; then
		echo "ttnn tests required (TTMEM_REQUIRE_TTNN=1), but they cannot run: $reason" >&2
		exit 1
	fi
	echo "ttnn tests skipped: $reason"
	exit
fi
"$here/environment.sh"
target/ttnn/venv/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-index \
	target/wheels/tested/*.whl
target/venv/bin/python -m pytest "$here" "$@"
