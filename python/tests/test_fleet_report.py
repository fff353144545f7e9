"""The page of `ttmem fleet report`: its data equals the SQL answers, and its links are right."""

import base64
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest

from conftest import CORPUS, LOG, TTMEM, ran
from ttmem.fleet._engines import DuckDB
from ttmem.fleet._page import LISTS, PARTS
from ttmem.fleet._questions import Choice, sql
from ttmem.fleet._reports import Rank, Reports

GUIDES = CORPUS / "guides"
TWO_RANKS = CORPUS / "tt_log" / "two-ranks-info-only.log"
HOSTILE = "</script><script>window.hacked=1</script><!--<script>\"'&"


class Page(NamedTuple):
    text: str
    head: dict[str, Any]
    cells: list[list[int | None]]
    """The cells of each rank."""


def read(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    (packed,) = re.findall(
        r'<script type="application/x-ttmem" id="ttmem-fleet">([A-Za-z0-9+/=]*)</script>', text
    )
    data = zlib.decompress(base64.b64decode(packed))
    length = int.from_bytes(data[:4], "little")
    head = json.loads(data[4 : 4 + length])
    (column,) = head.pop("columns")
    rows, width = column["rows"], column["width"]
    assert column | {"name": "cells", "kind": "size"} == column
    assert len(data) == 4 + length + rows * width
    planes = [data[4 + length + plane * rows :][:rows] for plane in range(width)]
    values = [sum(plane[row] << 8 * at for at, plane in enumerate(planes)) for row in range(rows)]
    sizes = [value - 1 if value else None for value in values]
    return Page(text, head, [sizes[at : at + PARTS] for at in range(0, rows, PARTS)])


def labels_of(page: Page) -> list[Any]:
    """The labels of each rank."""
    return [page.head["labels"][index] for index in page.head["ranks"]["labels"]]


def export(dataset: Path, *words: str | Path, cwd: Path | None = None) -> None:
    done = ran([*TTMEM, "export", "-o", str(dataset), *map(str, words)], cwd=cwd)
    assert done.returncode == 0, done.stderr


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stored reports, empty at first."""
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return ran([*TTMEM, "fleet", "report", *map(str, words)])


def page_of(dataset: Path, *words: str | Path, output: Path | None = None) -> Page:
    path = output or dataset.parent / "page.html"
    done = command(dataset, "-o", path, *words)
    assert (done.returncode, done.stdout) == (0, f"{path}\n"), done.stderr
    return read(path)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A run of four ranks, of which one runs out of memory and one is broken; other runs; hostile names."""
    inputs = tmp_path / "in"
    inputs.mkdir()
    for number in range(4):
        name = "batch256" if number == 2 else "batch32"
        shutil.copy(GUIDES / f"{name}.ttmem", inputs / f"rank{number}.ttmem")
    (inputs / "rank9.ttmem").write_bytes((GUIDES / "batch32.ttmem").read_bytes()[:40])
    folder = tmp_path / "fleet"
    labels = ("--label", "commit=1a2b3c", "--label", "model=gpt")
    export(folder, "--run", "nightly", *labels, *sorted(inputs.iterdir()))
    export(folder, TWO_RANKS, LOG)
    export(folder, "--run", HOSTILE, "--label", f"<script>={HOSTILE}", GUIDES / "batch256.ttmem")
    return folder


@pytest.mark.parametrize("run", [None, "nightly"])
def test_the_data_equals_the_answers(dataset: Path, run: str | None) -> None:
    page = page_of(dataset, *(("--run", run) if run else ()))
    engine = DuckDB(dataset)

    def answer(question: str, limit: int = 10_000) -> tuple[list[str], list[Any]]:
        found = engine.query(sql(question, "duckdb", Choice(limit=limit, run=run, parts=PARTS)))
        return found.columns, json.loads(json.dumps(found.rows))

    columns, rows = answer("ranks")
    ranks = page.head["ranks"]
    assert len(rows) == (4 if run else 8)
    for name in (name for name in columns if name in ranks):
        assert ranks[name] == [row[columns.index(name)] for row in rows], name
    assert {"run", "file", "peak_bytes", "capacity_bytes", "verdict", "link", "command"} <= set(ranks)
    ids = [row[columns.index("rank_id")] for row in rows]

    columns, rows = answer("timeline")
    over_time: dict[int, list[int | None]] = {key: [None] * PARTS for key in ids}
    for row in rows:
        known = dict(zip(columns, row, strict=True))
        over_time[known["rank_id"]][known["part"]] = known["per_bank"]
    assert page.cells == [over_time[key] for key in ids]
    highest = [max((size for size in cells if size is not None), default=0) for cells in page.cells]
    assert all(found > 0 for found in highest)

    for question, limit in LISTS.items():
        columns, rows = answer(question, limit)
        if "rank_id" in columns:
            key = columns.index("rank_id")
            rows = [[*row[:key], ids.index(row[key]), *row[key + 1 :]] for row in rows]
        found = page.head["answers"][question]
        assert (found["columns"], found["rows"]) == (columns, rows), question
        assert rows, question
    assert labels_of(page)[ranks["run"].index("nightly")] == [["commit", "1a2b3c"], ["model", "gpt"]]
    engine.close()


def test_texts_of_the_dataset_are_not_markup(dataset: Path) -> None:
    renamed = dataset.rename(dataset.parent / "<img src=x onerror=alert(1)>")
    page = page_of(renamed)
    template = re.sub(r'<script type="application/x-ttmem".*?</script>', "", page.text)
    assert template.count("<script") == 1
    assert "window.hacked" not in page.text
    assert "<img" not in template
    assert "<title>&lt;img src=x onerror=alert(1)&gt; · ttmem fleet</title>" in template
    assert "default-src 'none'" in template
    assert HOSTILE in page.head["ranks"]["run"]
    assert [["<script>", HOSTILE]] in page.head["labels"]


def link_targets(page: Page, folder: Path) -> list[tuple[Path, str] | None]:
    """Returns the file and the anchor of each rank's link, as a browser resolves it."""
    found: list[tuple[Path, str] | None] = []
    for link in page.head["ranks"]["link"]:
        if link is None:
            found.append(None)
            continue
        path, _, anchor = link.partition("#")
        assert path.startswith("./")
        assert not set(path) & set("?#:\\")
        found.append(((folder / unquote(path)).resolve(), unquote(anchor)))
    return found


def test_links_lead_to_reports_and_ranks_without_one_have_a_command(dataset: Path, home: Path) -> None:
    folder = dataset.parent
    page = page_of(dataset)
    assert page.head["ranks"]["link"] == [None] * 8
    commands = page.head["ranks"]["command"]
    assert f"ttmem report {folder}/in/rank2.ttmem" in commands

    def paths(page: Page) -> dict[str, tuple[Path, str] | None]:
        names = [Path(file).name for file in page.head["ranks"]["file"]]
        names = [f"{name} {rank}" for name, rank in zip(names, page.head["ranks"]["rank"], strict=True)]
        return dict(zip(names, link_targets(page, folder), strict=True))

    # The command that the page shows writes a report that the next page links to.
    for command in dict.fromkeys(commands):
        if "rank2" in command or "two-ranks" in command:
            done = subprocess.run(["/bin/sh", "-c", command.replace("ttmem", TTMEM[0], 1)], check=False)
            assert done.returncode == 0
    found = paths(page_of(dataset))
    assert found.pop("rank2.ttmem None") == (home / "reports/rank2/rank2_report.html", "")
    stored = home / "reports/two-ranks-info-only/two-ranks-info-only_report.html"
    assert found.pop("two-ranks-info-only.log 1,0") == (stored, "rank=1,0")
    assert found.pop("two-ranks-info-only.log 1,1") == (stored, "rank=1,1")
    assert set(found.values()) == {None}
    # A report that was removed has no link.
    shutil.rmtree(home / "reports/rank2")
    assert paths(page_of(dataset))["rank2.ttmem None"] is None


def test_reports_in_other_folders_are_linked_if_they_are_of_the_same_file(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(GUIDES / "batch32.ttmem", tmp_path / name / "rank 0.ttmem")
        # The same relative path, as in two jobs.
        export(folder, "--run", name, "rank 0.ttmem", cwd=tmp_path / name)
    reports = tmp_path / "x:y#1?%41"
    done = ran([*TTMEM, "report", str(tmp_path / "b" / "rank 0.ttmem"), "-o", str(reports / "b")])
    assert done.returncode == 0, done.stderr
    assert link_targets(page_of(folder), tmp_path) == [None, None]
    page = page_of(folder, "--reports", reports)
    assert link_targets(page, tmp_path) == [None, (reports / "b" / "rank 0_report.html", "")]
    assert page.head["ranks"]["command"][0] == f"ttmem report '{tmp_path}/a/rank 0.ttmem'"
    # From another folder.
    (tmp_path / "pages").mkdir()
    output = tmp_path / "pages" / "page.html"
    moved = page_of(folder, "--reports", reports, output=output)
    assert link_targets(moved, output.parent) == [None, (reports / "b" / "rank 0_report.html", "")]
    # A report of `rank 0.ttmem`, of which both runs have one.
    named = tmp_path / "named"
    words = [*TTMEM, "report", "rank 0.ttmem", "-o", str(named / "c")]
    assert ran(words, cwd=tmp_path / "a").returncode == 0
    assert link_targets(page_of(folder, "--reports", named), tmp_path) == [None, None]
    target = (named / "c" / "rank 0_report.html", "")
    assert link_targets(page_of(folder, "--reports", named, "--run", "a"), tmp_path) == [target]
    # Two reports of that name: it is unknown which one is right.
    shutil.copytree(named / "c", named / "d")
    assert link_targets(page_of(folder, "--reports", named, "--run", "a"), tmp_path) == [None]


def test_the_profile_of_a_report_is_linked_to_its_page(tmp_path: Path) -> None:
    assert ran([*TTMEM, "report", str(LOG), "-o", str(tmp_path / "out")]).returncode == 0
    profile = tmp_path / "out" / "vae-decoder.ttmem"
    export(tmp_path / "fleet", "--run", "file", profile)
    export(tmp_path / "fleet", "--run", "folder", profile.parent)
    target = (tmp_path / "out" / "vae-decoder_report.html", "")
    page = page_of(tmp_path / "fleet")
    assert link_targets(page, tmp_path) == [target, target]
    inputs = [f"ttmem report {tmp_path}/out/vae-decoder.ttmem", f"ttmem report {tmp_path}/out"]
    assert page.head["ranks"]["command"] == inputs


@pytest.mark.parametrize(
    ("source", "file", "path"),
    [
        ("/srv/model.log", "model.log", "/srv/model.log"),
        ("/srv/model.log", "/srv/model.log", "/srv/model.log"),
        # A link to the file.
        ("/srv/model.log", "latest.log", "/srv/model.log"),
        # A folder of recordings.
        ("/srv/ranks", "ranks/rank0.ttmem", "/srv/ranks/rank0.ttmem"),
        ("/srv/ranks", "./rank0.ttmem", "/srv/ranks/rank0.ttmem"),
        # A report, and its profile.
        ("/srv/report", "/var/log/model.log", "/srv/report"),
        ("/srv/report/model.ttmem", "/var/log/model.log", "/srv/report/model.ttmem"),
    ],
)
def test_inputs_of_another_machine_have_a_path(source: str, file: str, path: str) -> None:
    assert Rank(source, "host", file, None).path == path
    assert Rank(source, "host", file, None).command == f"ttmem report {path}"


def test_the_command_is_quoted_and_missing_for_standard_input() -> None:
    assert Rank("/srv/it's", "host", "it's", None).command == """ttmem report '/srv/it'"'"'s'"""
    assert Rank("-", "host", "-", None).command is None


def test_equal_recordings_have_their_own_reports(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    for number in (0, 1):
        shutil.copy(GUIDES / "batch32.ttmem", tmp_path / "ranks" / f"rank{number}.ttmem")
        export(tmp_path / "fleet", "--run", "r", tmp_path / "ranks" / f"rank{number}.ttmem")
    assert ran([*TTMEM, "report", str(tmp_path / "ranks" / "rank1.ttmem")]).returncode == 0
    target = (tmp_path / "home/reports/rank1/rank1_report.html", "")
    assert link_targets(page_of(tmp_path / "fleet"), tmp_path) == [None, target]


def test_a_file_in_two_runs_has_links_to_each_rank(tmp_path: Path, home: Path) -> None:
    for run in ("a", "b"):
        export(tmp_path / "fleet", "--run", run, TWO_RANKS)
    assert ran([*TTMEM, "report", str(TWO_RANKS)]).returncode == 0
    stored = home / "reports/two-ranks-info-only/two-ranks-info-only_report.html"
    expected = [(stored, f"rank={label}") for label in ("1,0", "1,1")]
    assert link_targets(page_of(tmp_path / "fleet"), tmp_path) == expected * 2
    # Ranks without unique labels have numbers, in whatever order they are listed.
    path = str(TWO_RANKS.resolve())
    ranks = [Rank(path, "here", TWO_RANKS.name, "same", run, place) for run in "ab" for place in (1, 0)]
    links = Reports().links(ranks, str(tmp_path))
    assert [unquote(str(link)).partition("#")[2] for link in links] == ["rank=number 1", "rank=number 0"] * 2


def test_ranks_of_a_run_have_their_own_labels(tmp_path: Path) -> None:
    for label in ("model=a", "model=b"):
        shutil.copy(GUIDES / "batch32.ttmem", tmp_path / f"{label}.ttmem")
        export(tmp_path / "fleet", "--run", "r", "--label", label, tmp_path / f"{label}.ttmem")
    shutil.copy(GUIDES / "batch32.ttmem", tmp_path / "none.ttmem")
    export(tmp_path / "fleet", "--run", "r", tmp_path / "none.ttmem")
    assert labels_of(page_of(tmp_path / "fleet")) == [[["model", "a"]], [["model", "b"]], []]


def test_one_rank_an_error_only_and_no_ranks(tmp_path: Path) -> None:
    export(tmp_path / "one", GUIDES / "batch32.ttmem")
    page = page_of(tmp_path / "one")
    assert len(page.cells) == len(page.head["ranks"]["run"]) == 1
    assert page.head["answers"]["outliers"]["rows"] == []

    broken = tmp_path / "broken.ttmem"
    broken.write_bytes(b"nothing")
    assert ran([*TTMEM, "export", "-o", str(tmp_path / "error"), str(broken)]).returncode == 2
    page = page_of(tmp_path / "error")
    assert page.cells == page.head["ranks"]["run"] == []
    (row,) = page.head["answers"]["errors"]["rows"]
    assert str(broken) in row

    page = page_of(tmp_path / "error", "--run", "broken")
    assert (page.cells, page.head["run"]) == ([], "broken")
    done = command(tmp_path / "one", "-o", tmp_path / "page.html", "--run", "none")
    assert (done.returncode, done.stderr) == (2, "ttmem: none: no such run; the dataset has batch32\n")


def test_only_earlier_pages_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    export(folder, GUIDES / "batch32.ttmem")
    page_of(folder)
    page_of(folder)

    notes = tmp_path / "notes.html"
    notes.write_text("<p>mine</p>")
    done = command(folder, "-o", notes)
    refused = f"ttmem: {notes}: already exists, and ttmem did not write it; use --force to replace it\n"
    assert (done.returncode, done.stderr) == (2, refused)
    assert notes.read_text() == "<p>mine</p>"
    page_of(folder, "--force", output=notes)

    recording = tmp_path / "model.ttmem"
    shutil.copy(GUIDES / "batch32.ttmem", recording)
    for words in ([], ["--force"]):
        done = command(folder, "-o", recording, *words)
        assert (done.returncode, done.stderr.count("not overwritten, because it is a log, recording")) == (
            2,
            1,
        )
    assert recording.read_bytes() == (GUIDES / "batch32.ttmem").read_bytes()
    done = ran([*TTMEM, "fleet", "closest", str(folder), "--force"])
    assert (done.returncode, done.stderr.count("-o, --force and --reports: only for report")) == (2, 1)


def test_errors_keep_the_earlier_page(tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    output.write_text("earlier")
    done = command(tmp_path / "none", "-o", output, "--force")
    assert (done.returncode, done.stderr.count("not a dataset")) == (2, 1)
    folder = tmp_path / "one"
    export(folder, GUIDES / "batch32.ttmem")
    done = command(folder, "-o", output, "--force", "--reports", tmp_path / "missing")
    assert (done.returncode, done.stderr) == (2, f"ttmem: {tmp_path}/missing: not a folder with reports\n")
    assert output.read_text() == "earlier"
    done = command(folder, "-o", tmp_path / "no folder" / "page.html")
    assert (
        done.returncode,
        done.stderr.endswith(": cannot write the page: No such file or directory\n"),
    ) == (2, True)
    (tmp_path / "folder").mkdir()
    done = command(folder, "-o", tmp_path / "folder", "--force")
    assert (done.returncode, done.stderr.count("cannot write the page")) == (2, 1)
    assert not list(tmp_path.glob(".ttmem-*"))
    assert command(folder).returncode == 2
    assert command(folder, "-o", output, "--json").returncode == 2
    done = ran([*TTMEM, "fleet", "closest", str(folder), "-o", str(output)])
    assert (done.returncode, "only for report" in done.stderr) == (2, True)
