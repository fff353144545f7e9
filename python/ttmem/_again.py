"""Starts another `ttmem` process: servers and workers.

A worker's working directory may contain arbitrary files, which `python -m ttmem` could import as modules. So
this file is run by its path in isolated mode (`python -I`), where Python never imports from that directory.
"""

import os
import sys

if __name__ == "__main__":
    # The package may be installed outside the default paths of an isolated Python. Searched last.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    from ttmem.__main__ import ttmem

    sys.exit(ttmem())
