"""Builds the release artifacts into target/artifacts: `make dist`.

- ttmem-VERSION-TARGET.tar.gz: the commands, manual pages and completions, to be unpacked into a prefix
- ttmem-c-VERSION-TARGET.tar.gz: the C and C++ tracker, likewise
- the wheel and the sdist of the Python package
- SHA256SUMS-TARGET

On Linux, Zig links against glibc 2.28; on macOS, the system's linker is used. Artifacts are for the current
platform; the release workflow runs this on every platform.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import notices
import wheels

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "artifacts"
TOOLS = ROOT / "target" / "venv-dist"
REPOSITORY = "https://github.com/ttmem/ttmem/blob/main"
GLIBC = "2.28"
MACOS = "11.0"
CARGO = os.environ.get("CARGO", "cargo")
COMPANIONS = ("ttmem-export", "ttmem-mcp")  # Programs that `ttmem` runs from its own folder.
SHELLS = {
    "bash": "share/bash-completion/completions/ttmem",
    "fish": "share/fish/vendor_completions.d/ttmem.fish",
    "zsh": "share/zsh/site-functions/_ttmem",
}


def run(*command: str | Path) -> None:
    """Runs a command in the repository root, with the build tools first in the PATH."""
    print("+", *command, flush=True)
    subprocess.run(command, cwd=ROOT, env=environment(), check=True)


def output(*command: str | Path) -> str:
    """Returns the output of a command."""
    done = subprocess.run(command, cwd=ROOT, env=environment(), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def environment() -> dict[str, str]:
    """Returns the environment for commands."""
    path = f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"MACOSX_DEPLOYMENT_TARGET": MACOS} | os.environ | {"PATH": path}


def install_tools() -> None:
    """Creates the virtual environment with the build tools, unless it is up to date."""
    wanted = (ROOT / "packaging" / "requirements.txt").read_text() + sys.version
    installed = TOOLS / "installed.txt"
    if installed.is_file() and installed.read_text() == wanted:
        return
    venv.create(TOOLS, clear=True, with_pip=True)
    run(TOOLS / "bin" / "pip", "install", "--quiet", "-r", "packaging/requirements.txt")
    installed.write_text(wanted)


def build(target: str, package: str, *what: str) -> Path:
    """Builds a package with the profile `dist`; returns the output folder."""
    args = ["--locked", "--profile", "dist", "--package", package, *what]
    if "linux" in target:
        run("cargo-zigbuild", "zigbuild", *args, "--target", f"{target}.{GLIBC}")
    else:
        run(CARGO, "build", *args, "--target", target)
    return ROOT / "target" / target / "dist"


def copy(source: Path, to: Path, mode: int = 0o644) -> None:
    """Copies a file; creates its folder."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)
    to.chmod(mode)


