"""The pytest plugin: limits for the device memory of tests, and a table of what they use.

    >>> @pytest.mark.limit_device_memory("2 GiB")
    ... @pytest.mark.limit_growth("1 MiB")
    ... def test_forward(model): ...

pytest loads this module at startup, so it imports PyTorch and the tracker only for tests that are measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ttmem._native import memory_size

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

    from ttmem._test_memory import DeviceUsage, Memory, Row
    from ttmem.tracker import MemoryTracker

PEAK, GROWTH = "limit_device_memory", "limit_growth"
# These fixtures do not hold memory of a test, so it cannot shrink when they are torn down.
HARMLESS_MODULES = frozenset(("_pytest.capture", "_pytest.tmpdir", __name__))
MAX_NAME = 200
"""Maximum length of a folder's name."""
PARAMETER = "get_direct_param_fixture_func"


class Limit(NamedTuple):
    """A limit of a marker."""

    marker: str
    size: int
    device: str | None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("ttmem", "device memory (ttmem)")
    group.addoption("--ttmem", action="store_true", help="show the device memory of all tests in a table")
    group.addoption("--ttmem-json", metavar="FILE", help="write the table to a JSON file")
    group.addoption("--ttmem-dir", metavar="DIR", help="keep the recordings of all measured tests in DIR")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers, and the table of `--ttmem`."""
    config.addinivalue_line(
        "markers",
        f"{PEAK}(limit, device=None): fail the test if it allocates more device memory, such as '2 GiB'",
    )
    config.addinivalue_line(
        "markers",
        f"{GROWTH}(limit, device=None): fail the test if more device memory stays allocated, such as '1 MiB'",
    )
    if _makes_table(config):
        from ttmem._test_table import Table

        config.pluginmanager.register(Table(config), "ttmem-table")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Rejects invalid limits before any test runs.

    Workers of pytest-xdist cannot report usage errors; there, the tests fail.
    """
    for item in [] if hasattr(config, "workerinput") else items:
        _check_limits(item)


def _check_limits(item: pytest.Item) -> None:
    try:
        _limits(item)
    except ValueError as error:
        msg = f"{item.nodeid}: {error}"
        raise pytest.UsageError(msg) from None


def _limits(item: pytest.Item) -> list[Limit]:
    """Returns the limits of a test. Of several for the same device, the closest marker counts."""
    found: dict[tuple[str, str | None], Limit] = {}
    for name in (PEAK, GROWTH):
        for mark in item.iter_markers(name):
            limit = _limit(mark)
            found.setdefault((name, limit.device), limit)
    return list(found.values())


def _limit(mark: pytest.Mark) -> Limit:
    arguments = dict(mark.kwargs)
    if len(mark.args) == 1:
        arguments.setdefault("limit", mark.args[0])
    if "limit" not in arguments or len(mark.args) > 1 or arguments.keys() - {"limit", "device"}:
        msg = f"{mark.name}: expected a size and optionally a device, such as ('2 GiB', device='cuda:0')"
        raise ValueError(msg)
    limit, device = arguments["limit"], arguments.get("device")
    if not isinstance(limit, int | str) or isinstance(limit, bool):
        msg = f"{mark.name}({limit!r}): expected a size, such as '2 GiB' or a number of bytes"
        raise ValueError(msg)  # noqa: TRY004 - one kind of error for all invalid limits
    if device is not None and not re.fullmatch(r"[a-z]+(:\d+)?", str(device)):
        msg = f"{mark.name}(device={device!r}): expected a device, such as 'cuda:0', 'cuda', 'cpu' or 'ttnn'"
        raise ValueError(msg)
    try:
        return Limit(mark.name, memory_size(str(limit)), None if device is None else str(device))
    except ValueError as error:
        msg = f"{mark.name}({limit!r}): {error}"
        raise ValueError(msg) from None


def _makes_table(config: pytest.Config) -> bool:
    return bool(config.getoption("--ttmem") or config.getoption("--ttmem-json"))


def _is_measured(item: pytest.Item) -> bool:
    return (
        _makes_table(item.config)
        or bool(item.config.getoption("--ttmem-dir"))
        or "device_memory" in getattr(item, "fixturenames", ())
        or any(True for name in (PEAK, GROWTH) for _ in item.iter_markers(name))
    )


