"""The pytest plugin, in real runs of pytest.

PyTorch takes seconds to import, so several tests look at the same run. Runs with PyTorch are subprocesses:
pytest removes modules that an inner run in the same process imports.
"""

from __future__ import annotations

import json
import re
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ttmem
from conftest import CORPUS, ROOT, ran
from test_history import FACTS, end_of, snapshot_of
from ttmem._held import held_text
from ttmem._native import History
from ttmem._test_memory import DeviceUsage, Row, TorchMemory
from ttmem._torch.mode import Mode, leave_to_allocators
from ttmem.pytest_plugin import _chosen

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]
MIB = 1 << 20

HEAD = """
import pytest, torch

MIB = 1 << 20
kept = []

def mib(count):
    return torch.ones(count * MIB, dtype=torch.uint8)
"""


OPTIONS = ("-v", "-rP", "-p", "no:cacheprovider", "--strict-markers")


def run(pytester: pytest.Pytester, program: str, *options: str, head: str = HEAD) -> pytest.RunResult:
    """Runs a file of tests in a new process."""
    pytester.makepyfile(test_inner=head + program)
    return pytester.runpytest_subprocess(*OPTIONS, *options)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the output of a run with markers and the fixture."""
    folder = tmp_path_factory.mktemp("inner")
    for name, program in {"peaks": PEAKS, "growth": GROWTH, "fixture": FIXTURE}.items():
        (folder / f"test_{name}.py").write_text(HEAD + program)
    words = [sys.executable, "-m", "pytest", f"--basetemp={folder / 'temporary'}", *OPTIONS]
    return ran(words, cwd=folder).stdout


def outcomes(output: str, file: str = "inner") -> dict[str, str]:
    """Returns the last outcome of each test in a file."""
    found = re.findall(rf"^test_{file}\.py::(\S+) ([A-Z]+)", output, re.MULTILINE)
    return dict(found)


def failure(output: str, test: str) -> str:
    """Returns the text of a failure."""
    pattern = rf"^_+ (?:ERROR at \w+ of )?{re.escape(test)} _+\n(.*?)(?=^[_=]{{3,}} )"
    (found,) = re.findall(pattern, output, re.MULTILINE | re.DOTALL)
    return str(found)


PEAKS = """
class TestClass:
    pytestmark = pytest.mark.limit_device_memory("3 MiB")

    @pytest.mark.parametrize("count", [2, 4])
    def test_parameter(self, count):
        mib(count)

    @pytest.mark.limit_device_memory("8 MiB")
    def test_closest_marker(self):
        mib(4)

@pytest.mark.limit_device_memory("2 MiB")
def test_over():
    first = torch.ones(MIB, dtype=torch.uint8)
    second = torch.ones(2 * MIB, dtype=torch.uint8)  # the line

@pytest.mark.limit_device_memory(2 * MIB)
def test_within():
    for _ in range(4):
        mib(2)

@pytest.fixture(scope="session")
def model():
    return torch.nn.Linear(1024, 1024)

@pytest.fixture
def batch():
    return mib(16)

@pytest.mark.limit_device_memory("2 MiB")
def test_fixtures_do_not_count(model, batch):
    model(torch.ones(8, 1024))

@pytest.mark.limit_device_memory("2 MiB", device="cpu")
def test_over_with_model(model):
    model(torch.ones(1024, 1024))

@pytest.mark.limit_device_memory("1 KiB", device="cuda:0")
def test_other_device():
    mib(2)

@pytest.mark.limit_device_memory("1 MiB")
def test_own_failure():
    mib(2)
    assert False, "own failure"

@pytest.mark.limit_device_memory("1 MiB")
@pytest.mark.skip
def test_skipped():
    mib(2)

@pytest.mark.limit_device_memory("1 MiB")
def test_skips():
    mib(2)
    pytest.skip("here")

@pytest.mark.limit_device_memory("1 MiB")
@pytest.mark.xfail(strict=True)
def test_expected():
    mib(2)

