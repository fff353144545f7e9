"""Prints a log line by line, alternating between both streams, and records what it printed.

usage: print_log.py LOG RECORD END [SECONDS]

END is how it ends: `well`, an exit code, `killed` (it kills its own process), `wait` (for a signal; it writes
RECORD.ready first), `stubborn` (the same, but the first SIGTERM only prints another line).
It does not flush, because `python -u` makes that unnecessary.
"""

import os
import signal
import sys
import time


def main():
    log, record, end = sys.argv[1:4]
    pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0
    with open(log, "rb") as lines, open(record, "wb", buffering=0) as printed:
        for number, line in enumerate(lines):
            emit(line, number, printed)
            time.sleep(pause)
        if end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif end == "wait":
            wait(record)
        elif end == "stubborn":
            signal.signal(signal.SIGTERM, lambda *_: refuse(printed, record))
            wait(record)
        elif end != "well":
            sys.exit(int(end))


def emit(line, number, printed):
    stream = sys.stderr if number % 5 in (1, 4) else sys.stdout
    stream.buffer.write(line)
    printed.write(line)


def refuse(printed, record):
    emit(b"not yet\n", 0, printed)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    touch(record + ".refused")


def wait(record):
    touch(record + ".ready", str(os.getpid()))
    while True:
        time.sleep(60)


def touch(path, text=""):
    """Writes a file atomically, for tests that wait for it."""
    with open(path + ".part", "w") as file:
        file.write(text)
    os.rename(path + ".part", path)


main()
