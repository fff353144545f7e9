"""Programs with several processes: ranks of `torchrun`; children by `spawn`, `fork` and `subprocess`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ttmem
from ttmem import _children, _launch

if TYPE_CHECKING:
    from pathlib import Path

TRACK = ["-m", "ttmem", "track", "--output-dir", "profiles"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

# Trains with DDP and FSDP2; then rank 1 fails.
TRAINS = """
    import sys, torch, torch.distributed as dist
    from torch import nn
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    def train(wrap):
        torch.manual_seed(rank)
        layers = nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 32)
        model = wrap(nn.Sequential(*layers))
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            loss = model(torch.randn(16 + 240 * rank, 32)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item().hex()

    def sharded(model):
        from torch.distributed.fsdp import fully_shard
        return fully_shard(model)

    found = train(nn.parallel.DistributedDataParallel)
    if "fsdp" in sys.argv:
        found += " " + train(sharded)
    with open(f"result.{rank}", "w") as file:
        print(found, file=file)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 1 and "fails" in sys.argv:
        raise ValueError("rank 1 cannot continue")
"""
HAS_FSDP2 = hasattr(__import__("torch.distributed.fsdp").distributed.fsdp, "fully_shard")


def script(folder: Path, text: str, name: str = "train.py") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text))
    return name


def ran(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder, in a new interpreter: children inherit its environment and its arguments."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TTMEM_")}
    home = {"TTMEM_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=kept | home,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def ours(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("ttmem: ")]


def summary(*paths: Path | str, folder: Path) -> dict[str, Any]:
    done = ran(folder, "-m", "ttmem", "summary", "--json", *map(str, paths))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


needs_start = pytest.mark.skipif(
    not _children.can_follow(), reason="ttmem-start.pth is not installed in site-packages"
)


@needs_start
def test_ranks_of_a_launcher(tmp_path: Path) -> None:
    """The program behaves the same, and every rank has a recording that says which rank it is."""
    words = ["fsdp"] * HAS_FSDP2 + ["fails"]
    results = []
    for name, track in (("plain", []), ("tracked", TRACK)):
        folder = tmp_path / name
        launched = [*track, *TORCHRUN, script(folder, TRAINS), *words]
        done = ran(folder, *launched)
        written = [(folder / f"result.{rank}").read_text() for rank in range(2)]
        error = [line for line in done.stderr.splitlines() if "rank 1 cannot continue" in line]
        results.append((done.returncode, done.stdout, written, error))
    assert results[0] == results[1]
    assert results[0][0] == 1
    assert results[0][3]
    folder, profiles = tmp_path / "tracked", tmp_path / "tracked" / "profiles"
    told = ours(done.stderr)
    assert told == [f"ttmem: 2 recordings in {profiles}; run `ttmem summary {profiles}`"]
    names = sorted(path.name.rsplit("_", 2)[0] for path in profiles.glob("*.ttmem"))
    assert names == ["memory_profile_rank0", "memory_profile_rank1"]
    found = summary("profiles", folder=folder)
    # The rank with the larger batch is first.
    assert [rank["rank"] for rank in found["ranks"]] == ["1", "0"]
    for rank in found["ranks"]:
        launch = rank["launch"]
        assert launch["argv"] == ["train.py", *words]
        assert launch["world_size"] == 2
        assert launch["rank"] == launch["local_rank"] == int(rank["rank"])
        assert launch["host"] == os.uname().nodename
        assert launch["torch"] == torch.__version__
        assert launch["python"] == ".".join(map(str, sys.version_info[:3]))
    assert len({rank["launch"]["pid"] for rank in found["ranks"]}) == 2
    assert found["ranks"][0]["ended_by"].startswith("The program ended with ValueError")
    comparison = found["comparison"]
    assert comparison["sentence"].startswith("Rank 1 has the highest peak, ")
    assert " more than rank 0: " in comparison["sentence"]
    assert "activations +" in comparison["sentence"]
    assert (comparison["rank"], comparison["median_rank"], comparison["missing"]) == ("1", "0", None)
    # The text, Markdown and the report have the same sentence.
    for option in ([], ["--markdown"]):
        done = ran(folder, "-m", "ttmem", "summary", *option, "profiles")
        assert comparison["sentence"] in " ".join(done.stdout.split())
    done = ran(folder, "-m", "ttmem", "report", "profiles", "-o", "page")
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "page" / "profiles_summary.json").read_text())
    assert report["comparison"]["sentence"] == comparison["sentence"]
    for merged, single in zip(report["ranks"], found["ranks"], strict=True):
        same = ("rank", "launch", "pools", "peak", "ran", "suggestions", "operations")
        assert {key: merged[key] for key in same} == {key: single[key] for key in same}
    # One rank alone.
    (path,) = profiles.glob("memory_profile_rank0_*.ttmem")
    assert "comparison" not in summary(path, folder=folder)
    path.unlink()
    (path,) = profiles.glob("memory_profile_rank1_*.ttmem")
    assert summary("profiles", folder=folder)["ranks"][0]["file"].endswith(path.name)


def test_ranks_that_track_themselves(tmp_path: Path) -> None:
    done = ran(tmp_path, *TORCHRUN, *TRACK, script(tmp_path, TRAINS))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(ours(done.stderr)) == 2
    found = summary("profiles", folder=tmp_path)
    assert [rank["rank"] for rank in found["ranks"]] == ["1", "0"]
    profile = json.loads(next((tmp_path / "profiles").glob("memory_profile_rank1_*.json")).read_text())
    assert profile["metadata"]["launch"] == found["ranks"][0]["launch"]


SPAWNS = """
    import multiprocessing, subprocess, sys, torch
    from torch.utils.data import DataLoader, TensorDataset

    def work(number):
        torch.ones(number << 18)
        print("worked", number, flush=True)
        sys.exit(3)

    if __name__ == "__main__":
        method = sys.argv[1]
        context = multiprocessing.get_context(method)
        child = context.Process(target=work, args=(2,))
        child.start()
        child.join()
        print(child.exitcode)
        data = TensorDataset(torch.arange(64.0))
        loader = DataLoader(data, batch_size=8, num_workers=1, multiprocessing_context=method)
        print(sum(batch.sum() for (batch,) in loader))
        print(torch.ones(4 << 18).sum())
        if method == "spawn":
            code = "import torch; torch.ones(8 << 18); raise SystemExit(5)"
            print(subprocess.run([sys.executable, "-c", code]).returncode)
"""


PRINTED = "worked 2\n3\ntensor(2016.)\ntensor(1048576.)\n"


@needs_start
def test_children_by_spawn_are_tracked(tmp_path: Path) -> None:
    """Also those by `subprocess`. Workers of data loaders are not."""
    done = ran(tmp_path, *TRACK, script(tmp_path, SPAWNS), "spawn")
    assert (done.returncode, done.stdout) == (0, f"{PRINTED}5\n"), done.stderr
    assert [line for line in done.stderr.splitlines() if line not in ours(done.stderr)] == []
    paths = [line.removeprefix("ttmem: ") for line in ours(done.stderr)]
    assert sorted(paths) == sorted(map(str, (tmp_path / "profiles").glob("*.ttmem")))
    peaks = [ttmem.open(path).summary()["ranks"][0]["pools"]["cpu"]["peak_total"] >> 20 for path in paths]
    # In the order in which they ended.
    assert peaks == [2, 8, 4]
    warnings = [ttmem.open(path).summary()["source"]["warnings"] for path in paths]
    assert warnings == [[], [], []]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")
def test_children_by_fork_are_counted(tmp_path: Path) -> None:
    done = ran(tmp_path, *TRACK, script(tmp_path, SPAWNS), "fork")
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr
    (path,) = (tmp_path / "profiles").glob("*.ttmem")
    message = "1 child process was forked and not tracked; children of the start method `spawn` are tracked"
    assert done.stderr.splitlines() == [f"ttmem: {path}", f"ttmem: {message}"]
    warnings = ttmem.open(path).summary()["source"]["warnings"]
    assert [warning["message"] for warning in warnings] == [message]


def test_a_launcher_without_the_start_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttmem import _track

    monkeypatch.setattr(_track, "can_follow", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert _track.main(["torchrun", "train.py"]) == 2
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("rank", "size", "expected"),
    [("3", "4", 3), ("0", "1", None), ("", "4", None), ("x", "4", None), ("3", "", None), ("-1", "4", None)],
)
def test_a_rank_is_one_of_several(
    rank: str, size: str, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    assert _launch.rank() == expected


def test_a_process_outside_torchrun_has_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["x.py", "\udc80", "y" * 9000])
    tracker = ttmem.initialize_memory_tracker(tmp_path)
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    (rank,) = ttmem.open(tracker.recording).summary()["ranks"]
    launch = rank["launch"]
    assert rank["rank"] is None
    assert (launch["rank"], launch["local_rank"], launch["world_size"]) == (None, None, None)
    assert (launch["pid"], launch["argv"]) == (os.getpid(), ["x.py", "?", "y" * 4096 + "…"])


def test_a_driver_has_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    (tmp_path / "version").write_text(line)
    real = open

    def opened(path: str, *args: Any, **kwargs: Any) -> Any:
        if path.startswith("/proc/driver/"):
            return real(tmp_path / "version", *args, **kwargs)
        raise FileNotFoundError(path)

    monkeypatch.setattr("builtins.open", opened)
    assert _launch._driver("nvidia") == "580.65.06"
