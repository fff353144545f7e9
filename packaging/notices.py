"""Collects the licenses of all crates that are linked into an artifact.

Most licenses require that their text accompanies binaries. `cargo tree` lists the linked crates. The texts
are in their sources, including those of bundled C libraries (SQLite is in the public domain).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
NAME = "THIRD-PARTY-LICENSES.txt"
FILES = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?", re.IGNORECASE)
# A crate with one of these and a LICENSE-MIT lets the user choose.
ALTERNATIVES = re.compile("apache|boost|unlicense|zlib", re.IGNORECASE)
RULE = "-" * 80


def collect(packages: tuple[str, ...], target: str) -> str:
    """Returns the licenses of the crates that are linked into any of the packages, each text once."""
    crates: dict[str, list[str]] = {}
    for crate in linked(packages, target):
        terms = crate["license"] or "see below"
        title = f"{crate['name']} {crate['version']} ({terms}) {crate['repository'] or ''}".rstrip()
        found = texts(crate)
        if not found and crate["source"]:
            found = [f"The package has no license file. Its manifest says {crate['license']}."]
        for text in found:
            crates.setdefault(text, []).append(title)
    parts = [
        "This software contains the following third-party components.\n",
        "The Rust standard library (MIT OR Apache-2.0) https://github.com/rust-lang/rust\n",
    ]
    parts += [f"{RULE}\n{chr(10).join(titles)}\n\n{text}\n" for text, titles in crates.items()]
    return "\n".join(parts)


def linked(packages: tuple[str, ...], target: str) -> list[dict[str, str]]:
    """Returns the metadata of the packages and the crates that they link, without procedural macros."""
    common = ["--locked", "--manifest-path", str(ROOT / "Cargo.toml")]
    edges = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    chosen = [word for package in packages for word in ("--package", package)]
    tree = output("tree", *common, *chosen, "--target", target, *edges)
    names = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    metadata = json.loads(output("metadata", *common, "--format-version", "1", "--filter-platform", target))
    return [crate for crate in metadata["packages"] if (crate["name"], f"v{crate['version']}") in names]


def texts(crate: dict[str, str]) -> list[str]:
    """Returns the license texts of a crate; only MIT if it is one of several choices.

    Our own crates are under the project's license, but their assets have others.
    """
    folder = Path(crate["manifest_path"]).parent
    files = [path for path in sorted(folder.rglob("*")) if FILES.fullmatch(path.name) and path.is_file()]
    if not crate["source"]:
        files = [path for path in files if path.is_relative_to(folder / "assets")]
    if any("MIT" in path.name.upper() for path in files):
        files = [path for path in files if not ALTERNATIVES.search(path.name)]
    found = [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]
    # Skips the GPL as an alternative: zstd is BSD or GPL. deny.toml rejects crates under the GPL alone.
    return [text for text in found if "GNU GENERAL PUBLIC LICENSE" not in text[:200].upper()]


def output(*args: str) -> str:
    """Returns the output of cargo."""
    return subprocess.run([CARGO, *args], check=True, stdout=subprocess.PIPE, text=True).stdout
