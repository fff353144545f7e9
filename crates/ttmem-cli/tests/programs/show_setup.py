"""Prints its arguments, settings and standard input as JSON."""

import json
import os
import sys

NAMES = (
    "TTMLIR_RUNTIME_LOGGER_LEVEL",
    "TT_RUNTIME_MEMORY_LOG_LEVEL",
    "TTXLA_LOGGER_LEVEL",
    "PYTHONUNBUFFERED",
)
print(
    json.dumps(
        {
            "arguments": sys.argv[1:],
            "settings": {name: os.environ.get(name) for name in NAMES},
            "input": sys.stdin.read(),
            "unbuffered": sys.stdout.write_through,
        }
    )
)
