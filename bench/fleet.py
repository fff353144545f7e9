"""Measures a fleet: the size of a dataset of thousands of ranks, the export, and the time of each question.

    python bench/fleet.py [--runs 8] [--ranks 512] [--tensors 2000] [--folder DIR]

Makes a log for each rank, whose operations and locations differ from those of all other ranks (with `--alike`,
only from those of other runs), converts the logs to profiles, exports the profiles, and asks DuckDB each
question with the command. For comparison, a loop in Python reads the summaries of all ranks as JSON. Prints
tables in Markdown. Needs `make python` and `cargo build --profile dist --locked --workspace --bins`; 4,096
ranks take several minutes and a few GB of disk.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb

import ttmem.fleet
from ttmem.fleet._questions import NAMES, WITH_LABELS

if TYPE_CHECKING:
    from collections.abc import Callable

BIN = Path(__file__).resolve().parent.parent / "target/dist"
ROUNDS = 3
LIMIT_S = 2
MB = 1e6


def call(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs a command that must succeed."""
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)


def size(folder: Path) -> int:
    """The bytes of the files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def cpu_s() -> float:
    """The processor time of the commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make_rank(folder: Path, run: int, rank: int, options: argparse.Namespace) -> None:
    """Makes the profile and the summary of a rank."""
    name = f"run{run}-rank{rank}"
    summary = folder / "summaries" / f"{name}.json"
    if summary.exists():
        return
    log, report = folder / f"{name}.log", folder / name
    seed = run if options.alike else run * options.ranks + rank
    # Every second operation allocates.
    ops = 2 * options.tensors
    call(BIN / "make-log", "distinct", "--ops", ops, "--seed", seed, "--modules", "none", "-o", log)
    call(BIN / "ttmem", "report", log, "-o", report, "--name", name)
    (report / f"{name}.ttmem").rename(folder / "profiles" / f"run{run}" / f"{name}.ttmem")
    (report / f"{name}_summary.json").rename(summary)
    shutil.rmtree(report)
    log.unlink()


def make(folder: Path, options: argparse.Namespace) -> None:
    """Makes the profiles and the summaries of all ranks."""
    (folder / "summaries").mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        for run in range(options.runs):
            (folder / "profiles" / f"run{run}").mkdir(parents=True, exist_ok=True)
            list(pool.map(lambda rank, run=run: make_rank(folder, run, rank, options), range(options.ranks)))


def export(folder: Path, runs: int) -> tuple[float, float]:
    """Exports all runs, one after the other. Returns the wall-clock time and the processor time."""
    wall, cpu = time.perf_counter(), cpu_s()
    for run in range(runs):
        profiles = sorted((folder / "profiles" / f"run{run}").iterdir())
        labels = ("--label", f"commit=c{run}", "--label", "model=vit")
        call(BIN / "ttmem", "export", *profiles, "--run", f"nightly-{run}", *labels, "-o", folder / "fleet")
    return time.perf_counter() - wall, cpu_s() - cpu


def ask(folder: Path, question: str, runs: int) -> list[float]:
    """Asks a question through the command. Returns the seconds of each round."""
    values = ("--before", "c0", "--after", f"c{runs - 1}") if question in WITH_LABELS else ()
    all_s = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call(sys.executable, "-m", "ttmem", "fleet", question, folder / "fleet", *values, "--json")
        all_s.append(time.perf_counter() - began)
    return all_s


def loop_over_summaries(folder: Path) -> tuple[float, dict[str, float]]:
    """Reads all summaries. Returns the time for reading, and that for some of the questions after it."""
    began = time.perf_counter()
    summaries: dict[str, dict[str, Any]] = {}
    for file in (folder / "summaries").iterdir():
        summaries[file.stem] = json.loads(file.read_bytes())["ranks"][0]
    read_s, questions = time.perf_counter() - began, {}

    def timed(name: str, answer: Callable[[], object]) -> None:
        began = time.perf_counter()
        answer()
        questions[name] = time.perf_counter() - began

    def closest() -> object:
        pools = {name: rank["pools"]["DRAM"] for name, rank in summaries.items()}
        shares = {name: pool["peak_per_bank"] / pool["capacity_per_bank"] for name, pool in pools.items()}
        return sorted(shares.items(), key=lambda share: -share[1])[:20]

    def tensors() -> object:
        live = [
            (tensor["per_bank"], name) for name, rank in summaries.items() for tensor in rank["peak"]["live"]
        ]
        return sorted(live, reverse=True)[:20]

    timed("closest", closest)
    timed("tensors", tensors)
    return read_s, questions


def main() -> None:
    """Makes the fleet and prints the tables."""
    parser = argparse.ArgumentParser(description="Measures a fleet.")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=512, help="ranks of each run")
    parser.add_argument("--tensors", type=int, default=2000, help="tensors of each rank")
    parser.add_argument(
        "--alike", action="store_true", help="the ranks of a run are alike, as in data parallel training"
    )
    parser.add_argument("--folder", type=Path, help="keep the profiles here, and use those that exist")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measure(options.folder or Path(temporary), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Prints the tables."""
    make(folder, options)
    wall_s, used_s = export(folder, options.runs)
    ranks = options.runs * options.ranks
    tensors = ttmem.fleet.connect(folder / "fleet").execute("SELECT count(*) FROM tensors").fetchall()[0][0]
    profiles, fleet, summaries = (size(folder / name) for name in ("profiles", "fleet", "summaries"))
    print(f"{ranks:,} ranks, {tensors:,} tensors, duckdb {duckdb.__version__}\n")
    print("| | size | per rank | per tensor |\n|---|---:|---:|---:|")
    for name, found in (
        ("profiles (`.ttmem`)", profiles),
        ("dataset", fleet),
        ("summaries as JSON", summaries),
    ):
        print(f"| {name} | {found / MB:.0f} MB | {found / ranks / 1e3:.1f} kB | {found / tensors:.1f} B |")
    print(
        f"\nExport: {wall_s:.1f} s, {used_s:.1f} s of processor time: {ranks / used_s:.0f} ranks and "
        f"{tensors / used_s:,.0f} tensors per second and core, {profiles / MB / used_s:.1f} MB of profiles.\n"
    )
    read_s, loop = loop_over_summaries(folder)
    print("| question | `ttmem fleet` (median, slowest) | a loop in Python |\n|---|---:|---:|")
    slow = []
    for question in NAMES:
        all_s = ask(folder, question, options.runs)
        slow += [question] * (median(all_s) > LIMIT_S)
        by_loop = f"{read_s + loop[question]:.1f} s" if question in loop else ""
        print(f"| `{question}` | {median(all_s):.2f} s, {max(all_s):.2f} s | {by_loop} |")
    print(
        f"\nThe loop reads the summaries in {read_s:.1f} s, and answers in {max(loop.values()):.2f} s or less."
    )
    if slow:
        sys.exit(f"over {LIMIT_S} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
