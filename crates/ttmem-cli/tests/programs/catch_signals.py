"""Records each signal that it receives, one name per line; SIGTERM ends it with exit code 5.

usage: catch_signals.py RECORD

Writes a first line `ready` to RECORD once it handles signals.
"""

import os
import signal
import sys
import time


def main():
    record = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(number, _frame):
        os.write(record, (signal.Signals(number).name + "\n").encode())
        if number == signal.SIGTERM:
            sys.exit(5)

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, note)
    os.write(record, b"ready\n")
    while True:
        time.sleep(60)


main()