class Measurement:
    """The memory of one test."""

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.limits = _limits(item)
        self.memories: list[Memory] = []
        self.not_measured: str | None = None
        self.keeps_recording = bool(item.config.getoption("--ttmem-dir"))
        self._folder: str | None = None

    @property
    def is_required(self) -> bool:
        """Whether the test fails if it cannot be measured."""
        return bool(self.limits) or "device_memory" in getattr(self.item, "fixturenames", ())

    def begin(self) -> None:
        """Starts measuring."""
        from ttmem._test_memory import memories

        fixtures = (getattr(self.item, "funcargs", None) or {}).values()
        try:
            self._folder = _folder(self.item)
            self.memories = memories(self._folder)
            for memory in self.memories:
                memory.begin(fixtures)
        except Exception as error:  # noqa: BLE001 - a table must not break tests
            self._give_up(error)
        self._check_measured()

    def end_call(self, error: BaseException | None) -> None:
        """Ends the call of the test, which may have raised an error. Raises if it exceeded a limit."""
        may_shrink = _may_shrink(self.item)
        try:
            for memory in self.memories:
                memory.end_call(passed=error is None, may_shrink=may_shrink)
        except Exception as reason:  # noqa: BLE001 - a table must not break tests
            self._give_up(reason)
        if error is None:
            self._check_measured()
            self.check(PEAK)
            if not self.is_pending:
                self.check(GROWTH)
        elif "OutOfMemory" in type(error).__name__:
            self._explain()

    def _give_up(self, error: Exception) -> None:
        """Ends a measurement that failed."""
        from ttmem._test_memory import NotMeasured

        is_ours = isinstance(error, NotMeasured)
        self.not_measured = str(error) if is_ours else f"{type(error).__name__}: {error}"
        memories, self.memories = self.memories, []
        for memory in memories:
            with contextlib.suppress(Exception):
                memory.close()

    def _explain(self) -> None:
        """Adds what held the memory to the report of a test that ran out of it."""
        for memory in self.memories:
            for usage in _chosen(memory.usages, None):
                self.keeps_recording = True
                self.item.add_report_section("call", "device memory", self._held_at_peak(memory, usage))

    @property
    def is_pending(self) -> bool:
        """Whether fixtures may still free memory of the test."""
        return any(memory.is_pending for memory in self.memories)

    def end(self) -> None:
        """Ends the test after its fixtures were torn down. Raises if it exceeded a limit."""
        if self.is_pending:
            # They still hold the values of fixtures.
            (getattr(self.item, "funcargs", None) or {}).clear()
            try:
                for memory in self.memories:
                    memory.end()
            except Exception as error:  # noqa: BLE001 - a table must not break tests
                self._give_up(error)
            self._check_measured()
            self.check(GROWTH)

    def usages(self) -> list[DeviceUsage]:
        """Returns the memory use on each device."""
        return [usage for memory in self.memories for usage in memory.usages]

    def check(self, marker: str) -> None:
        """Raises if the test exceeded a limit of this marker."""
        for limit in self.limits:
            if limit.marker != marker:
                continue
            if limit.device == "cpu" and not all(memory.tracks_cpu for memory in self.memories):
                self._fail(f"{marker}: CPU tensors are not tracked after the first CUDA call of the process")
            for usage in _chosen(self.usages(), limit.device):
                value = usage.peak if marker == PEAK else usage.growth
                if value is not None and value > limit.size:
                    self._fail(self._message(limit, usage, value))

    def remove_recording(self) -> None:
        """Removes the recording unless someone may want to read it."""
        if self._folder is not None and not self.keeps_recording:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _check_measured(self) -> None:
        if self.not_measured is not None and self.is_required:
            names = [limit.marker for limit in self.limits] or ["device_memory"]
            self._fail(f"{names[0]}: {self.not_measured}")

    def _fail(self, message: str) -> None:
        pytest.fail(message, pytrace=False)

    def _message(self, limit: Limit, usage: DeviceUsage, value: int) -> str:
        from ttmem._sizes import size_text

        self.keeps_recording = True
        memory = next(memory for memory in self.memories if usage in memory.usages)
        numbers = f"{size_text(value)} on {usage.device}, limit {size_text(limit.size)}"
        if limit.marker == GROWTH:
            rows = memory.growth_rows(usage.device)
            title = f"live on {usage.device} after the test"
            return f"left {numbers}\n\n" + self._held(memory, rows, title, _kept_by(usage.device, rows))
        older = usage.total - usage.peak
        if older > 0:
            numbers += (
                f"\nallocated before the test: {size_text(older)}, peak in total: {size_text(usage.total)}"
            )
        return f"allocated {numbers}\n\n" + self._held_at_peak(memory, usage)

    def _held_at_peak(self, memory: Memory, usage: DeviceUsage) -> str:
        return self._held(memory, memory.peak_rows(usage.device), f"live on {usage.device} at the peak")

    def _held(self, memory: Memory, rows: list[Row], title: str, holders: str = "") -> str:
        from ttmem._held import held_text

        table = held_text(rows, str(self.item.config.rootpath)) if rows else "  unknown"
        return f"{title}:\n{table}{holders}\n\nrecording: {memory.recording}"


def _kept_by(device: str, rows: list[Row]) -> str:
    """Returns what keeps the tensors of a test alive; empty if they are not PyTorch's."""
    if device == "ttnn" or not rows:
        return ""
    from ttmem._torch.holders import holders, holders_text

    found = holders(device=device, sizes={row.size for row in rows})
    return f"\n\nkept alive by:\n{holders_text(found)}" if found else ""


# The measurements of running tests.
_measurements: dict[pytest.Item, Measurement] = {}


