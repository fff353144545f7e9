#!/bin/sh
# Takes the place of the RISC-V toolchain in the test environment: every kernel "compiles" to the same small program.
# tt-metal loads and places that program; a described card never runs it.
folder=$(dirname "$0")
case $(basename "$0"):$1 in
*-g++:--version)
	echo "placeholder"
	exit
	;;
*-g++:*) ;;
*) exit ;;
esac
while [ $# -gt 0 ]; do
	case $1 in
	-o)
		object=$2
		cp "$folder/kernel.elf" "$object"
		;;
	-MF) dependencies=$2 ;;
	esac
	shift
done
if [ -n "$dependencies" ]; then
	echo "$object:" >"$dependencies"
fi
