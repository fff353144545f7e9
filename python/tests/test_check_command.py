"""`Profile.check` and `ttmem check` on recordings of real programs, and the schema of JUnit's format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import torch
import xmlschema
from torch import nn

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parents[2] / "corpus"
SCHEMA = Path(__file__).with_name("junit-10.xsd")
HOSTILE = "<b> & \"q\" 'a' ]]> \x1b[31m \x00\x0b ::error::x%0A é \ufffe"


def trained(*, keeps: int = 0) -> None:
    """Trains a model on the CPU, and keeps a tensor of this many KiB per step."""
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    for _ in range(12):
        model(torch.ones(64, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if keeps:
            kept.append(torch.ones(keeps, 256))


def recorded(folder: Path, program: Callable[[], object]) -> Path:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    program()
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    return Path(tracker.recording)


def check(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ttmem", "check", "--quiet", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def only(checked: dict[str, Any]) -> dict[str, Any]:
    """The only limit."""
    [rank] = checked["ranks"]
    [limit] = rank["limits"]
    assert isinstance(limit, dict)
    return limit


def test_the_peak_is_that_of_the_summary(tmp_path: Path) -> None:
    profile = ttmem.load(recorded(tmp_path, trained))
    peak = profile.summary()["ranks"][0]["pools"]["cpu"]["peak_per_bank"]
    assert profile.check({"cpu": peak})["result"] == "passed"
    failed = only(profile.check({"cpu": peak - 1}))
    assert (failed["result"], failed["measured_bytes"], failed["limit_bytes"]) == ("failed", peak, peak - 1)
    assert failed["held"]
    # The capacity of the CPU is the memory of the host. That of a device that is not used is unknown.
    assert only(profile.check({"cpu": "80%"}))["result"] == "passed"
    assert only(profile.check({"cuda:0": "80%"}))["result"] == "unknown"


def test_growth_per_step(tmp_path: Path) -> None:
    """A list that keeps 1 MiB per step grows by that, to the byte."""
    steady = ttmem.load(recorded(tmp_path / "steady", trained))
    assert only(steady.check({"growth-per-step": 0}))["measured_bytes"] == 0
    growing = ttmem.load(recorded(tmp_path / "growing", lambda: trained(keeps=1024)))
    failed = only(growing.check({"growth-per-step": "1000KiB"}))
    assert (failed["result"], failed["measured_bytes"]) == ("failed", 1 << 20)
    assert growing.check({"growth-per-step": "1MiB"})["result"] == "passed"


def test_a_baseline(tmp_path: Path) -> None:
    steady = ttmem.load(recorded(tmp_path / "steady", trained))
    growing = ttmem.load(recorded(tmp_path / "growing", lambda: trained(keeps=64)))
    assert steady.check(baseline=steady)["result"] == "passed"
    assert growing.check(baseline=steady)["result"] == "failed"
    assert growing.check({"fail-over": "1GiB"}, baseline=steady)["result"] == "passed"
    with pytest.raises(ttmem.Error, match="cannot compare"):
        steady.check(baseline=ttmem.load(CORPUS / "tt_log" / "vae-decoder.log"))


def test_invalid_limits(tmp_path: Path) -> None:
    profile = ttmem.load(recorded(tmp_path, trained))
    with pytest.raises(ValueError, match="no limits"):
        profile.check()
    with pytest.raises(ValueError, match="from 0% to 100%"):
        profile.check({"cpu": "101%"})
    with pytest.raises(ValueError, match="negative"):
        profile.check({"cpu": -1})
    with pytest.raises(TypeError, match="cpu must be a str or an int, not float"):
        profile.check({"cpu": 0.8})


def validated(path: Path) -> ET.Element:
    """The root of a file that is valid by the schema."""
    xmlschema.XMLSchema(SCHEMA).validate(path)
    return ET.parse(path).getroot()  # noqa: S314 (our own file)


def test_junit_is_valid(tmp_path: Path) -> None:
    """Real files with each result, by the schema that Jenkins uses."""
    cases = {
        "tt_log/vae-decoder.log": ["DRAM=1%", "padding=200%", "nothing=1"],
        "tt_log/two-ranks-info-only.log": ["DRAM=1"],
        "cuda_oom/train.log": ["cuda:0=1GiB"],
        "torch_snapshot/train_gpt2_30m.pickle.gz": ["cuda:0=1GiB", "cuda:1=1GiB"],
        "guides/softmax.json": ["headroom.L1=32KiB"],
        "tt_train/tinyllama.log": ["phases.FORWARD_PASS=1GiB"],
    }
    for number, (file, limits) in enumerate(cases.items()):
        path = tmp_path / f"{number}.xml"
        flags = [flag for limit in limits for flag in ("--limit", limit)]
        assert check(CORPUS / file, *flags, "--junit", path).returncode == 1, file
        [suite] = validated(path).findall("testsuite")
        found = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(found)
        assert int(suite.attrib["failures"]) == len(
            [case for case in found if case.find("failure") is not None]
        )
        assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))


def test_junit_with_hostile_names(tmp_path: Path) -> None:
    """Names of the program and of limits cannot break the XML or the annotations."""

    def program() -> None:
        with ttmem.memory_checkpoint(HOSTILE.replace("\x00", "")):
            trained()

    recording = recorded(tmp_path, program)
    file = recording.rename(tmp_path / "<a> & 'b' \"c\"\x1b.ttmem")
    path = tmp_path / "junit.xml"
    name = HOSTILE.replace("\x00", "")
    result = check(file, "--limit", f"phases.{name}=1GiB", "--limit", "cpu=1", "--junit", path, "--github")
    assert result.returncode == 1, result.stderr
    names = [case.attrib["name"] for case in validated(path).iter("testcase")]
    assert names[0] == "cpu"
    assert names[1].startswith("phases.<b> & \"q\" 'a' ]]> \ufffd[31m")
    lines = result.stdout.splitlines()
    # GitHub ignores commands up to the line with this token.
    token = lines[0].removeprefix("::stop-commands::")
    assert len(token) == 16
    end = lines.index(f"::{token}::")
    annotations = [line for line in lines[end + 1 :] if line.lstrip().startswith("::")]
    assert len(annotations) == 2
    assert all(line.startswith("::error ") and line.count("::error ") == 1 for line in annotations)


def test_the_schema_refuses_other_files(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<testsuites><testcase/></testsuites>")
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        validated(path)
