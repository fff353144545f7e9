"""Tests of the prose checker: `python3 -m pytest tools/prose`, or run this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import check

INI = r"""
[DEFAULT]
skipped = ^tests/

[is no]
phrase = \bis no \w+
allowed = \bthere is no \w+
write = "is not a"

[percent]
phrase = (\d|\}) %(?!\w)
write = no space

[most]
identifier = \bMOST_[A-Z]+\b
write = MAX_
"""


def found(tmp_path: Path, name: str, source: str) -> list[tuple[int, str]]:
    """The lines and texts of all matches in a file of this name."""
    file = tmp_path / "patterns.ini"
    file.write_text(INI, encoding="utf-8")
    return [(line, text) for line, text, _ in check.problems(name, source, check.load(file))]


def test_markdown_is_checked_outside_code(tmp_path: Path) -> None:
    source = "# Title\n\nThis is no\nfile, `is no code`.\n\n```sh\necho is no matter\n```\n\nThere is no file. 5 %.\n"
    assert found(tmp_path, "a.md", source) == [(3, "is no file"), (10, "5 %")]


def test_strings_and_comments_of_rust_are_checked(tmp_path: Path) -> None:
    source = (
        "//! It is no module.\n"
        "// This is no\n// doc comment.\n"
        "/// This `is no code`, is no word.\n"
        "fn f() -> char { let q = '\"'; q }\n"
        'const A: &str = "{} %";\n'
        'const B: &str = r#"a "is no end" b"#;\n'
        "const MOST_LINES: u8 = 1;\n"
        "#[cfg(test)]\nmod tests {\n"
        '    const C: &str = "is no string";\n}\n'
    )
    expected = [
        (1, "is no module"),
        (2, "is no doc"),
        (4, "is no word"),
        (6, "} %"),
        (7, "is no end"),
        (8, "MOST_LINES"),
    ]
    assert found(tmp_path, "a.rs", source) == expected


def test_a_string_over_several_lines_is_one_text(tmp_path: Path) -> None:
    assert found(tmp_path, "a.rs", 'const A: &str = "it is \\\n     no file";\n') == [(1, "is no file")]


def test_python_is_checked_by_its_syntax(tmp_path: Path) -> None:
    source = '"""It is no module."""\n# is no comment\nx = f"{1} % is no {2} thing"\n'
    assert sorted(found(tmp_path, "a.py", source)) == [(1, "is no module"), (2, "is no comment"), (3, "} %")]


def test_typescript_is_checked(tmp_path: Path) -> None:
    source = "// This is no file.\nconst a = 'is no name';\nconst b = `5 %`;\nconst c = a /b/ 2;\n"
    assert found(tmp_path, "a.ts", source) == [(1, "is no file"), (2, "is no name"), (3, "5 %")]


def test_the_patterns_of_the_project_are_valid() -> None:
    patterns = check.load()
    assert len(patterns.prose) > 30
    for pattern in [*patterns.prose, *patterns.identifiers]:
        assert pattern.write, pattern.name
        assert not pattern.phrase.search(""), pattern.name

