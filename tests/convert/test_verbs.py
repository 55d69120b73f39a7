"""Copy, join and append: each option has one description for Python, the command line, plans and messages."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.cli.arguments import COMMANDS, GROUPS, OTHER_NAMES, build_parser
from nczarr.convert import plans, request
from nczarr.convert.request import FORBIDDEN, CopyRequest, known_options
from nczarr.errors import ModelError, UnsupportedError
from nczarr.mapping import WriteOptions
from nczarr.options import Take

VERBS = ("copy", "join", "append")
DAY = "netcdf d {{ dimensions: {0} = 2; variables: int {0}({0}); float v({0}); data: {0} = {1}; v = {1}; }}"


def days(count: int = 2, along: str = "time") -> list[Any]:
    return [cdl.loads(DAY.format(along, f"{2 * n}, {2 * n + 1}")) for n in range(count)]


def keywords(verb: str) -> set[str]:
    """Return the keywords that type checkers accept."""
    function = inspect.unwrap(getattr(nczarr, verb))
    own = {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
    more = typing.get_type_hints(getattr(request, f"More{verb.title()}Options"))
    assert not own & more.keys()
    return own | more.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_type_checkers_and_the_command_line_know_all_options(verb: str) -> None:
    described = known_options(verb)
    assert keywords(verb) == described.keys()
    commands = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    words = {action.dest for action in commands.choices[verb]._actions}
    assert {name for name, one in described.items() if one.take is not Take.OBJECT} <= words
    page = str(inspect.getdoc(nczarr.copy)) + str(inspect.getdoc(getattr(nczarr, verb)))
    page += str(inspect.getdoc(WriteOptions))
    assert [name for name in described if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.parametrize(
    ("verb", "given", "hint"),
    [
        ("copy", {"concat": "time"}, "use nczarr.join(…, along=)"),
        ("copy", {"merge": True}, "use nczarr.join(…, merge=)"),
        ("copy", {"append": True}, "use nczarr.append"),
        ("copy", {"replace": True}, "use nczarr.append(…, replace=)"),
        ("copy", {"adjust": "units"}, "use nczarr.join(…, adjust=)"),
        ("join", {"concat": "time"}, "it is along="),
        ("join", {"append": True}, "use nczarr.append"),
        ("append", {"concat": "time"}, "it is along="),
        ("copy", {"chunk": "time=1"}, "did you mean 'chunks'?"),
    ],
)
def test_an_old_keyword_names_the_new_call(verb: str, given: dict[str, Any], hint: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{verb} has no option {next(iter(given))}") as caught:
        getattr(nczarr, verb)(days(1)[0], {}, **given)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("copy a.nc b.zarr --append", "there is no option --append; use nczarr append"),
        ("copy a.nc c.nc b.zarr --concat time", "there is no option --concat; use nczarr join … --along"),
        ("copy a.nc c.nc b.zarr --merge", "there is no option --merge; use nczarr join … --merge"),
        ("copy a.nc b.zarr --replace", "use nczarr append … --replace"),
        ("copy a.nc b.zarr --join fill", "use nczarr join … --join"),
        ("join a.nc b.zarr --concat time", "it is --along"),
        ("join a.nc b.zarr --append", "use nczarr append"),
        ("append a.nc b.zarr --concat time", "it is --along"),
        ("append a.nc b.zarr --resume", "there is no option --resume"),
    ],
)
def test_an_old_option_names_the_new_command(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


VALUES: dict[str, tuple[Any, list[str]]] = {
    "plan": ("p.toml", ["--plan", "p.toml"]),
    "preprocess": ("os:getcwd", ["--preprocess", "os:getcwd"]),
    "dask": ("local", ["--dask", "local"]),
    "executor": ("processes", ["--executor", "processes"]),
    "chunks": ("time=1", ["-c", "time=1"]),
    "layout": ("zarr-v3", ["--layout", "zarr-v3"]),
    "template": ({"time": 2.0}, ["--template", "time=2"]),
    "region": ({"time": slice(0, 2)}, ["--region", "time=0:2"]),
}


@pytest.mark.parametrize("pair", FORBIDDEN, ids=lambda pair: f"{pair.option}-{pair.others[0]}")
def test_forbidden_pairs_are_refused_with_their_reason_at_both_doors(
    pair: request.Forbidden, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = next((name for name in pair.others if name in VALUES), pair.others[0])
    names = (pair.option, other)
    given = {name: VALUES.get(name, (True, []))[0] for name in names}
    verb = "append" if pair.option == "region" else "copy"
    with pytest.raises(UnsupportedError) as caught:
        getattr(nczarr, verb)("no.nc", "no.zarr", **given)
    assert str(caught.value) == f"{pair.option}= cannot be combined with {other}=: {pair.reason}"
    words = [word for name in names for word in VALUES.get(name, (True, [f"--{name.replace('_', '-')}"]))[1]]
    target = "no.json" if pair.option == "virtual" else "no.zarr"
    target = str(tmp_path) if verb == "append" else target  # it has to be there
    assert main([verb, "no.nc", target, *words]) == 1
    said = capsys.readouterr().err
    dashed = [f"--{name.replace('_', '-')}" for name in names]
    assert f"nczarr: {dashed[0]} cannot be combined with {dashed[1]}: {pair.reason}" in said


def test_steps_and_variables_are_joined(tmp_path: Path) -> None:
    nczarr.join(days(3), tmp_path / "steps.zarr")
    with nczarr.Dataset(tmp_path / "steps.zarr") as found:
        assert found["v"][:].tolist() == [0, 1, 2, 3, 4, 5]
    texts = [f"netcdf d {{ dimensions: x = 2; variables: int {n}(x); data: {n} = 1, 2; }}" for n in "ab"]
    sources = [cdl.loads(text) for text in texts]
    # Neither has the dimension time, nor do two of them have the same variables: there is nothing to stack.
    for how in ({"along": None}, {"merge": True}):
        nczarr.join(sources, tmp_path / "both.zarr", overwrite=True, **how)
        with nczarr.Dataset(tmp_path / "both.zarr") as found:
            assert {name: v.shape for name, v in found.variables.items()} == {"a": (2,), "b": (2,)}


@pytest.mark.parametrize("along", ["tiem", "Time", "times"])
def test_a_mistyped_dimension_is_called_that(along: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        nczarr.join(days(), tmp_path / "out.zarr", along=along)
    assert f"no source has the dimension {along!r}" in str(caught.value)
    assert caught.value.hint == "did you mean 'time'?"
    assert not (tmp_path / "out.zarr").exists()
    nczarr.join(days(), tmp_path / "out.zarr", along="member", exclude="time")
    with nczarr.Dataset(tmp_path / "out.zarr") as found:
        assert found["v"].dimensions == ("member", "time")


def test_the_sources_of_a_difference_are_named_together() -> None:
    text = 'netcdf d {{ dimensions: time = 1; variables: int v(time); v:units = "{}"; data: v = 1; }}'
    sources = [replace(cdl.loads(text.format("m" if n else "K")), name=f"d{n}") for n in range(6)]
    with pytest.raises(ModelError) as caught:
        nczarr.join(sources, {})
    lines = str(caught.value).splitlines()
    names = ", ".join(f"the dataset d{n} in memory" for n in (1, 2, 3))
    assert lines[1:] == [f"  {names} and 2 more: /v: the attribute units is 'm', not 'K'"]
    assert len(caught.value.problems) == 5


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_begins_with_examples_and_shows_the_usual_options(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for words in ([verb, "-h"], ["help", verb], [verb, "--help-all"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
        said.append(capsys.readouterr().out)
    short, asked, full = said
    assert short == asked
    assert len(short.splitlines()) < 90
    assert (
        short.index("examples:")
        < short.index("usage:")
        < short.index("--verify" if verb != "append" else "-v")
    )
    assert f"nczarr {verb} --help-all" in short
    assert "--memory" not in short
    options = known_options(verb)
    words = {o.flags.split()[-1] if o.flags else f"--{n.replace('_', '-')}" for n, o in options.items()}
    hidden = {
        "--consolidated",
        *(f"--{n.replace('_', '-')}" for n, o in options.items() if o.take is Take.OBJECT),
    }
    assert not [word for word in words - hidden if word not in full]
    usual = [n for n, o in options.items() if o.usual]
    assert 6 <= len(usual) <= 18


def test_commands_are_listed_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    with pytest.raises(SystemExit):
        main(["-h"])
    said = capsys.readouterr().out
    assert re.findall(r"^(\w+):$", said, re.MULTILINE) == list(GROUPS)


@pytest.mark.parametrize("name", ["cp", "cat", "concat", "convert", "merge", "mv"])
def test_the_command_of_another_program_points_to_ours(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name not in COMMANDS
    with pytest.raises(SystemExit):
        main([name, "a.nc", "b.zarr"])
    said = capsys.readouterr().err
    assert f"there is no command '{name}'; use {OTHER_NAMES[name]}" in said
    assert {word for word in OTHER_NAMES[name].split() if word in COMMANDS}


#: A value of each option that a plan of a join contains.
PLANNED: dict[str, Any] = {
    "along": "t", "merge": True, "variables": ("a", "/g/b*"), "only": ("c",), "groups": ("g",), "exclude": ("x",),
    "select": {"t": slice(0, 4), "y": slice("2020-01", "2020-06")}, "rename": {"/a": "b"}, "checksum": True,
    "portable": True, "fixed": True, "unlimited": ("t",), "layout": "zarr-v3", "char": "uint8", "compound": "struct",
    "manifest": True, "chunk_keys": "v2", "consolidated": False, "extensions": True, "zarr_conventions": True,
    "nz": True, "lossy": True, "case_insensitive": False, "format": "nc4", "join": "fill", "repack": "first",
    "adjust": ("units", "flip"), "tolerance": {"lat": 1e-5}, "expect_step": "1d", "record_sources": True,
    "preprocess": "os:getcwd", "template": {"t": 4.0},
}  # fmt: skip


def test_a_plan_holds_every_choice_of_a_request(tmp_path: Path) -> None:
    options = known_options("join")
    planned = {n for n, o in options.items() if o.planned and o.take is not Take.RULES}
    assert planned == PLANNED.keys()
    wanted = CopyRequest.of("join", None, PLANNED)
    path = tmp_path / "plan.toml"
    path.write_text(plans.text_of_plan(wanted, [], path), encoding="utf-8")
    assert CopyRequest.of("join", None, plans.read_plan(path, "join")) == wanted
    with pytest.raises(
        UnsupportedError, match=r"plan.toml:\d+: \w+: there is no such key in a plan .*nczarr.join"
    ):
        plans.read_plan(path, "copy")


def test_a_join_follows_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, source in enumerate(days(2, "t")):
        nczarr.copy(source, f"{number}.nc")
    words = ["join", "0.nc", "1.nc", "out.zarr", "-q"]
    assert main([*words, "--along", "t", "--dry-run", "--plan", "p.toml"]) == 0
    assert Path("p.toml").read_text().splitlines()[:2] == [
        "# A plan of nczarr join. Edit it, then run: nczarr join SOURCE... TARGET --plan p.toml",
        'along = "t"',
    ]
    assert main([*words, "--plan", "p.toml"]) == 0
    with nczarr.Dataset("out.zarr") as found:
        assert found["v"][:].tolist() == [0, 1, 2, 3]
    assert main([*words, "--along", "x", "--plan", "p.toml"]) == 1


def test_an_append_takes_one_source_or_many(tmp_path: Path) -> None:
    source = days(4)
    for target in (tmp_path / "a.zarr", tmp_path / "a.nc"):
        nczarr.copy(source[0], target, unlimited="time")
        assert nczarr.append(source[1], target) == ()
        assert nczarr.append(source[2:], target) == ()
        with nczarr.Dataset(target) as found:
            assert found["v"][:].tolist() == list(range(8))
    assert np.array_equal(netCDF4.Dataset(tmp_path / "a.nc")["time"][:], range(8))


def test_messages_outside_the_command_line_have_no_words_of_it() -> None:
    """Python's errors speak Python's words: `nczarr.options` has both. Commands without a function stay commands."""
    command = re.compile(r"nczarr (?:clean|check|du)\b.*--|use --force|; --force|, --force|--name\b")
    described = re.compile(r"--(?:dask|executor|virtual)\b")  # the table of variables of the environment
    found = []
    folder = Path(nczarr.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(("cli/", "convert/")) or name in ("options.py", "netcdf4/utils.py"):
            continue
        source = path.read_text("utf-8")
        if not re.search(r"(?<![\w-])--[a-z]", source):
            continue
        tree = ast.parse(source)
        documented = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }  # docstrings, also those of constants
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                is_known = command.search(node.value) or (
                    name == "system/environment.py" and described.search(node.value)
                )
                if re.search(r"(?<![\w-])--[a-z]", node.value) and not is_known:
                    found.append(f"{name}:{node.lineno}: {node.value}")
    assert not found, "\n".join(found)
