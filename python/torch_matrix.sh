#!/usr/bin/env bash
# Runs the tests of the Python package on several versions of PyTorch, one after the other: each needs some 5 GB, which
# are given back before the next.
#
#   torch_matrix.sh VERSION[@PYTHON]…    2.4.1@python3.10: with that interpreter; without, with python3
#
# It builds no wheel: that in target/wheels/tested is installed. In the end, a line for each version.
set -uo pipefail
cd "$(dirname "$0")/.."

venv=target/torch-matrix
results=()
failed=0
for entry in "$@"; do
	version=${entry%@*}
	python=python3
	if [ "$version" != "$entry" ]; then
		python=${entry#*@}
	fi
	log=target/torch-matrix-$version.log
	rm -rf "$venv"
	if ! "$python" -m venv "$venv" >"$log" 2>&1 ||
		! "$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check "torch==$version" \
			-r <(grep -E '^(mcp|numpy|pytest)' python/requirements/test.txt) >>"$log" 2>&1 ||
		! "$venv/bin/pip" install --quiet --no-deps --no-index target/wheels/tested/*.whl >>"$log" 2>&1; then
		results+=("$version	$python	not installed, see $log")
		failed=1
		continue
	fi
	# The types are those of the newest version, and are checked by `make python`.
	"$venv/bin/python" -m pytest -p no:cacheprovider -k "not types and not stubs" 2>&1 | tee -a "$log"
	if [ "${PIPESTATUS[0]}" != 0 ]; then
		failed=1
	fi
	results+=("$version	$("$venv/bin/python" --version)	$(tail -n 1 "$log")")
done
rm -rf "$venv"
printf '%s\n' "${results[@]}"
exit "$failed"
