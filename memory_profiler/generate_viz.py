"""The first spelling of `ttmem report`, for scripts and fingers that know it."""

import os
import sys

COMMAND = "ttmem"

if __name__ == "__main__":
    try:
        os.execvp(COMMAND, [COMMAND, "report", *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit(f"{COMMAND} is not on the PATH: install it with `cargo install --path crates/ttmem-cli`")
