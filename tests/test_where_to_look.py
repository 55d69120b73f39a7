"""The page on where to look names files that exist, and every package of nczarr."""

from __future__ import annotations

import re
from pathlib import Path

HOUSE = Path(__file__).parents[1]
PAGE = HOUSE / "docs" / "where-to-look.md"
ROW = re.compile(r"^\| [^|]+ \| `(nczarr/[\w/]+\.py)` \| `(tests/[\w/]+\.py)` \|$", re.MULTILINE)

#: Packages without a feature of their own.
_BARE = {"nczarr/grammar"}


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
