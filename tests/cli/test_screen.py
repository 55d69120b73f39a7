"""Colours, the pager and progress: on terminals, and not in pipes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import programs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.cli import main

pytest.importorskip("pygments")
from nczarr.cdl.highlighting import CDLLexer
from nczarr.cli.lexers import LEXERS

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = DATA / "example.nc"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(*words: str, rows: int = 40, **environment: str) -> tuple[int, str]:
    """Run a command on a terminal; its exit status, and what is seen there."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 200, 0, 0))
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "PAGER", "LESS")}
    program = programs.start(
        *("-m", "nczarr", *words),
        files=(follower,) * 3,
        environment={**plain, "TERM": "xterm", "NCZARR_PAGER": "", **environment},
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    program.join()
    assert program.exitcode is not None
    return program.exitcode, shown.decode().replace("\r\n", "\n")


def in_pipe(*words: str, **environment: str) -> str:
    done = programs.command(*words, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [["dump"], ["tree"], ["info"], ["ls", "-l"], ["dump", "-x"]])
def test_colours_change_nothing_but_colours(words: list[str]) -> None:
    plain = in_pipe(*words, str(EXAMPLE))
    assert "\x1b" not in plain
    status, shown = on_terminal(*words, str(EXAMPLE))
    assert status == 0
    assert "\x1b[" in shown
    assert ESCAPE.sub("", shown).expandtabs() == plain.expandtabs()


def test_colours_where_they_are_wanted() -> None:
    for refusal in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("tree", str(EXAMPLE), **refusal)[1]
    assert "\x1b" not in on_terminal("tree", "--color", "never", str(EXAMPLE))[1]
    assert "\x1b[" in in_pipe("tree", "--colour", "always", str(EXAMPLE))
    assert "\x1b[" in on_terminal("tree", "--color=always", str(EXAMPLE), NO_COLOR="1")[1]


def test_the_pager_shows_it() -> None:
    status, shown = on_terminal("dump", str(EXAMPLE), PAGER="sed -n 1p", NCZARR_PAGER="sed -n 2p")
    assert status == 0
    assert ESCAPE.sub("", shown) == "dimensions:\n"


def test_a_pager_that_is_left_early_is_no_error() -> None:
    status, shown = on_terminal("dump", "-v", "temp", str(EXAMPLE), NCZARR_PAGER="head -n 1")
    assert (status, ESCAPE.sub("", shown)) == (0, "netcdf example {\n")


def test_no_pager() -> None:
    marked = {"NCZARR_PAGER": "sed s/^/paged/"}
    assert "paged" in on_terminal("tree", str(EXAMPLE), **marked)[1]
    assert "paged" not in on_terminal("tree", "--no-pager", str(EXAMPLE), **marked)[1]
    assert "paged" not in in_pipe("tree", str(EXAMPLE), **marked)
    status, shown = on_terminal("tree", str(EXAMPLE), NCZARR_PAGER="there-is-no-such-pager -x")
    assert status == 0
    assert "temp" in shown


def test_the_status_comes_through_the_pager(tmp_path: Path) -> None:
    other = tmp_path / "other.nc"
    nczarr.copy(EXAMPLE, other, exclude=["/ocean"])
    status, shown = on_terminal("diff", str(EXAMPLE), str(other), NCZARR_PAGER="sed s/^/paged/")
    assert status == 1
    assert "paged" in shown


@pytest.mark.slow
@pytest.mark.parametrize("command", ["copy", "check", "diff", "dump", "gen", "digest"])
def test_progress(command: str, tmp_path: Path) -> None:
    pytest.importorskip("tqdm")
    store, cdl = tmp_path / "a.zarr", tmp_path / "a.cdl"
    nczarr.copy(EXAMPLE, store)
    main(["dump", "-o", str(cdl), str(EXAMPLE)])
    words = {
        "copy": ["copy", str(EXAMPLE), str(tmp_path / "b.zarr")],
        "check": ["check", "--data", str(store)],
        "diff": ["diff", str(EXAMPLE), str(store)],
        "dump": ["dump", "-o", str(tmp_path / "b.cdl"), str(store)],
        "gen": ["gen", str(cdl), str(tmp_path / "c.zarr")],
        "digest": ["digest", str(store)],
    }[command]
    status, shown = on_terminal(*words)
    assert status == 0
    assert re.search(r"\d+%", shown)
    again = [word.replace("b.zarr", "d.zarr").replace("c.zarr", "e.zarr") for word in words]
    assert "%" not in on_terminal(*again, "--quiet")[1]


def test_names_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    evil = "n\u202e\x9bx\x1b]0;owned\x07"
    from nczarr.model import INT, Attribute, Dataset, Variable

    made = Dataset("d", variables=(Variable("a\u202eb", INT, attributes=(Attribute.of("units", evil),)),))
    nczarr.copy(made, tmp_path / "a.zarr")
    for words in (["dump"], ["dump", "-x"], ["tree"], ["zom"], ["ls"], ["info"]):
        _, shown = on_terminal(*words, str(tmp_path / "a.zarr"))
        seen = ESCAPE.sub("", shown)
        assert not set("\x1b\u202e\x9b\x07") & set(seen), words
        assert "\\u202e" in seen
    # Into a file a dump is exact.
    assert "a\u202eb" in in_pipe("dump", str(tmp_path / "a.zarr"))


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*.cdl")))
def test_every_character_of_cdl_is_kept(name: str) -> None:
    text = (DATA / name).read_text("utf-8")
    tokens = list(CDLLexer(stripnl=False, ensurenl=False).get_tokens(text))
    assert "".join(piece for _, piece in tokens) == text
    assert not [piece for kind, piece in tokens if "Error" in str(kind)]


@given(st.text(), st.sampled_from(sorted(LEXERS)))
def test_any_text_is_kept(text: str, kind: str) -> None:
    pieces = [piece for _, _, piece in LEXERS[kind]().get_tokens_unprocessed(text)]
    assert "".join(pieces) == text


@pytest.mark.parametrize(
    "piece", ["1", "1e", '"', "\\", "a/", "a ", "x:", "netcdf ", "group: ", "1, ", "| ", "a: b | "]
)
def test_long_lines_take_no_longer_than_they_are(piece: str) -> None:
    """Patterns that look far ahead from every character would take minutes here."""
    text = piece * 20_000 + "\n"
    for lexer in LEXERS.values():
        assert "".join(p for _, _, p in lexer().get_tokens_unprocessed(text)) == text


def test_pygments_finds_the_language() -> None:
    project = tomllib.loads((DATA.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    entry = EntryPoint("cdl", project["entry-points"]["pygments.lexers"]["cdl"], "pygments.lexers")
    assert entry.load() is CDLLexer
    assert "cdl" in CDLLexer.aliases