@pytest.mark.limit_device_memory("1 MiB")
def test_out_of_memory():
    held = mib(2)
    raise torch.OutOfMemoryError("CUDA out of memory")

def test_unmarked():
    import ttmem
    assert ttmem.get_memory_tracker().recording is None
    mib(64)
"""


def test_tests_over_their_limit_fail_and_name_what_held_the_memory(output: str) -> None:
    assert outcomes(output, "peaks") == {
        "TestClass::test_parameter[2]": "PASSED",
        "TestClass::test_parameter[4]": "FAILED",
        "TestClass::test_closest_marker": "PASSED",
        "test_over": "FAILED",
        "test_within": "PASSED",
        "test_fixtures_do_not_count": "PASSED",
        "test_over_with_model": "FAILED",
        "test_other_device": "PASSED",
        "test_own_failure": "FAILED",
        "test_skipped": "SKIPPED",
        "test_skips": "SKIPPED",
        "test_expected": "XFAIL",
        "test_out_of_memory": "FAILED",
        "test_unmarked": "PASSED",
    }
    over = failure(output, "test_over")
    assert over.startswith("allocated 3.0 MiB on cpu, limit 2.0 MiB\n\nlive on cpu at the peak:\n")
    line = 1 + (HEAD + PEAKS).split("  # the line")[0].count("\n")
    rows = [row.split() for row in over.splitlines()[4:6]]
    assert rows[0] == ["2.0", "MiB", "1", "unknown", f"test_peaks.py:{line}", "aten::ones"]
    assert rows[1] == ["1.0", "MiB", "1", "unknown", f"test_peaks.py:{line - 1}", "aten::ones"]
    with_model = failure(output, "test_over_with_model")
    assert (
        "allocated 8.0 MiB on cpu, limit 2.0 MiB\nallocated before the test: 4.0 MiB, peak in total: 12.0 MiB"
        in (with_model)
    )
    assert re.search(r"4\.0 MiB +2 +parameter +before the test \(weight and 1 more\)", with_model)
    assert "own failure" in failure(output, "test_own_failure")
    assert "limit" not in failure(output, "test_own_failure").replace("limit_device_memory", "")
    assert re.search(
        r"2\.0 MiB +1 +unknown +test_peaks\.py:\d+ aten::ones", failure(output, "test_out_of_memory")
    )
    (recording,) = re.findall(r"recording: (.*)", over)
    assert ttmem.load(recording).summary()["ranks"][0]["pools"]["cpu"]["peak_per_bank"] == 3 * MIB


GROWTH = """
@pytest.mark.limit_growth("1 MiB")
def test_list():
    for _ in range(3):
        kept.append(mib(1))
    kept.append(mib(8)[:1].clone())
    mib(64)

@pytest.mark.limit_growth("1 MiB")
def test_after_list():
    mib(4)

@pytest.mark.limit_growth(0)
def test_cycle():
    cycle = [mib(2)]
    cycle.append(cycle)

@pytest.mark.limit_growth("2 MiB")
def test_replaced():
    kept[0] = mib(1)

@pytest.fixture
def model():
    return torch.nn.Linear(1024, 1024)

@pytest.mark.limit_growth("1 MiB")
def test_gradients_of_a_fixture(model):
    model(torch.ones(8, 1024)).sum().backward()

@pytest.mark.limit_growth("1 MiB")
def test_list_with_fixture(model):
    model(torch.ones(8, 1024)).sum().backward()
    kept.append(mib(2))

@pytest.fixture(scope="module")
def warm():
    cache = {"table": mib(8)}
    yield cache
    cache.clear()

@pytest.mark.limit_growth("1 MiB")
def test_fixture_fills_its_cache(warm):
    assert warm["table"].sum() == 8 * MIB

@pytest.mark.limit_growth("1 MiB")
def test_fills_a_cache(warm):
    warm["more"] = mib(2)

