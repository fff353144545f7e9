"""Starts the command `ttmem` another time: what it runs for its servers and workers.

A worker works in a folder with files of others. `python -m ttmem` would look for modules there first, so this
file is run by its path instead, and looks for modules wherever Python does, but not there.
"""

import os
import sys


def look_elsewhere() -> None:
    """Take the folder that is worked in off the path of modules, and the one of this file."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path not in ("", here, os.getcwd())]
    # Found last, and surely: a path that was set may be relative to another folder.
    sys.path.append(os.path.dirname(here))


if __name__ == "__main__":
    look_elsewhere()

    from ttmem.__main__ import ttmem

    sys.exit(ttmem())
