"""A described card, captures of the operations on it, and its allocator's state after every operation.

`Ledger.mark` opens and closes an empty function in the capture and records the allocator's own state. The
test finds the function in the profile and compares.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import ttnn
import ttnn._ttnn as native

POOLS = ("DRAM", "L1", "L1_SMALL", "TRACE")


def arguments() -> argparse.ArgumentParser:
    """Parses the arguments that all programs have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="where the evidence and truth.json go")
    parser.add_argument("--no-dispatch", action="store_true")
    parser.add_argument("--mesh", action="store_true", help="both chips of an n300 as one device")
    parser.add_argument("--l1-small", type=int, default=16384)
    parser.add_argument("--trace-region", type=int, default=0)
    parser.add_argument("--detailed", action="store_true", help="buffer pages and snapshots in the report")
    parser.add_argument("--change", type=json.loads, default={}, help="a change of the program: see Change")
    return parser


class Passed(Exception):
    """A changed program came to the end of the part that is to be tried."""


class Change:
    """A change of a program. Tensors are named by their number, in the order of `Ledger.tensor`.

    `to_dram`, `bfloat8_b`: tensors with another memory or type. `free`: tensors that are freed before tensor
    `at`, or before what comes after the last one. `last`: the last tensor that is made.
    """

    def __init__(self, rows: dict[str, Any]) -> None:
        """Reads the change."""
        self.to_dram = rows.get("to_dram", [])
        self.bfloat8 = rows.get("bfloat8_b", [])
        self.free = rows.get("free", [])
        self.at = rows.get("at")
        self.last = rows.get("last")