@pytest.mark.limit_growth("1 MiB")
def test_cache_is_filled(warm):
    warm.setdefault("more", None)
    kept.append(mib(1))

@pytest.mark.limit_growth("1 MiB")
def test_failure_with_growth():
    kept.append(mib(2))
    assert False

class Case(__import__("unittest").TestCase):
    @pytest.mark.limit_growth("1 MiB")
    def test_attribute(self):
        self.attribute = mib(2)

    @pytest.mark.limit_growth("1 MiB")
    def test_global(self):
        kept.append(mib(2))
"""


def test_growth_is_what_survives_a_test_and_its_fixtures(output: str) -> None:
    assert outcomes(output, "growth") == {
        "test_list": "FAILED",
        "test_after_list": "PASSED",
        "test_cycle": "PASSED",
        "test_replaced": "PASSED",
        "test_gradients_of_a_fixture": "PASSED",
        # The fixture is torn down after pytest has reported the test.
        "test_list_with_fixture": "ERROR",
        "test_fixture_fills_its_cache": "PASSED",
        "test_fills_a_cache": "FAILED",
        "test_cache_is_filled": "PASSED",
        "test_failure_with_growth": "FAILED",
        "Case::test_attribute": "PASSED",
        "Case::test_global": "ERROR",
    }
    text = failure(output, "test_list")
    assert text.startswith("left 3.0 MiB on cpu, limit 1.0 MiB\n\nlive on cpu after the test:\n")
    assert re.search(r"^ +3\.0 MiB +3 +unknown +test_growth\.py:\d+ aten::ones$", text, re.MULTILINE)
    text = failure(output, "test_list_with_fixture")
    assert text.startswith("left 2.0 MiB on cpu, limit 1.0 MiB\n")
    assert "grad" not in text
    assert "limit" not in failure(output, "test_failure_with_growth").replace("limit_growth", "")


TABLE = """
def test_small():
    mib(1)

def test_large():
    kept.append(mib(2))
    mib(4)

def test_fails():
    mib(3)
    assert False

def test_nothing():
    pass

@pytest.mark.skip
def test_skipped():
    pass

def test_own_tracker(tmp_path):
    import ttmem
    ttmem.initialize_memory_tracker(tmp_path)
    mib(1)
    assert ttmem.get_memory_summary()["enabled"]
    ttmem.stop_memory_tracker()
"""
ROWS = [
    ["6.0", "MiB", "2.0", "MiB", "cpu", "test_inner.py::test_large"],
    ["3.0", "MiB", "-", "cpu", "test_inner.py::test_fails"],
    ["1.0", "MiB", "0", "B", "cpu", "test_inner.py::test_small"],
]


def test_the_table_has_all_tests(pytester: pytest.Pytester) -> None:
    # The examples of the page run without workers.
    workers = ["-n1"] if find_spec("xdist") else []
    words = ["--ttmem", "--ttmem-json=table.json", "--ttmem-dir=recordings", "--junitxml=junit.xml", *workers]
    result = run(pytester, TABLE, *words)
    result.assert_outcomes(passed=4, failed=1, skipped=1)
    lines = result.outlines
    start = next(at for at, line in enumerate(lines) if re.fullmatch("=+ device memory =+", line))
    assert lines[start + 1].split() == ["peak", "growth", "device", "test"]
    assert [line.split() for line in lines[start + 2 : start + 5]] == ROWS
    assert lines[start + 5] == "1 test allocated no device memory"
    assert lines[start + 6].startswith("1 test not measured: the test started or stopped a memory tracker")
    rows = json.loads((pytester.path / "table.json").read_text())
    assert [(row["test"], row["device"], row["peak_bytes"], row["growth_bytes"]) for row in rows] == [
        ("test_inner.py::test_large", "cpu", 6 * MIB, 2 * MIB),
        ("test_inner.py::test_fails", "cpu", 3 * MIB, None),
        ("test_inner.py::test_small", "cpu", MIB, 0),
    ]
    assert "peak_bytes" in (pytester.path / "junit.xml").read_text()
    (recording,) = (pytester.path / "recordings" / "test_inner.py_test_large").glob("*.ttmem")
    assert ttmem.load(recording).summary()["ranks"][0]["pools"]["cpu"]["peak_per_bank"] == 6 * MIB


FIXTURE = """
import ttmem

