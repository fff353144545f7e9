"""The first spelling of `tt-memory-profiler`, for scripts and fingers that know it."""

import os
import sys

COMMAND = "tt-memory-profiler"

if __name__ == "__main__":
    try:
        os.execvp(COMMAND, [COMMAND, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{COMMAND} cannot be run ({error.strerror}): put it on the PATH; the README says how it is installed")
