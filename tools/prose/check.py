"""Checks the prose of the project against the patterns in patterns.ini.

    python3 tools/prose/check.py [--count] [PATH…]

Prose is what people read: Markdown outside code, comments and string literals of Rust and TypeScript, docstrings,
comments and strings of Python, and the names of identifiers. Tests and generated files are skipped. Prints one line per match,
`FILE:LINE: found "…"; write …`, and exits with 1 if there are any. `--count` prints one line per pattern instead.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
CHECKED = (".md", ".rs", ".ts", ".mjs", ".py", ".pyi")
PATTERNS = Path(__file__).with_name("patterns.ini")


class Text(NamedTuple):
    """A piece of prose and the line that it starts on."""

    line: int
    text: str


class Pattern(NamedTuple):
    """A phrase to avoid, its replacement, and the phrases that contain it and are fine."""

    name: str
    phrase: re.Pattern[str]
    write: str
    allowed: re.Pattern[str] | None

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Finds the phrase, except inside an allowed one."""
        fine = [match.span() for match in self.allowed.finditer(text)] if self.allowed else []
        for match in self.phrase.finditer(text):
            if not any(start <= match.start() and match.end() <= end for start, end in fine):
                yield match


class Patterns(NamedTuple):
    """Patterns for prose, patterns for identifiers, and the files that are not checked."""

    prose: list[Pattern]
    identifiers: list[Pattern]
    skipped: re.Pattern[str]


def load(file: Path = PATTERNS) -> Patterns:
    """Reads the patterns. A space in one stands for any white space."""
    table = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    table.read_string(file.read_text(encoding="utf-8"))
    prose, identifiers = [], []
    for name in table.sections():
        row = table[name]
        is_identifier = "identifier" in row
        flags = 0 if is_identifier else re.IGNORECASE
        phrase, allowed = row["identifier" if is_identifier else "phrase"], row.get("allowed")
        pattern = Pattern(
            name,
            re.compile(phrase.replace(" ", r"\s+"), flags),
            row["write"],
            re.compile(allowed.replace(" ", r"\s+"), flags) if allowed else None,
        )
        (identifiers if is_identifier else prose).append(pattern)
    skipped = table.defaults()["skipped"].split()
    return Patterns(prose, identifiers, re.compile("|".join(skipped)))


def texts(path: str, source: str) -> Iterator[Text]:
    """Finds the prose of a file, by its extension."""
    if path.endswith(".md"):
        yield from markdown(source)
    elif path.endswith(".rs"):
        yield from code(source, RUST)
    elif path.endswith((".ts", ".mjs")):
        yield from code(source, TYPESCRIPT)
    elif path.endswith((".py", ".pyi")):
        yield from python(source)


def markdown(source: str) -> Iterator[Text]:
    """Paragraphs of Markdown. Code is replaced by a letter, so that lines stay where they are."""

    def blank(match: re.Match[str]) -> str:
        return "x" + "\n" * match[0].count("\n")

    without = re.sub(r"^( *)(```+|~~~+).*?^ *\2 *$", blank, source, flags=re.S | re.M)
    without = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)|\]\([^)]*\)|<!--.*?-->", blank, without, flags=re.S)
    line = 1
    for paragraph in re.split(r"(\n{2,})", without):
        yield Text(line, paragraph)
        line += paragraph.count("\n")


STRING = r'(?P<string>"(?:\\.|[^"\\])*")'
RUST = re.compile(
    r"(?P<comment>//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/)"
    r'|(?P<raw>\bb?r(?P<hashes>#*)".*?"(?P=hashes))'
    rf"|{STRING}"
    r"|b?'(?:\\[^']+|[^\\'\n])'",
    re.S,
)
TYPESCRIPT = re.compile(
    r"(?P<comment>//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/)"
    rf"|{STRING}"
    r"|(?P<single>'(?:\\.|[^'\\\n])*')"
    r"|(?P<template>`(?:\\.|[^`\\])*`)",
    re.S,
)


def code(source: str, token: re.Pattern[str]) -> Iterator[Text]:
    """Comments and string literals of Rust or TypeScript, except in test modules."""
    tests = re.search(r"^#\[cfg\(test\)\]\s*mod \w+ \{", source, re.M)
    end = tests.start() if tests else len(source)
    for match in token.finditer(source, 0, end):
        text, line = match[0], source.count("\n", 0, match.start()) + 1
        if match["comment"] is not None:
            yield Text(line, uncode(re.sub(r"^[ \t]*(//[/!]?|/\*\*|\*/?)", "", text, flags=re.M)))
        elif " " in text:
            yield Text(line, text.replace("\\n", "  ").replace("\\\n", " \n"))


def uncode(text: str) -> str:
    """Removes the code of a comment."""
    return re.sub(r"`[^`\n]*`", "x", text)


def python(source: str) -> Iterator[Text]:
    """Docstrings, strings, f-strings and comments of Python."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], uncode(token.string))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield Text(node.lineno, uncode("".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield Text(node.lineno, uncode(node.value))


def problems(path: str, source: str, patterns: Patterns) -> Iterator[tuple[int, str, Pattern]]:
    """Finds every match in a file: its line, its text, and the pattern."""
    for line, text in texts(path, source):
        for pattern in patterns.prose:
            for match in pattern.matches(text):
                yield line + text.count("\n", 0, match.start()), " ".join(match[0].split()), pattern
    if not path.endswith(".md"):
        for number, row in enumerate(source.splitlines(), 1):
            for pattern in patterns.identifiers:
                for match in pattern.matches(row):
                    yield number, match[0], pattern


def files(names: list[str], skipped: re.Pattern[str]) -> Iterator[str]:
    """Lists the files of the project that are checked."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *names],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    for path in listed.stdout.splitlines():
        if path.endswith(CHECKED) and not skipped.search(path) and (ROOT / path).is_file():
            yield path


def main(arguments: list[str]) -> int:
    """Checks, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Checks the prose of the project.")
    parser.add_argument("--count", action="store_true", help="print one line per pattern")
    parser.add_argument("path", nargs="*", help="check only these files or folders")
    options = parser.parse_args(arguments)
    patterns = load()
    count: Counter[str] = Counter()
    for path in files(options.path, patterns.skipped):
        source = (ROOT / path).read_text(encoding="utf-8")
        for line, found, pattern in problems(path, source, patterns):
            count[pattern.name] += 1
            if not options.count:
                print(f'{path}:{line}: found "{found}"; write {pattern.write}')
    if options.count:
        for name, number in count.most_common():
            print(f"{number:6} {name}")
    print(f"{count.total()} matches of {len(patterns.prose) + len(patterns.identifiers)} patterns")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