def test_numbers(device_memory):
    assert (device_memory.peak(), device_memory.current()) == (0, 0)
    first = mib(3)
    with device_memory.phase("forward"), device_memory.checkpoint("inside"):
        second = mib(2)
    del first
    assert (device_memory.peak(), device_memory.current("cpu")) == (5 * MIB, 2 * MIB)
    assert device_memory.peak("cuda") == 0
    device_memory.tracker.label(second, "kv_cache", "cache")
    print("recorded", device_memory.recording)

def test_phases_of_the_test(device_memory):
    with ttmem.MemoryUsageTracker.begin_capture(device="cpu"):
        first = mib(1)
        ttmem.MemoryUsageTracker.snapshot("FIRST")
        second = mib(2)
        ttmem.MemoryUsageTracker.end_capture("SECOND")
        assert ttmem.MemoryUsageTracker.get_dram_usage("SECOND").peak == 2 * MIB
    assert device_memory.peak() == 3 * MIB

@pytest.fixture
def early(device_memory):
    return device_memory.peak()

def test_early(early):
    pass

@pytest.fixture
def running(tmp_path):
    yield ttmem.initialize_memory_tracker(tmp_path)
    ttmem.stop_memory_tracker()

@pytest.mark.limit_growth("1 MiB")
def test_tracker_of_a_fixture(running):
    pass

@pytest.mark.limit_growth("1 MiB")
def test_own_tracker(tmp_path):
    ttmem.initialize_memory_tracker(tmp_path)
    ttmem.stop_memory_tracker()
"""


def test_the_fixture_has_the_memory_of_its_test(output: str) -> None:
    assert outcomes(output, "fixture") == {
        "test_numbers": "PASSED",
        "test_phases_of_the_test": "PASSED",
        "test_early": "ERROR",
        "test_tracker_of_a_fixture": "FAILED",
        "test_own_tracker": "FAILED",
    }
    (recording,) = re.findall("^recorded (.*)", output, re.MULTILINE)
    rank = ttmem.load(recording).summary()["ranks"][0]
    assert [point["name"] for point in rank["checkpoints"]] == [
        "test begins",
        "inside",
        "inside (end)",
        "test ends",
    ]
    assert [(row["name"], row["peak_bytes"]) for row in rank["ran"]] == [("forward", 2 * MIB)]
    assert {row["class"] for row in rank["peak"]["live"]} == {"kv_cache", "unknown"}
    assert "use it in the test, not in a fixture" in failure(output, "test_early")
    text = failure(output, "test_tracker_of_a_fixture")
    assert text.startswith("limit_growth: another memory tracker is running and writes ")
    text = failure(output, "test_own_tracker")
    assert text.startswith("limit_growth: the test started or stopped a memory tracker, which ended")


INVALID = {
    "limit_growth('2 gigs')": "limit_growth('2 gigs'): unknown unit \"gigs\"; expected bytes or",
    "limit_growth()": "limit_growth: expected a size and optionally a device, such as",
    "limit_growth('1 MiB', 'cpu')": "limit_growth: expected a size and optionally a device, such as",
    "limit_growth('1 MiB', devices='cpu')": "limit_growth: expected a size and optionally a device, such as",
    "limit_growth(1.5)": "limit_growth(1.5): expected a size, such as '2 GiB' or a number of bytes",
    "limit_growth(-1)": "limit_growth(-1): a size cannot be negative; expected bytes or",
    "limit_growth(1, device='GPU 0')": "limit_growth(device='GPU 0'): expected a device, such as 'cuda:0',",
}


@pytest.mark.parametrize("marker", INVALID)
def test_invalid_limits_are_usage_errors(pytester: pytest.Pytester, marker: str) -> None:
    pytester.makepyfile(test_inner=f"import pytest\n@pytest.mark.{marker}\ndef test_x(): pass\n")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: test_inner.py::test_x: {INVALID[marker]}" in result.stderr.str()


def test_workers_of_xdist_fail_tests_with_invalid_limits(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    program = "import pytest\n@pytest.mark.limit_growth('x')\ndef test_x(): pass\ndef test_y(): pass\n"
    result = run(pytester, program, "-n1", head="")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["limit_growth('x'): a size must start with a number; expected*"])


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "ttnn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
PLAIN = """
import sys
import pytest

