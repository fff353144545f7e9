"""Installs the artifacts of `make dist` as users do, and runs them: `make dist-test`.

dist_test.py              everything
dist_test.py --no-source  without the two installations that compile (the sdist, and `pip install -e .`)
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "artifacts"
LOG = ROOT / "corpus" / "tt_log" / "vae-decoder.log"
GLIBC = (2, 28)
PRIVATE = 0o700
# The only shared libraries that the artifacts may need: those of glibc, and gcc's unwinder.
LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")
PEAK = 'Peak DRAM before step 101, caused by step 100: ttnn.add at "subtract.3" in main, run 1'
OPEN = f"ttmem.load({str(LOG)!r})"
SUMMARY = f"import ttmem; print(ttmem.__version__, {OPEN}.format)"


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Runs a command with a minimal environment; returns its output."""
    print("+", *command, flush=True)
    names = ("CARGO_", "PIP_", "RUSTUP_", "SSL_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(names) or name in {"PATH", "HOME"}
    }
    env = kept | {"LC_ALL": "C.UTF-8"} | (env or {})
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def check(is_right: bool, problem: str) -> None:
    """Ends the test with a message unless `is_right`."""
    if not is_right:
        sys.exit(f"dist-test: {problem}")


def one(pattern: str) -> Path:
    """Returns the only artifact that matches a pattern."""
    found = sorted(OUT.glob(pattern))
    check(
        len(found) == 1,
        f"target/artifacts/{pattern}: expected one file, found {len(found)}; run `make dist` first",
    )
    return found[0]


def unpack(archive: Path, prefix: Path) -> None:
    """Unpacks an archive into a prefix with the command from docs/install.md."""
    prefix.mkdir(exist_ok=True)
    listed = run("tar", "tzf", archive, cwd=prefix).splitlines()
    top = archive.name.removesuffix(".tar.gz") + "/"
    check(all(name.startswith(top) for name in listed), f"{archive.name} has files outside its folder")
    run("tar", "xzf", archive, "--strip-components=1", "-C", prefix, cwd=prefix)


def check_elf(path: Path) -> None:
    """Checks which glibc version and which libraries a program or library needs."""
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        elf = ELFFile(file)
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        section = elf.get_section_by_name(".gnu.version_r")
        names = {version.name for _, versions in section.iter_versions() for version in versions}
    versions = {tuple(map(int, name[6:].split("."))) for name in names if re.fullmatch(r"GLIBC_[\d.]+", name)}
    newest = max(versions)
    check(newest <= GLIBC, f"{path.name} needs glibc {'.'.join(map(str, newest))}")
    others = {name for name in needed if not LIBRARIES.fullmatch(name)}
    check(not others, f"{path.name} needs {', '.join(sorted(others))}")
    print(f"{path.name}: glibc {'.'.join(map(str, newest))}, {', '.join(sorted(needed))}")


