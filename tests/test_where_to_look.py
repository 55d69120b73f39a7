"""The page on where to look names files that exist, and names inside them, and every package of nczarr."""

from __future__ import annotations

import re
from pathlib import Path

from nczarr.cli.arguments import COMMANDS

HOUSE = Path(__file__).parents[1]
PAGE = HOUSE / "docs" / "where-to-look.md"
ROW = re.compile(r"^\| [^|]+ \| `(nczarr/[\w/]+\.py)` \| `(tests/[\w/]+\.py)` \|$", re.MULTILINE)

#: Packages without a feature of their own.
_BARE = {"nczarr/grammar"}
#: Commands without a row: the parser itself defines them.
ELSEWHERE = {"completion", "help"}


def test_files_exist() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 40
    assert [path for row in rows for path in row if not (HOUSE / path).is_file()] == []


def test_every_package_is_listed() -> None:
    listed = {str(Path(module).parent) for module, _ in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    holders = {str(Path(package).parent) for package in listed}
    packages = {str(p.parent.relative_to(HOUSE)) for p in (HOUSE / "nczarr").rglob("__init__.py")}
    assert packages - listed - holders - _BARE == set()


def test_a_feature_has_one_row() -> None:
    features = re.findall(r"^\| ([^|]+) \| `nczarr", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(features) == len(set(features))


def test_paths_in_the_walks_exist() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Five short walks")[2]
    paths = re.findall(r"`((?:nczarr|tests|grammar)/[\w/.]*)`", text)
    assert len(paths) > 10
    assert [path for path in paths if not (HOUSE / path).exists()] == []


def rows_of(section: str) -> list[tuple[str, str]]:
    """The first column and the text of the module of each row."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| ([^|]*`[^|]*) \| (`nczarr/[^|]*) \|", text, re.MULTILINE)
    paths = [(first, re.findall(r"`(nczarr/[\w/]+\.py)`", modules)) for first, modules in found]
    return [(first, "".join((HOUSE / path).read_text("utf-8") for path in files)) for first, files in paths]


def test_a_module_has_the_names_that_the_page_gives_it() -> None:
    named = [
        (name, text) for row, text in rows_of("Features") for name in re.findall(r"`(\w+)(?:\(…\))?`", row)
    ]
    assert len(named) > 10
    assert [name for name, text in named if not re.search(rf"\b{name}\b", text)] == []


def test_every_command_is_in_its_module() -> None:
    rows = [(re.findall(r"`(\w+)`", row), text) for row, text in rows_of("Commands")]
    assert [c for commands, text in rows for c in commands if f"def define_{c}(" not in text] == []
    assert [c for commands, text in rows for c in commands if f"def run_{c}(" not in text] == []
    listed = {command for commands, _ in rows for command in commands}
    assert listed <= COMMANDS.keys()
    assert COMMANDS.keys() - listed <= ELSEWHERE


def test_names_in_the_walks_are_in_their_files() -> None:
    walks = PAGE.read_text(encoding="utf-8").partition("## Five short walks")[2].split("\n**")[1:]
    for walk in walks:
        paths = [HOUSE / path for path in re.findall(r"`((?:nczarr|tests|grammar)/[\w/.]*)`", walk)]
        files = [f for p in paths for f in (p.glob("*.py") if p.is_dir() else [p])]
        folders = {path if path.is_dir() else path.parent for path in paths}
        text = "".join(file.read_text("utf-8") for file in files)
        names = re.findall(r"`(?:\w+\.)*(?!py`)(\w+)`", walk)
        assert [n for n in names if n != "ncgen" and not re.search(rf"\b{n}\b", text)] == []
        short = re.findall(r"`(\w+\.py)`", walk)
        assert [n for n in short if not any((folder / n).is_file() for folder in folders)] == []