def test_nothing_is_imported():
    ours = {name for name in sys.modules if name.split(".")[0] == "ttmem"}
    assert ours == {"ttmem", "ttmem._native", "ttmem.pytest_plugin"}
    assert "torch" not in sys.modules
"""
LIMITED = """
@pytest.mark.limit_device_memory("1 GiB")
def test_limited():
    pass
"""


def test_a_project_without_torch_does_not_notice_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(BLOCKED)
    run(pytester, PLAIN, "-W", "error", head="").assert_outcomes(passed=1)
    result = run(pytester, PLAIN + LIMITED, head="")
    result.assert_outcomes(passed=1, failed=1)
    assert failure(result.stdout.str(), "test_limited") == (
        "limit_device_memory: device memory is measured with PyTorch or ttnn: neither is installed; "
        "run `pip install torch`\n"
    )
    result = run(pytester, "def test_x(): pass\n", "--ttmem", head="")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 test not measured: device memory is measured with PyTorch or ttnn: *"])


def test_pytest_does_not_warn_if_the_package_is_imported_first(tmp_path: Path) -> None:
    """`ttmem track -m pytest` imports it, and `TTMEM_TRACK=1`."""
    (tmp_path / "test_inner.py").write_text("def test_x(): pass\n")
    program = "import sys, ttmem, pytest; sys.exit(pytest.main(['-W', 'error', '-p', 'no:cacheprovider']))"
    result = ran([sys.executable, "-c", program], cwd=tmp_path)
    assert (result.returncode, "warning" in result.stdout) == (0, False), result.stdout


def test_it_can_be_disabled(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_inner="import pytest\n" + LIMITED)
    result = pytester.runpytest_inprocess("-p", "no:ttmem", "-p", "no:cacheprovider", "-W", "ignore")
    result.assert_outcomes(passed=1)
    result = pytester.runpytest_inprocess("-p", "no:ttmem", "-p", "no:cacheprovider", "--ttmem")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


TTNN = """
import json, sys, types
import pytest

class Graph:
    class RunMode:
        NORMAL = "NORMAL"

    depth = 0

    def begin_graph_capture(self, mode):
        self.depth += 1

    def end_graph_capture(self):
        self.depth -= 1
        with open({path!r}) as file:
            return json.load(file)

ttnn = sys.modules["ttnn"] = types.ModuleType("ttnn")
ttnn.graph = Graph()

@pytest.mark.limit_device_memory("1 KiB")
def test_over():
    assert ttnn.graph.depth == 1

@pytest.mark.limit_device_memory("1 GiB", device="ttnn")
def test_within():
    pass

@pytest.mark.limit_growth(16, device="ttnn")
def test_grows():
    pass

def test_numbers(device_memory):
    assert device_memory.peak("ttnn") == {peak}

def test_ended():
    assert ttnn.graph.depth == 0