class Ledger:
    """Runs a program's operations between `begin` and `finish`, which may be called several times."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Opens the device."""
        self.options = options
        self.rows: list[dict[str, Any]] = []
        self.before: list[list[Any]] = []
        self.change = Change(options.change)
        # The pools and addresses of all tensors, and those that a change frees.
        self.places: list[list[Any]] = []
        self.freed: dict[int, Any] = {}
        regions = {"l1_small_size": options.l1_small, "trace_region_size": options.trace_region}
        if options.mesh:
            self.device = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), **regions)
        else:
            self.device = ttnn.open_device(device_id=0, **regions)
        self.grid = self.device.compute_with_storage_grid_size()
        self.first_trace_address = self.address_of_trace_region()

    def address_of_trace_region(self) -> int | None:
        """Returns where the trace region starts: the address of the only buffer in it."""
        if not self.options.trace_region:
            return None
        tensor = self.tensor([1, 1, 32, 32], interleaved("TRACE"))
        [[_, address, _]] = self.buffers()
        ttnn.deallocate(tensor)
        return address  # type: ignore[no-any-return]

    def begin(self) -> None:
        """Begins a capture."""
        self.rows = []
        self.before = self.buffers()
        if self.options.detailed:
            ttnn.graph.enable_detailed_buffer_tracing()
        else:
            ttnn.graph.disable_detailed_buffer_tracing()
        modes = ttnn.graph.RunMode
        ttnn.graph.begin_graph_capture(modes.NO_DISPATCH if self.options.no_dispatch else modes.NORMAL)

    def mark(self, label: str, **details: Any) -> None:
        """Records the allocator's current state."""
        name = f"mark {len(self.rows)}: {label}"
        ttnn.graph.track_function_start(name)
        ttnn.graph.track_function_end()
        if self.options.no_dispatch:  # nothing is allocated
            self.rows.append({"mark": name} | details)
            return
        pools = {pool: self.view(pool) for pool in POOLS}
        held = {pool: view["allocated"] for pool, view in pools.items()}
        row = {"mark": name, "held": held, "pools": pools, "buffers": self.buffers()}
        self.rows.append(row | details)

    def view(self, pool: str) -> dict[str, int]:
        """Returns the allocator's numbers of a pool, per bank."""
        view = ttnn.get_memory_view(self.device, getattr(ttnn.BufferType, pool))
        return {
            "banks": view.num_banks,
            "size": view.total_bytes_per_bank,
            "allocated": view.total_bytes_allocated_per_bank,
            "free": view.total_bytes_free_per_bank,
            "largest_free": view.largest_contiguous_bytes_free_per_bank,
        }

    def buffers(self) -> list[list[Any]]:
        """Returns the pool, address and allocated bytes per bank of every buffer.

        The sizes of `get_buffers` lack the padding of rows and blocks, so the sizes are those of the
        allocator's blocks. The addresses of blocks start at 0 in each pool.
        """
        addresses: dict[str, list[int]] = {pool: [] for pool in POOLS}
        for buffer in native.reports.get_buffers([self.device]):
            addresses[buffer.buffer_type.name].append(buffer.address)
        found: list[list[Any]] = []
        for pool in POOLS:
            table = ttnn.get_memory_view(self.device, getattr(ttnn.BufferType, pool)).block_table
            blocks = sorted(
                (int(block["address"]), int(block["size"])) for block in table if block["allocated"] == "yes"
            )
            pairs = list(zip(sorted(addresses[pool]), blocks, strict=True))
            # The same distance everywhere: each buffer is paired with its own block.
            if len({address - block for address, (block, _) in pairs}) > 1:
                message = f"{pool}: buffers {sorted(addresses[pool])} are not the blocks {blocks}"
                raise AssertionError(message)
            found += [[pool, address, size] for address, (_, size) in pairs]
        return found

    def finish(self, folder: Path | None = None, *, database: bool = True, **details: Any) -> None:
        """Ends the capture; writes the report, its nodes as a list, a database, and the expected numbers."""
        folder = folder or self.options.folder
        folder.mkdir(parents=True, exist_ok=True)
        info = native.reports.get_device_info(self.device)
        truth = {
            "before": self.before,
            "rows": self.rows,
            "pools": {pool: self.view(pool) for pool in POOLS},
            "buffers": self.buffers(),
            "first_l1_address": info.address_at_first_l1_cb_buffer,
            "first_trace_address": self.first_trace_address,
        }
        graph = ttnn.graph.end_graph_capture_to_file(str(folder / "report.json"))
        truth["ttnn"] = self.usage(graph)
        (folder / "capture.json").write_text(json.dumps(graph))
        if database and not self.options.no_dispatch:
            ttnn.graph.import_report(folder / "report.json", folder / "database")
        # Written last: a folder without it belongs to a program that did not finish.
        (folder / "truth.json").write_text(json.dumps(truth | details))

    def usage(self, graph: list[dict[str, Any]]) -> dict[str, int]:
        """Returns what ttnn itself extracts from a capture."""
        cores = self.grid.x * self.grid.y
        per_core = ttnn.graph.extract_resource_usage_per_core(graph, cores)
        names = ("peak_cb", "peak_dataflow_buffer", "peak_scratchpad", "peak_l1", "peak_total")
        usage = {name: getattr(per_core, name) for name in names}
        usage["peak_l1_of_device"] = ttnn.graph.extract_peak_L1_memory_usage(graph)
        return usage

    def close(self) -> None:
        """Closes the device."""
        if self.options.mesh:
            ttnn.close_mesh_device(self.device)
        else:
            ttnn.close_device(self.device)

    def tensor(self, shape: list[int], memory: Any, dtype: str = "bfloat16", layout: str = "TILE") -> Any:
        """Allocates a tensor."""
        number = len(self.places)
        if number in self.change.to_dram:
            memory = interleaved("DRAM")
        if number in self.change.bfloat8:
            dtype = "bfloat8_b"
        self._free_before(number)
        tensor = ttnn.empty(
            shape,
            dtype=getattr(ttnn, dtype),
            layout=getattr(ttnn, f"{layout}_LAYOUT"),
            device=self.device,
            memory_config=memory,
        )
        address = None if self.options.no_dispatch else tensor.buffer_address()
        self.places.append([memory.buffer_type.name, address])
        if number in self.change.free:
            self.freed[number] = tensor
        self._free_before(number + 1)
        if number == self.change.last:
            raise Passed
        return tensor

    def _free_before(self, number: int) -> None:
        if number == self.change.at:
            for tensor in self.freed.values():
                ttnn.deallocate(tensor)
            self.freed.clear()

    def cores(self, width: int, height: int) -> Any:
        """Returns a rectangle of cores that starts at the first one."""
        last = ttnn.CoreCoord(width - 1, height - 1)
        return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), last)})


def interleaved(pool: str) -> Any:
    """Returns a configuration with pages spread over all banks of a pool."""
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, getattr(ttnn.BufferType, pool))


def sharded(kind: str, pool: str, cores: Any, shard: list[int]) -> Any:
    """Returns a configuration with a shard on each core: `kind` is HEIGHT, WIDTH or BLOCK."""
    spec = ttnn.ShardSpec(cores, shard, ttnn.ShardOrientation.ROW_MAJOR)
    layout = getattr(ttnn.TensorMemoryLayout, f"{kind}_SHARDED")
    return ttnn.MemoryConfig(layout, getattr(ttnn.BufferType, pool), spec)
