#!/usr/bin/env bash
# Makes target/venv, the virtual environment of the Python package, or leaves it as it is where it is right already.
#
#   environment.sh --interpreter    only sees to it that there is a Python which can make one
#   environment.sh NAME             with what python/requirements/NAME.txt lists
#
# Several may run at the same time: one works, the others wait for it and look again.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/venv

is_usable() {
	"$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# The first interpreter that can make an environment. What is first in the PATH may be a shim that leads nowhere.
interpreter() {
	for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
		if is_usable "$candidate"; then
			command -v "$candidate"
			return
		fi
	done
	return 1
}

if ! interpreter >/dev/null; then
	apt-get update -qq
	apt-get install -y -qq python3 python3-venv python3-pip
fi
python=$(interpreter) || {
	echo "no Python of 3.10 or newer with venv was found: PYTHON=/path/to/python3 make … names one" >&2
	exit 1
}
if [ "$1" = --interpreter ]; then
	exit
fi

requirements=python/requirements/$1.txt
mkdir -p target
exec 9>target/venv.lock
flock 9
wanted=$(cat python/requirements/*.txt; "$python" --version)
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
	rm -rf "$venv"
	"$python" -m venv "$venv"
fi
made=$venv/made-for-$1
if [ "$(cat "$made" 2>/dev/null)" != "$wanted" ]; then
	# Nothing is kept twice: what is downloaded is large.
	"$venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check -r "$requirements"
	printf '%s\n' "$wanted" >"$made"
fi