"""


def test_ttnn_is_measured_by_graph_captures(pytester: pytest.Pytester) -> None:
    path = CORPUS / "ttnn_graph" / "sample-n150-report.json"
    rank = ttmem.load(path).summary()["ranks"][0]
    (row,) = rank["peaks"]["DRAM"]["live"]
    program = TTNN.replace("{path!r}", repr(str(path))).replace("{peak}", str(row["padded_bytes"]))
    output = run(pytester, program, head="").stdout.str()
    assert outcomes(output) == {
        "test_over": "FAILED",
        "test_within": "PASSED",
        "test_grows": "FAILED",
        "test_numbers": "PASSED",
        "test_ended": "PASSED",
    }
    text = failure(output, "test_over")
    assert text.startswith("allocated 64.0 KiB on ttnn, limit 1.0 KiB\n\nlive on ttnn at the peak:\n")
    assert re.search(r"64\.0 KiB +1 +unknown +ttnn\.empty \(tensor 1\)", text)
    assert re.search(r"64\.0 KiB +1 +unknown +ttnn\.empty \(tensor 1\)", failure(output, "test_grows"))


class StandInAllocator:
    """Replaces the allocator of a GPU: it makes the allocations of a snapshot from an H200."""

    has_history = True

    def __init__(self, mode: Mode, name: str) -> None:
        self._history = History(mode, "cuda")
        self._snapshot = snapshot_of(name)
        self._facts = FACTS[name]
        now = time.time_ns() // 1000
        for at, entry in enumerate(self._snapshot["device_traces"][0]):
            entry["time_us"] = now + at

    def drain(self) -> None:
        self._history.drain(self._snapshot, [0], end_of(self._snapshot))

    close = drain

    def sample(self) -> None:
        """Does nothing."""

    def figures(self) -> dict[str, dict[str, int]]:
        counters = {"allocated": self._facts["allocated"], "peak": self._facts["peak_allocated"]}
        return {
            "cuda:0": {**dict.fromkeys(("active", "reserved", "requested", "allocations"), 0), **counters}
        }


@pytest.mark.parametrize("may_shrink", [False, True])
def test_gpus_are_measured_by_their_history(tmp_path: Path, may_shrink: bool) -> None:
    memory = TorchMemory(str(tmp_path))
    memory.begin([])
    name = "train_gpt2_30m"
    memory.tracker._allocators.append(StandInAllocator(memory._mode, name))
    leave_to_allocators(memory._mode)
    time.sleep(0.1)
    memory.end_call(passed=True, may_shrink=may_shrink)
    assert memory.is_pending == may_shrink
    peak = FACTS[name]["peak_allocated"]
    rows = memory.peak_rows("cuda:0")
    assert sum(row.size for row in rows) == peak
    assert not any(row.is_older for row in rows)
    assert re.search(r"models\.py:\d+ models\.forward$", held_text(rows, ""), re.MULTILINE)
    memory.end()
    # The test only leaves the workspaces of cuBLAS.
    assert FACTS[name]["allocated"] > 0
    assert memory.usages == [DeviceUsage("cuda:0", peak, peak, 0)]
    assert memory.growth_rows("cuda:0") == []
    assert not memory.tracks_cpu


GPU = """
@pytest.fixture(scope="session")
def model():
    return torch.nn.Linear(4096, 4096, device="cuda")

@pytest.mark.limit_growth("1 MiB")
def test_warm_up(model):
    model(torch.ones(64, 4096, device="cuda"))

