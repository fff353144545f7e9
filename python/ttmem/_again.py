"""Starts the command `ttmem` another time: what it runs for its servers and workers.

A worker works in a folder with files of others, and `python -m ttmem` would take them for modules. So this
file is run by its path, and isolated (`python -I`): no setting makes Python look for modules where it works.
"""

import os
import sys

if __name__ == "__main__":
    # Found last, and surely: it may have come from a place that an isolated Python does not know.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    from ttmem.__main__ import ttmem

    sys.exit(ttmem())
