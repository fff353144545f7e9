#!/usr/bin/env bash
# In place of rustdoc for `cargo test`: runs the examples of a library, and before that makes its pages, where a warning is
# an error. Both read what is compiled already; `cargo doc` would have all dependencies checked once more.
set -euo pipefail

page=(-D warnings --out-dir target/doc)
is_test=
while [ $# -gt 0 ]; do
	test+=("$1")
	case $1 in
	--test) is_test=1 ;;
	--no-run | --test-args=* | --doctest-build-arg=*) ;;
	--test-run-directory | --test-args | --test-builder | --test-runtool | --test-runtool-arg | --doctest-build-arg)
		test+=("$2")
		shift
		;;
	*) page+=("$1") ;;
	esac
	shift
done
if [ -n "$is_test" ]; then
	rustdoc "${page[@]}"
fi
exec rustdoc "${test[@]}"