@pytest.mark.limit_device_memory("16 MiB")
def test_over(model):
    first = torch.ones(32 * MIB, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_device_memory("16 MiB", device="cuda:0")
def test_within_after_over(model):
    first = torch.ones(8 * MIB, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_growth("1 MiB")
def test_grows():
    kept.append(torch.ones(2 * MIB, dtype=torch.uint8, device="cuda"))

@pytest.mark.limit_device_memory("1 GiB", device="cpu")
def test_host():
    mib(1)

def test_numbers(device_memory):
    first = torch.ones(4 * MIB, dtype=torch.uint8, device="cuda")
    del first
    assert (device_memory.peak(), device_memory.current()) == (4 * MIB, 0)
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_is_measured(pytester: pytest.Pytester) -> None:
    output = run(pytester, GPU, "--ttmem").stdout.str()
    assert outcomes(output) == {
        "test_warm_up": "PASSED",
        "test_over": "FAILED",
        "test_within_after_over": "PASSED",
        "test_grows": "FAILED",
        "test_host": "FAILED",
        "test_numbers": "PASSED",
    }
    text = failure(output, "test_over")
    assert text.startswith("allocated 32.0 MiB on cuda:0, limit 16.0 MiB\nallocated before the test: ")
    assert re.search(r"32\.0 MiB +1 +\w+ +test_inner\.py:\d+", text)
    assert re.search(r"2\.0 MiB +1 +\w+ +test_inner\.py:\d+", failure(output, "test_grows"))
    assert "CPU tensors are not tracked after the first CUDA call" in failure(output, "test_host")


def test_the_examples_of_the_page_are_true(pytester: pytest.Pytester) -> None:
    text = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n\$ pytest --ttmem\n…\n(.*?)…\n^```$", text, re.MULTILINE | re.DOTALL)
    model, layer = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    pytester.makepyfile(test_model=model)
    (pytester.path / "other").mkdir()
    (pytester.path / "other" / "test_layer.py").write_text(layer)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--ttmem")
    result.assert_outcomes(passed=1, failed=2)
    # Lines of other tests are left out, and lines of separators and paths have other lengths.
    # Two nodes have saved the same tensors, and either may be named.
    held = [line for line in result.outlines if "list `losses` of module `test_model`" in line]
    assert any("saved by" in line for line in held)
    printed = [comparable(line) for line in result.outlines if "test_layer" not in line and line not in held]
    start = next(at for at, line in enumerate(printed) if line == "_ test_forward _")
    expected = [comparable(line) for line in shown.splitlines() if "list `losses`" not in line]
    assert printed[start : start + len(expected)] == expected


def comparable(line: str) -> str:
    return re.sub(r"recording: .*", "recording", re.sub(r"([_=])\1{2,}", r"\1", line))


def test_limits_apply_to_accelerators_first() -> None:
    cpu, gpu, idle = (
        DeviceUsage("cpu", 8, 8, 0),
        DeviceUsage("cuda:0", 4, 4, 0),
        DeviceUsage("cuda:1", 0, 0, 0),
    )
    assert _chosen([cpu, gpu, idle], None) == [gpu]
    assert _chosen([cpu, idle], None) == [cpu, idle]
    assert _chosen([cpu, gpu, idle], "cuda") == [gpu, idle]
    assert _chosen([cpu, gpu, idle], "cuda:1") == [idle]
    assert _chosen([cpu, gpu, idle], "cpu") == [cpu]
    assert _chosen([cpu], "ttnn") == []


def row(size: int, **options: Any) -> Row:
    found = {"class_": "unknown", "name": None, "op": None, "line": None, "module": None, "is_older": False}
    return Row(size, **{**found, **options})


def test_similar_tensors_are_one_row() -> None:
    layers = [
        row(MIB, class_="activation", op="aten::mm", line="/p/m.py:3", module=f"blocks.{at}.mlp")
        for at in (0, 1)
    ]
    others = [row(MIB // 2, line=f"/q/n.py:{at}") for at in range(12)]
    assert held_text([*others, *layers, row(100)], "/p").splitlines()[:3] == [
        "       size  tensors  class       allocated by",
        "    2.0 MiB        2  activation  m.py:3 aten::mm in blocks.*.mlp",
        "  512.0 KiB        1  unknown     /q/n.py:0",
    ]
    lines = held_text([*others, *layers, row(100)], "/p").splitlines()
    assert len(lines) == 12
    assert lines[-1] == "    1.5 MiB        4              others"


def test_the_entry_point_is_that_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nttmem = "ttmem.pytest_plugin"\n' in text
    assert "ttmem.pytest_plugin" in sys.modules
