"""The first spelling of `tt-memory-profiler`, for scripts and fingers that know it."""

import os
import sys

COMMAND = "tt-memory-profiler"

if __name__ == "__main__":
    try:
        os.execvp(COMMAND, [COMMAND, *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit(f"{COMMAND} is not on the PATH: install it with `cargo install --path crates/ttmem-cli`")
