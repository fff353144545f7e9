"""SQL questions on the datasets that `ttmem export` writes.

    >>> import ttmem.fleet
    >>> connection = ttmem.fleet.connect("fleet")
    >>> connection.sql("SELECT run, rank, peak_bytes FROM runs ORDER BY peak_bytes DESC")

docs/fleet.md describes the tables and the questions.
"""

from ttmem.fleet._engines import connect

__all__ = ["connect"]
