"""Memory profiler for Tenstorrent devices and PyTorch.

    >>> import ttmem
    >>> profile = ttmem.load("model_profile.log")
    >>> profile.summary()["ranks"][0]["peak"]["pool"]

`import ttmem` loads only the native module. PyTorch is imported on first use of a tracker.

PYTEST_DONT_REWRITE: `ttmem track -m pytest` imports this before pytest, which would warn about it.
"""

from ttmem._native import Error, NoMemoryData, Profile, UnknownFormat, __version__, load

open = load  # an alias, for existing programs. Not in `__all__`: `import *` must not shadow the built-in

# Stands in for `typing.TYPE_CHECKING`: importing `typing` takes longer than everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem._export import Exported, export
    from ttmem._torch.holders import Holder, holders
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
    "Exported",
    "Holder",
    "L1UsagePerCore",
    "MemoryTracker",
    "MemoryUsageTracker",
    "NoMemoryData",
    "Profile",
    "RunMode",
    "ScopeGuard",
    "UnknownFormat",
    "__version__",
    "export",
    "get_memory_summary",
    "get_memory_tracker",
    "holders",
    "initialize_memory_tracker",
    "load",
    "memory_checkpoint",
    "memory_snapshot",
    "save_memory_profile",
    "stop_memory_tracker",
]

if not TYPE_CHECKING:
    MODULES = {
        **dict.fromkeys(("Exported", "export"), "_export"),
        **dict.fromkeys(("Holder", "holders"), "_torch.holders"),
        **dict.fromkeys(
            ("DRAMUsage", "L1UsagePerCore", "MemoryUsageTracker", "RunMode", "ScopeGuard", "memory_snapshot"),
            "usage",
        ),
    }

    def __getattr__(name):  # noqa: ANN001, ANN202 - type checkers read the imports above instead
        """Imports the trackers and `export` on first use; the commands do not need them."""
        if name in __all__:
            from importlib import import_module

            module = import_module(f"ttmem.{MODULES.get(name, 'tracker')}")
            globals()[name] = found = getattr(module, name)
            return found
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    def __dir__():  # noqa: ANN202
        """Lists the public names, including those that are not imported yet."""
        return sorted({*__all__, *globals()} - {"MODULES", "TYPE_CHECKING"})
