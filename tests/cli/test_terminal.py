"""Test that names and texts of a file cannot control the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import NCZarrError
from nczarr.model import CHAR, STRING, Attribute, Dataset, Dimension, Group, Variable, compare, join_fqn
from nczarr.netcdf import create_dataset, open_dataset

#: An escape sequence, a bell, the one-byte introducer of sequences, and the mark that turns text around.
EVIL = "\x1b[2J\x07\x9b\u202e"
ACTING = frozenset("\x1b\x07\x9b\u202e")
NAME = "n\u202e\x9bx"


def harmless(text: str) -> bool:
    return not ACTING & set(text)


def _file(path: Path, text: str) -> Path:
    variable = Variable(
        NAME,
        STRING,
        (join_fqn("/", NAME),),
        attributes=(Attribute("units", STRING, np.array([EVIL], object)),),
    )
    dataset = Dataset(
        "d",
        dimensions=(Dimension(NAME, 2),),
        attributes=(Attribute(NAME, CHAR, np.frombuffer(text.encode(), "S1")),),
        variables=(variable,),
        groups=(Group("g\x9b"),),
    )
    with create_dataset(path, dataset) as sink:
        sink.write(join_fqn("/", NAME), (slice(0, 2),), np.array([text, "k"], object))
        sink.commit()
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return _file(tmp_path / "a.nc", EVIL), _file(tmp_path / "b.nc", EVIL + "more")


def test_commands(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    a, b = map(str, files)
    for command in (
        ["diff", a, b],
        ["tree", a],
        ["info", a],
        ["check", "--data", a],
        ["dump", "-v", EVIL, a],
    ):
        main(command)
        shown = capsys.readouterr()
        assert harmless(shown.out + shown.err), command


def test_representations(files: tuple[Path, Path]) -> None:
    with nczarr.Dataset(files[0]) as dataset:
        objects = [
            dataset,
            *dataset.variables.values(),
            *dataset.dimensions.values(),
            *dataset.groups.values(),
        ]
        for shown in objects:
            assert harmless(repr(shown))
            assert harmless(str(shown))


def test_messages() -> None:
    assert harmless(str(NCZarrError(EVIL, path=EVIL, fqn=EVIL, hint=EVIL)))
    assert str(NCZarrError("one\ntwo", path="a\nb")) == "a\\nb: one\ntwo"


def test_texts_in_cdl(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Texts are escaped, and read back the same."""
    from nczarr.cdl import dumps, loads

    with open_dataset(files[1]) as file:
        text = dumps(file.dataset)
        assert not list(compare(file.dataset, loads(text)))
    assert harmless(text.replace(NAME, "").replace("g\x9b", ""))
