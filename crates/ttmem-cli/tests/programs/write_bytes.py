"""Writes random pieces on both streams, and records what it wrote.

usage: write_bytes.py RECORD SEED

Pieces are arbitrary bytes, partial lines and lines longer than any buffer; the last line has no end.
"""

import os
import random
import sys


def main():
    record, seed = sys.argv[1:]
    chance = random.Random(int(seed))
    with open(record, "wb", buffering=0) as written:
        for _ in range(400):
            piece = draw(chance)
            write(chance.choice((1, 2)), piece)
            written.write(piece)
        write(1, b"no end")
        written.write(b"no end")


def draw(chance):
    kind = chance.randrange(10)
    if kind == 0:
        return b"x" * chance.randrange(200_000)
    if kind < 4:
        return chance.randbytes(chance.randrange(2000))
    return b"a line\r\n" * chance.randrange(4) + b"half"


def write(stream, piece):
    while piece:
        piece = piece[os.write(stream, piece):]


main()
