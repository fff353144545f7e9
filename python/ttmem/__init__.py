"""Where did the device memory go? Reads what a run left behind and answers.

    >>> import ttmem
    >>> profile = ttmem.open("model_profile.log")
    >>> profile.summary()["ranks"][0]["peak"]["pool"]

`import ttmem` loads the native module and nothing else; whatever needs PyTorch imports it when it is used.
"""

from ttmem._native import Error, NoMemoryData, Profile, UnknownFormat, __version__
from ttmem._native import open as open  # not in `__all__`: `import *` must leave Python's own

# As in `typing`, which takes longer to load than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem.tracker import (
        MemoryTracker,
        get_memory_summary,
        get_memory_tracker,
        initialize_memory_tracker,
        memory_checkpoint,
        save_memory_profile,
        stop_memory_tracker,
    )
    from ttmem.usage import (
        DRAMUsage,
        L1UsagePerCore,
        MemoryUsageTracker,
        RunMode,
        ScopeGuard,
        memory_snapshot,
    )

__all__ = [
    "DRAMUsage",
    "Error",
    "L1UsagePerCore",
    "MemoryTracker",
    "MemoryUsageTracker",
    "NoMemoryData",
    "Profile",
    "RunMode",
    "ScopeGuard",
    "UnknownFormat",
    "__version__",
    "get_memory_summary",
    "get_memory_tracker",
    "initialize_memory_tracker",
    "memory_checkpoint",
    "memory_snapshot",
    "save_memory_profile",
    "stop_memory_tracker",
]

if not TYPE_CHECKING:
    USAGE = frozenset(
        ("DRAMUsage", "L1UsagePerCore", "MemoryUsageTracker", "RunMode", "ScopeGuard", "memory_snapshot")
    )

    def __getattr__(name):  # noqa: ANN001, ANN202 - who checks types knows the names
        """Brings what watches programs when it is first asked for: the commands have no use for it."""
        if name in __all__:
            from importlib import import_module

            module = "usage" if name in USAGE else "tracker"
            globals()[name] = found = getattr(import_module(f"ttmem.{module}"), name)
            return found
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