def fill(template: Path, to: Path, version: str) -> None:
    """Writes a template, replacing `@VERSION@`."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(template.read_text().replace("@VERSION@", version))


def document(source: Path, to: Path) -> None:
    """Copies a Markdown file. Relative links become URLs, because the archive lacks the linked files."""

    def absolute(link: re.Match[str]) -> str:
        path = os.path.relpath(source.parent / link[1], ROOT)
        return f"]({REPOSITORY}/{path}{link[2] or ''})"

    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(re.sub(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)", absolute, source.read_text()))


def documents(folder: Path, readme: Path, licenses: str) -> None:
    """Adds the README and the licenses."""
    document(readme, folder / "README.md")
    copy(ROOT / "LICENSE", folder / "LICENSE")
    (folder / notices.NAME).write_text(licenses)


def commands(target: str, version: str) -> Path:
    """Builds the archive of the commands."""
    prefix = empty(f"ttmem-{version}-{target}")
    built = build(target, "ttmem-cli", "--bins")
    for name in ("ttmem", "tt-memory-profiler"):
        copy(built / name, prefix / "bin" / name, 0o755)
    for name in COMPANIONS:
        copy(build(target, name, "--bins") / name, prefix / "bin" / name, 0o755)
    ttmem = prefix / "bin" / "ttmem"
    run(ttmem, "man", prefix / "share" / "man" / "man1")
    for shell, place in SHELLS.items():
        file = prefix / place
        file.parent.mkdir(parents=True)
        file.write_text(output(ttmem, "completions", shell))
    licenses = notices.collect(("ttmem-cli", *COMPANIONS), target)
    documents(prefix / "share" / "doc" / "ttmem", ROOT / "README.md", licenses)
    document(ROOT / "CHANGELOG.md", prefix / "share" / "doc" / "ttmem" / "CHANGELOG.md")
    return archive(prefix)


def c_library(target: str, version: str) -> Path:
    """Builds the archive of the C library."""
    prefix = empty(f"ttmem-c-{version}-{target}")
    built = build(target, "ttmem-c", "--lib")
    shared = "libttmem.so" if "linux" in target else "libttmem.dylib"
    copy(built / "libttmem.a", prefix / "lib" / "libttmem.a")
    copy(built / shared, prefix / "lib" / shared, 0o755)
    strip_debug(prefix / "lib" / "libttmem.a", target)
    for header in ("ttmem.h", "ttmem.hpp"):
        copy(ROOT / "include" / header, prefix / "include" / header)
    cmake = prefix / "lib" / "cmake" / "ttmem"
    copy(ROOT / "cmake" / "ttmem-config.cmake", cmake / "ttmem-config.cmake")
    fill(ROOT / "cmake" / "ttmem-config-version.cmake.in", cmake / "ttmem-config-version.cmake", version)
    fill(ROOT / "packaging" / "ttmem.pc.in", prefix / "lib" / "pkgconfig" / "ttmem.pc", version)
    documents(
        prefix / "share" / "doc" / "ttmem-c",
        ROOT / "docs" / "tracker.md",
        notices.collect(("ttmem-c",), target),
    )
    return archive(prefix)


def strip_debug(library: Path, target: str) -> None:
    """Removes debug information from a static library: the profile only strips linked files."""
    run("strip", "-S" if "apple" in target else "--strip-debug", library)


def python_package(target: str, version: str) -> tuple[Path, Path]:
    """Builds the wheel, for Python 3.10 and later, and the sdist."""
    args = ["--locked", "--profile", "dist", "--target", target, "--out", str(OUT)]
    if "linux" in target:
        args += ["--zig", "--compatibility", f"manylinux_{GLIBC.replace('.', '_')}"]
    run("maturin", "build", *args)
    run("maturin", "sdist", "--out", OUT)
    (wheel,) = OUT.glob("ttmem-*.whl")
    wheels.add_license(wheel, notices.NAME, notices.collect(("ttmem-py",), target))
    return wheel, OUT / f"ttmem-{version}.tar.gz"


def empty(name: str) -> Path:
    """Creates an empty folder in the output."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def archive(folder: Path) -> Path:
    """Packs a folder and removes it. Times and owners are reproducible.

    Only files are packed: an entry for `bin` would replace a symbolic link of that name in the user's prefix,
    and change the permissions of an existing folder.
    """
    time = int(output("git", "log", "-1", "--format=%ct"))

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = time
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        return entry

    path = folder.with_name(f"{folder.name}.tar.gz")
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for packed_file in sorted(found for found in folder.rglob("*") if found.is_file()):
            tar.add(packed_file, packed_file.relative_to(folder.parent), filter=plain)
    shutil.rmtree(folder)
    return path


def main() -> None:
    """Builds everything and prints sizes and checksums."""
    host = next(line for line in output("rustc", "-vV").splitlines() if line.startswith("host: "))
    target = host.removeprefix("host: ")
    version = output(CARGO, "pkgid", "--locked", "--package", "ttmem-cli").strip().rpartition("#")[2]
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "VERSION").write_text(version)
    install_tools()
    artifacts = [commands(target, version), c_library(target, version), *python_package(target, version)]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in artifacts]
    (OUT / f"SHA256SUMS-{target}").write_text("".join(f"{line}\n" for line in sums))
    print()
    for path, line in zip(artifacts, sums, strict=True):
        print(f"{path.stat().st_size / (1 << 20):6.2f} MiB  {line}")


if __name__ == "__main__":
    main()
