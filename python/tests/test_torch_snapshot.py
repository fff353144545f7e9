"""Memory snapshots as Python writes them, of all protocols, compared with the allocator's counters."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ttmem

CORPUS = Path(__file__).parents[2] / "corpus" / "torch_snapshot"
FACTS = {fact["name"]: fact for fact in map(json.loads, (CORPUS / "facts.jsonl").read_text().splitlines())}


def snapshot_of(name: str) -> dict[str, Any]:
    with gzip.open(CORPUS / f"{name}.pickle.gz") as file:
        snapshot: dict[str, Any] = pickle.load(file)  # noqa: S301 - it is our own
    return snapshot


def summary_of(path: Path) -> dict[str, Any]:
    return ttmem.load(path).summary()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", FACTS)
def test_all_protocols_have_the_counters_of_the_allocator(name: str, protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot_of(name), protocol=protocol))
    pool = summary_of(path)["ranks"][0]["pools"]["cuda:0"]
    assert pool["final_total"] == FACTS[name]["allocated"]
    assert pool["allocator"]["reserved_peak_total"] == FACTS[name]["peak_reserved"]
    if name.startswith(("wrapped", "cpp")):
        assert pool["peak_total"] <= FACTS[name]["peak_allocated"]
    else:
        assert pool["peak_total"] == FACTS[name]["peak_allocated"]


def test_the_segments_of_memory_snapshot_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "segments.pickle"
    path.write_bytes(pickle.dumps(snapshot_of("oom_gpt2_124m")["segments"]))
    summary = summary_of(path)
    pool = summary["ranks"][0]["pools"]["cuda:0"]
    assert pool["final_total"] == FACTS["oom_gpt2_124m"]["allocated"]
    assert "has no history" in summary["source"]["warnings"][0]["message"]


def test_the_request_that_failed_and_what_was_live_are_known() -> None:
    rank = summary_of(CORPUS / "oom_gpt2_124m.pickle.gz")["ranks"][0]
    requested = 412_090_368
    assert rank["oom"]["requested_total"] == requested
    assert rank["peaks"]["cuda:0"]["allocated_per_bank"] == FACTS["oom_gpt2_124m"]["allocated"]
    assert rank["allocations"]["live"]["bytes"] == FACTS["oom_gpt2_124m"]["allocated"]


def test_nothing_of_a_pickle_is_executed(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    path = tmp_path / "hostile.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[Hostile()]]}))
    with pytest.raises(ttmem.Error, match="makes Python call code"):
        ttmem.load(path)
    assert not (tmp_path / "executed").exists()


def test_a_folder_has_a_snapshot_per_rank(tmp_path: Path) -> None:
    for rank, name in enumerate(["graph_expandable_pools", "train_gpt2_30m", "oom_gpt2_124m"]):
        (tmp_path / f"rank{rank}.pickle.gz").write_bytes((CORPUS / f"{name}.pickle.gz").read_bytes())
    command = [sys.executable, "-m", "ttmem", "summary", "--json", str(tmp_path)]
    summary = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    files = [Path(rank["file"]).name for rank in summary["ranks"]]
    # The rank that ran out of memory, then by peak.
    assert files == ["rank2.pickle.gz", "rank1.pickle.gz", "rank0.pickle.gz"]
