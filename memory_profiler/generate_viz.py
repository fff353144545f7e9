"""Runs `ttmem report`, for scripts written for tt-memory-profiler 0.x."""

import os
import sys

COMMAND = "ttmem"

if __name__ == "__main__":
    try:
        os.execvp(COMMAND, [COMMAND, "report", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{COMMAND}: {error.strerror}; run `pip install ttmem`, or add {COMMAND} to the PATH")
