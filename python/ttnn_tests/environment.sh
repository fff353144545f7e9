#!/usr/bin/env bash
# Installs the ttnn release of requirements.txt into target/ttnn/venv, with a stand-in for the kernel compiler, so that
# programs run on a described card (chips/). About 700 MB, downloaded once.
#
#   environment.sh --interpreter    prints the Python that is used; exit code 3 and a reason on stderr without one
#   environment.sh                  installs
#
# Several may run at the same time: one installs, the others wait for it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

is_usable() {
	"$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 12)))' >/dev/null 2>&1
}

interpreter() {
	local candidate
	for candidate in "${TTMEM_TTNN_PYTHON:-}" python3.12 python3.10 python3 \
		"${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[02].*/bin/python3; do
		if [ -n "$candidate" ] && is_usable "$candidate"; then
			command -v "$candidate"
			return
		fi
	done
	return 1
}

if [ "$(uname -sm)" != "Linux x86_64" ]; then
	echo "ttnn is published for Linux on x86-64 only" >&2
	exit 3
fi
python=$(interpreter) || {
	echo "ttnn needs Python 3.10 or 3.12 with venv; set TTMEM_TTNN_PYTHON to its path" >&2
	exit 3
}
if [ "${1:-}" = --interpreter ]; then
	echo "$python"
	exit
fi

venv=target/ttnn/venv
mkdir -p target/ttnn
exec 9>target/ttnn/lock
flock 9
wanted=$(cat "$here/requirements.txt" && "$python" --version)
if [ "$(cat target/ttnn/made-for 2>/dev/null)" != "$wanted" ]; then
	rm -rf "$venv"
	"$python" -m venv "$venv"
	"$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check -r "$here/requirements.txt"
	printf '%s\n' "$wanted" >target/ttnn/made-for
fi
tools=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ttnn/runtime/sfpi/compiler/bin
mkdir -p "$tools"
"$venv/bin/python" "$here/kernel_elf.py" "$tools/kernel.elf"
for tool in g++ ld nm objcopy objdump readelf; do
	install -m 755 "$here/compiler.sh" "$tools/riscv-tt-elf-$tool"
done