def test_commands(folder: Path, version: str, target: str) -> None:
    """Unpacks the archive into an empty prefix, and into one with existing links and permissions."""
    archive = one(f"ttmem-{version}-{target}.tar.gz")
    prefix = folder / "prefix"
    unpack(archive, prefix)
    used = folder / "used prefix"
    used.mkdir()
    (used / "share").mkdir()
    (used / "share").chmod(PRIVATE)
    (used / "tools").mkdir()
    (used / "bin").symlink_to("tools")
    unpack(archive, used)
    check((used / "bin").is_symlink() and (used / "tools" / "ttmem").is_file(), "the link bin was replaced")
    check((used / "share").stat().st_mode & 0o777 == PRIVATE, "the permissions of share have changed")
    links = re.findall(r"\]\((?!https?:|#)", (prefix / "share/doc/ttmem/README.md").read_text())
    check(not links, f"the README has {len(links)} relative links")
    path = os.pathsep.join([str(prefix / "bin"), "/usr/bin", "/bin"])
    env = {"PATH": path, "HOME": str(folder), "TTMEM_HOME": str(folder / "home")}

    def call(*command: str | Path) -> str:
        return run(*command, cwd=folder, env=env)

    check(call("ttmem", "--version") == f"ttmem {version}\n", "ttmem --version")
    check(call("tt-memory-profiler", "--version") == f"tt-memory-profiler {version}\n", "tt-memory-profiler")
    check(PEAK in call("ttmem", "summary", LOG), "ttmem summary")
    page = folder / call("ttmem", "report", LOG).strip()
    check(page.read_text().lower().startswith("<!doctype html>"), "ttmem report")
    check(call("ttmem", "mcp") == "", "ttmem mcp")
    call("ttmem", "export", "--quiet", LOG, "-o", "fleet")
    check(any((folder / "fleet" / "runs").rglob("*.parquet")), "ttmem export")
    pages = {page.name for page in (prefix / "share/man/man1").iterdir()}
    commands = call("ttmem", "--help").partition("Commands:")[2].partition("Options:")[0]
    verbs = re.findall(r"^  ([a-z-]+) ", commands, re.MULTILINE)
    wanted = {"ttmem.1"} | {f"ttmem-{verb}.1" for verb in verbs if verb != "help"}
    check("ttmem-summary.1" in wanted and wanted <= pages, f"manual pages are missing: {wanted - pages}")
    bash = prefix / "share/bash-completion/completions/ttmem"
    call("bash", "-n", bash)
    check("last-run" in bash.read_text(), "the completions for bash lack commands")
    documents = ("README.md", "CHANGELOG.md", "LICENSE", "THIRD-PARTY-LICENSES.txt")
    files = [f"share/doc/ttmem/{name}" for name in documents]
    for file in [*files, "share/fish/vendor_completions.d/ttmem.fish", "share/zsh/site-functions/_ttmem"]:
        check((prefix / file).stat().st_size > 0, f"{file} is empty")
    if "linux" in target:
        for program in ("ttmem", "tt-memory-profiler", "ttmem-export", "ttmem-mcp"):
            check_elf(prefix / "bin" / program)


def test_c_library(folder: Path, version: str, target: str) -> None:
    """Builds the examples against the C library, with CMake and with pkg-config."""
    prefix = folder / "prefix-c"
    unpack(one(f"ttmem-c-{version}-{target}.tar.gz"), prefix)
    shared = prefix / "lib" / ("libttmem.so" if "linux" in target else "libttmem.dylib")
    if "linux" in target:
        check_elf(shared)
    # Outside the repository: the example would find the CMake configuration there.
    shutil.copytree(ROOT / "examples", folder / "examples")
    expected = (ROOT / "examples" / "expected.txt").read_text()
    build = folder / "build"
    config = f"-Dttmem_DIR={prefix / 'lib/cmake/ttmem'}"
    run("cmake", "-S", folder / "examples/cpp", "-B", build, config, cwd=folder)
    run("cmake", "--build", build, cwd=folder)
    for program in ("train", "train_shared", "train_c"):
        check(run(build / program, cwd=folder) == expected, f"{program}: not as in examples/expected.txt")
    if not shutil.which("pkg-config"):
        print("pkg-config is not installed: skipping the test of ttmem.pc")
        return
    env = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    found = run("pkg-config", "--modversion", "ttmem", cwd=folder, env=env).strip()
    check(found == version, f"ttmem.pc has version {found}")
    flags = run("pkg-config", "--cflags", "--libs", "ttmem", cwd=folder, env=env).split()
    by_hand = folder / "train_by_hand"
    run("cc", folder / "examples/c/main.c", *flags, f"-Wl,-rpath,{prefix / 'lib'}", "-o", by_hand, cwd=folder)
    check(run(by_hand, cwd=folder) == expected, "train_by_hand: not as in examples/expected.txt")