def _chosen(usages: list[DeviceUsage], device: str | None) -> list[DeviceUsage]:
    """Returns the devices that a limit applies to: by default, the accelerators in use, or else the CPU."""
    if device is None:
        return [usage for usage in usages if usage.device != "cpu" and usage.peak > 0] or usages
    return [usage for usage in usages if device in (usage.device, usage.device.split(":")[0])]


def _may_shrink(item: pytest.Item) -> bool:
    """Whether tearing down the test may free memory that it allocated."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None or getattr(item, "nofuncargs", False):
        return True
    return any(
        fixture.scope == "function"
        and getattr(fixture.func, "__module__", None) not in HARMLESS_MODULES
        and getattr(fixture.func, "__name__", None) != PARAMETER
        for fixtures in info.name2fixturedefs.values()
        for fixture in fixtures[-1:]
    )


def _folder(item: pytest.Item) -> str:
    """Creates the folder for the recording of a test."""
    kept = item.config.getoption("--ttmem-dir")
    if kept:
        folder = os.path.join(str(kept), re.sub(r"[^\w.-]+", "_", item.nodeid)[-MAX_NAME:])
        os.makedirs(folder, exist_ok=True)
        return folder
    factory: pytest.TempPathFactory | None = getattr(item.config, "_tmp_path_factory", None)
    return tempfile.mkdtemp(prefix="ttmem-") if factory is None else str(factory.mktemp("ttmem"))


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Measures the call of a test."""
    if not _is_measured(item):
        yield
        return
    try:
        measurement = _measurements[item] = Measurement(item)
    except ValueError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    measurement.begin()
    outcome = yield
    # Test cases of unittest do not raise the errors of their tests.
    errors = [found.value for found in getattr(item, "_excinfo", None) or ()]
    try:
        measurement.end_call(outcome.excinfo[1] if outcome.excinfo else next(iter(errors), None))
    except pytest.fail.Exception as error:
        outcome.force_exception(error)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, None]:
    """Measures what is left of a test after its fixtures were torn down."""
    outcome = yield
    measurement = _measurements.pop(item, None)
    if measurement is None:
        return
    try:
        measurement.end()
    except pytest.fail.Exception as error:
        if outcome.excinfo is None:
            outcome.force_exception(error)
    finally:
        measurement.remove_recording()
    if _makes_table(item.config):
        _set_property(item, measurement)


def _set_property(item: pytest.Item, measurement: Measurement) -> None:
    """Adds the memory use to the report of the test. A test that runs again already has one."""
    from ttmem._test_table import PROPERTY

    devices = {
        usage.device: {"peak_bytes": usage.peak, "growth_bytes": usage.growth}
        for usage in measurement.usages()
    }
    value = json.dumps({"devices": devices, "not_measured": measurement.not_measured})
    others = [found for found in item.user_properties if found[0] != PROPERTY]
    item.user_properties[:] = [*others, (PROPERTY, value)]


class DeviceMemory:
    """The memory of the running test. Sizes are in bytes."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def peak(self, device: str | None = None) -> int:
        """Returns the highest use so far, above the use when the test began.

        Args:
            device: A device such as `"cuda:0"` or `"ttnn"`; by default, the accelerator in use, or else the
                CPU.

        """
        return max((usage.peak for usage in self._now(device)), default=0)

    def current(self, device: str | None = None) -> int:
        """Returns the use now, above the use when the test began; negative if it is lower."""
        found = self._now(device)
        return max(found, key=lambda usage: usage.peak).growth or 0 if found else 0

    def checkpoint(self, name: str) -> AbstractContextManager[object]:
        """Records the memory in use now; as a context manager, also at the end of the block."""
        return self.tracker.checkpoint(name)

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Names a part of the test, as a context manager. The recording has its time and memory."""
        return self.tracker.track_operation(name)

    @property
    def tracker(self) -> MemoryTracker:
        """The memory tracker of the test."""
        from ttmem._test_memory import TorchMemory

        for memory in self._measurement().memories:
            if isinstance(memory, TorchMemory):
                return memory.tracker
        msg = "device_memory.tracker: PyTorch is not installed; run `pip install torch`"
        raise RuntimeError(msg)

    @property
    def recording(self) -> str:
        """Path of the recording, which is kept after the test. It is complete when the test has ended."""
        measurement = self._measurement()
        measurement.keeps_recording = True
        return self.tracker.recording or ""

    def _now(self, device: str | None) -> list[DeviceUsage]:
        memories = self._measurement().memories
        return _chosen([usage for memory in memories for usage in memory.now()], device)

    def _measurement(self) -> Measurement:
        measurement = _measurements.get(self._item)
        if measurement is None:
            msg = "device_memory measures the call of a test: use it in the test, not in a fixture"
            raise RuntimeError(msg)
        return measurement


@pytest.fixture
def device_memory(request: pytest.FixtureRequest) -> DeviceMemory:
    """Gives a test its device memory: peak, current use, checkpoints, and the recording (ttmem)."""
    return DeviceMemory(request.node)
