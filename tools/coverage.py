"""Line coverage of the Rust tests: builds them instrumented into target/coverage, runs them, prints a table by crate.

    python3 tools/coverage.py [--files] [FILTER…]

`--files` also lists every file, least covered first. FILTER goes to `cargo test`. The LLVM tools must have the
compiler's LLVM version: install them with `rustup component add llvm-tools`; otherwise, this installs them from apt.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "target" / "coverage"
# The library. The other crates are front ends, whose tests run them as programs.
LIBRARY = ("ttmem", "ttmem-model", "ttmem-query", "ttmem-read", "ttmem-record", "ttmem-report")
# Test helpers, or tested from Python.
EXCLUDED = ("ttmem-testkit", "ttmem-py")


def main(arguments: list[str]) -> None:
    """Builds and runs the tests, and prints the report."""
    names = [argument for argument in arguments if argument != "--files"]
    profdata, cov = tool("llvm-profdata"), tool("llvm-cov")
    shutil.rmtree(TARGET / "counters", ignore_errors=True)
    environment = os.environ | {
        "CARGO_INCREMENTAL": "0",
        "CARGO_TARGET_DIR": str(TARGET),
        "LLVM_PROFILE_FILE": str(TARGET / "counters" / "%p-%m.profraw"),
        "RUSTFLAGS": "-C instrument-coverage",
    }
    build = ["cargo", "build", "--workspace", "--all-targets", "--locked", "--message-format=json"]
    messages = subprocess.run(build, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    programs = sorted(set(executables(messages.stdout)))
    test = ["cargo", "test", "--workspace", "--locked", "--quiet", "--lib", "--bins", "--tests", *names]
    subprocess.run(test, cwd=ROOT, env=environment, check=True)
    merged = TARGET / "merged.profdata"
    counters = [str(path) for path in (TARGET / "counters").glob("*.profraw")]
    listed = TARGET / "counters.txt"
    listed.write_text("\n".join(counters), encoding="utf-8")
    # Tests kill programs, which leaves empty counter files: they are skipped with a warning.
    merge = [profdata, "merge", "--sparse", "--failure-mode=all", f"--input-files={listed}", "-o", merged]
    subprocess.run(merge, check=True)
    objects = [part for program in programs for part in ("--object", program)]
    export = [cov, "export", "--format=lcov", f"--instr-profile={merged}", *objects]
    exported = subprocess.run(export, check=True, stdout=subprocess.PIPE, text=True)
    report(by_file(exported.stdout), with_files="--files" in arguments)


def tool(name: str) -> str:
    """Finds a tool of the compiler's LLVM version, or installs it from apt."""
    version = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"LLVM version: (\d+)", version)
    host = re.search(r"host: (\S+)", version)
    if not found or not host:
        sys.exit(f"coverage: 'rustc -vV' printed no LLVM version: {version}")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True)
    own = Path(sysroot.stdout.strip(), "lib", "rustlib", host[1], "bin", name)
    if own.exists():
        return str(own)
    packaged = f"{name}-{found[1]}"
    if not shutil.which(packaged):
        subprocess.run(["apt-get", "install", "-y", "-qq", f"llvm-{found[1]}"], check=False)
    if not shutil.which(packaged):
        sys.exit(f"coverage: {packaged} is not installed; run 'rustup component add llvm-tools'")
    return packaged


def executables(messages: str) -> list[str]:
    """Returns the programs that cargo built: tests, and the commands that tests run."""
    lines = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    built = (line.get("executable") for line in lines if line["reason"] == "compiler-artifact")
    return [program for program in built if program]


def by_file(lcov: str) -> dict[Path, tuple[int, int]]:
    """Returns the number of lines of each file, and of those that tests ran, without test modules."""
    files: dict[Path, tuple[int, int]] = {}
    for record in lcov.split("end_of_record\n"):
        name = re.search(r"^SF:(.+)$", record, re.MULTILINE)
        if not name or not Path(name[1]).is_relative_to(ROOT / "crates"):
            continue
        path = Path(name[1])
        source = path.read_text(encoding="utf-8")
        tests = re.search(r"^#\[cfg\(test\)\]\s*mod \w+ \{", source, re.MULTILINE)
        end = source.count("\n", 0, tests.start()) if tests else source.count("\n")
        lines = [row for row in re.findall(r"^DA:(\d+),(\d+)", record, re.MULTILINE) if int(row[0]) <= end]
        files[path] = len(lines), sum(count != "0" for _, count in lines)
    return files


def report(files: dict[Path, tuple[int, int]], *, with_files: bool) -> None:
    """Prints the coverage by crate, and with `--files` by file."""
    crates: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    rows = []
    for path, (lines, covered) in files.items():
        crate, folder = path.relative_to(ROOT / "crates").parts[:2]
        if crate in EXCLUDED or folder != "src" or path.stem == "tests" or "tests" in path.parts:
            continue
        crates[crate][0] += lines
        crates[crate][1] += covered
        rows.append((covered / max(lines, 1), lines - covered, str(path.relative_to(ROOT))))
    if with_files:
        for share, missing, path in sorted(rows):
            print(f"{share:7.1%}  {missing:5} not run  {path}")
    print("| crate | lines | run by tests |\n|---|---:|---:|")
    for crate, (lines, covered) in sorted(crates.items()):
        print(f"| {crate} | {lines} | {covered / lines:.1%} |")
    for label, names in (("the library", LIBRARY), ("all", tuple(crates))):
        lines, covered = (sum(crates[name][part] for name in names if name in crates) for part in (0, 1))
        print(f"| **{label}** | {lines} | **{covered / max(lines, 1):.1%}** |")


if __name__ == "__main__":
    main(sys.argv[1:])