def fresh(folder: Path, name: str) -> Path:
    """Creates a virtual environment; returns its `bin` folder."""
    venv.create(folder / name, with_pip=True)
    return folder / name / "bin"


def check_package(programs: Path, version: str, folder: Path) -> None:
    """Runs an installed Python package."""

    def call(*command: str | Path) -> str:
        return run(*command, cwd=folder, env={"TTMEM_HOME": str(folder / "home")})

    check(call(programs / "python", "-c", SUMMARY) == f"{version} tt_log\n", "import ttmem")
    started = "import sys; print('ttmem._start' in sys.modules)"
    env = {"TTMEM_TRACK": "1"}
    check(
        run(programs / "python", "-c", started, cwd=folder, env=env) == "True\n", "TTMEM_TRACK=1 is ignored"
    )
    check(call(programs / "ttmem", "--version") == f"ttmem {version}\n", "ttmem --version")
    check(PEAK in call(programs / "ttmem", "summary", LOG), "ttmem summary")
    check(PEAK in call(programs / "python", "-m", "ttmem", "summary", LOG), "python -m ttmem summary")
    check(call(programs / "ttmem", "mcp") == "", "ttmem mcp")
    check(call(programs / "ttmem", "export", "--quiet", LOG, "-o", "fleet") == "", "ttmem export")


def test_wheel(folder: Path, version: str, target: str) -> None:
    """Installs the wheel into a new virtual environment."""
    wheel = one(f"ttmem-{version}-*.whl")
    if "linux" in target:
        check("manylinux_2_28" in wheel.name, f"{wheel.name} is not tagged manylinux_2_28")
        shown = run(Path(sys.executable).with_name("auditwheel"), "show", wheel, cwd=folder)
        tag = re.search(r'platform tag: "manylinux_(\d+)_(\d+)_', shown.replace("\n", " "))
        check(tag is not None and (int(tag[1]), int(tag[2])) <= GLIBC, shown)
    programs = fresh(folder, "venv-wheel")
    run(programs / "pip", "install", "--quiet", "--no-index", wheel, cwd=folder)
    check_package(programs, version, folder)


def test_sdist(folder: Path, version: str) -> None:
    """Installs the sdist, which must build outside the repository."""
    programs = fresh(folder, "venv-sdist")
    env = {"CARGO_TARGET_DIR": str(folder / "cargo")}
    run(programs / "pip", "install", "--quiet", one(f"ttmem-{version}.tar.gz"), cwd=folder, env=env)
    check_package(programs, version, folder)


def test_editable(folder: Path, version: str) -> None:
    """Runs `pip install -e .` in a copy of the tree."""
    tree = folder / "tree"
    for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and os.path.lexists(ROOT / name):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    programs = fresh(folder, "venv-editable")
    env = {"CARGO_TARGET_DIR": str(folder / "cargo")}
    run(programs / "pip", "install", "--quiet", "-e", ".", cwd=tree, env=env)
    check_package(programs, version, folder)


def main() -> None:
    """Runs the tests."""
    parser = argparse.ArgumentParser(description="Install the artifacts of `make dist` and run them.")
    parser.add_argument("--no-source", action="store_true", help="skip the installations that compile")
    options = parser.parse_args()
    sums = one("SHA256SUMS-*")
    target = sums.name.removeprefix("SHA256SUMS-")
    version = one("VERSION").read_text()
    with tempfile.TemporaryDirectory(prefix="ttmem-dist-") as name:
        folder = Path(name).resolve()
        sha256 = ["sha256sum"] if shutil.which("sha256sum") else ["shasum", "-a", "256"]
        run(*sha256, "-c", sums, cwd=OUT)
        test_commands(folder, version, target)
        test_c_library(folder, version, target)
        test_wheel(folder, version, target)
        if not options.no_source:
            test_sdist(folder, version)
            test_editable(folder, version)
    print("dist-test: everything installs and runs")


if __name__ == "__main__":
    main()
