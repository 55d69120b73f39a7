"""Test `nczarr set` and `nczarr.edit`: statements in CDL's words, against netCDF4-python's methods."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr import cdl
from nczarr.cdl.read.edits import EditText
from nczarr.cli import main
from nczarr.errors import CDLError, DatasetNotFoundError, NCZarrError
from nczarr.stores import MemoryStore

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
HEADER = cdl.DumpOptions(header_only=True, name="a")
KINDS = ("directory", "zip", "memory", "file")


def stored(kind: str, folder: Path) -> Any:
    """Return a copy of the example in a store of a kind."""
    targets: dict[str, Any] = {
        "directory": folder / "a.zarr",
        "zip": folder / "a.zip",
        "memory": {},
        "file": folder / "a.nc",
    }
    nczarr.copy(EXAMPLE, targets[kind])
    return targets[kind]


def lines(target: Any) -> list[str]:
    """Return the header as CDL, in any order: a rename moves a node of a file to the end of its group."""
    return sorted(cdl.dumps(target, HEADER).splitlines())


def contents(folder: Path, target: Any) -> dict[str, bytes]:
    if isinstance(target, dict):
        return {key: bytes(value) for key, value in target.items()}
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


STATEMENTS = [
    '/ocean/temp:units = "K"',
    "ubyte /ocean/temp:flag = 3, 4",
    'string :keywords = "sea", "Île"',
    'append :history = "; units mended"',
    "delete /ocean/temp:coordinates",
    "rename :institution to institute",
    "rename variable /ocean/salt to salinity",
    "rename dimension /atmosphere/station to site",
    "rename group atmosphere to air",
    "/air/slp:valid_max = 1100.f",
    'air:title = "after the rename"',
    r":my\ odd\,name = 1s, -2s",
    "/ocean/quality_t /ocean/flag:worst = bad",
]


@pytest.mark.parametrize("kind", KINDS)
def test_statements_do_what_the_methods_of_netcdf4_do(kind: str, tmp_path: Path) -> None:
    target = stored(kind, tmp_path)
    assert nczarr.edit(target, STATEMENTS).changes == len(STATEMENTS)
    peer = tmp_path / "peer.nc"
    shutil.copyfile(EXAMPLE, peer)
    with netCDF4.Dataset(peer, "a") as ds:
        ds["/ocean/temp"].units = "K"
        ds["/ocean/temp"].flag = np.array([3, 4], "u1")
        ds.keywords = ["sea", "Île"]
        ds.history += "; units mended"
        ds["/ocean/temp"].delncattr("coordinates")
        ds.renameAttribute("institution", "institute")
        ds["/ocean"].renameVariable("salt", "salinity")
        ds["/atmosphere"].renameDimension("station", "site")
        ds.renameGroup("atmosphere", "air")
    with netCDF4.Dataset(peer, "a") as ds:
        ds["/air/slp"].valid_max = np.float32(1100)
        ds["/air"].title = "after the rename"
        ds.setncattr("my odd,name", np.array([1, -2], "i2"))
    nczarr.edit(peer, STATEMENTS[-1])  # netCDF4-python makes no attribute of an enum
    assert lines(target) == lines(peer)
    with nczarr.Dataset(target) as found, netCDF4.Dataset(EXAMPLE) as original:
        for before, after in (("/ocean/salt", "/ocean/salinity"), ("/atmosphere/slp", "/air/slp")):
            np.testing.assert_array_equal(found[after][:], original[before][:])


WRONG = {
    "there is no variable or group 'tmep'; did you mean /ocean/temp?": "tmep:units = 1",
    "there is no variable or group '/ocean/tepm'; did you mean /ocean/temp?": "/ocean/tepm:units = 1",
    "/ has no attribute 'titel'; did you mean 'title'?": "delete :titel",
    "there is no dimension 'tiem'; did you mean /time?": "rename dimension tiem to t",
    "append adds text to text": 'append /ocean/temp:scale_factor = "1"',
    "the attribute 'keywords' has 3 strings": 'append :keywords = "more"',
    "Attempt to define fill value when data already exists": "/ocean/temp:_FillValue = 3",
    "_ChunkSizes describes the storage": "/ocean/temp:_ChunkSizes = 3, 4, 5, 6",
    "name in use": "rename variable lat to lon",
    "has both text and numbers": ':title = "a", 1',
    "'=' or 'to', not 'K'": ":units K",
    "'=' or 'to', not 'latitude'": "rename variable lat latitude",
    "there is no type 'quality'": "quality /ocean/temp:q = bad",
    "a value is missing; a text without characters is": "/ocean/temp:units = ;",
}


MISSPELLED = {
    "title = 3": ["'VARIABLE:title' for an attribute of a variable", "':title' for one of the dataset"],
    'temp.units = "K"': ["'temp:units'"],
    'append history = "x"': ["'append :history' for one of the dataset"],
    "delete comment": ["'delete VARIABLE:comment'", "'delete :comment'"],
    "rename lat to x": [
        "'rename dimension lat to x'",
        "'rename variable lat to x'",
        "'rename lat:ATTRIBUTE to x'",
    ],
    "rename variable lat x": ["'rename variable lat to x'"],
    "rename group g": ["'rename group g to NEW'"],
}


@pytest.mark.parametrize("statement", MISSPELLED)
def test_a_misspelled_statement_is_told_with_the_spelling_of_cdl(statement: str) -> None:
    with pytest.raises(CDLError) as caught:
        EditText(f':title = "a; b"; {statement}')
    for words in MISSPELLED[statement]:
        assert words in str(caught.value)


@pytest.mark.parametrize("kind", ["directory", "file"])
@pytest.mark.parametrize("message", WRONG)
def test_one_wrong_statement_changes_nothing_and_is_named_with_its_place(
    message: str, kind: str, tmp_path: Path
) -> None:
    target = stored(kind, tmp_path)
    before = contents(tmp_path, target)
    for dry_run in (True, False):
        with pytest.raises(CDLError) as caught:
            nczarr.edit(target, [':title = "new"', WRONG[message], ":more = 1"], dry_run=dry_run)
        assert message in str(caught.value)
        assert caught.value.line == 2
    assert contents(tmp_path, target) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_prints_the_difference_and_writes_nothing(kind: str, tmp_path: Path) -> None:
    target = stored(kind, tmp_path)
    before = contents(tmp_path, target)
    told = nczarr.edit(target, '/ocean/temp:units = "K" ; delete :history', dry_run=True)
    assert told.changes == 2
    assert [line for line in told.difference.splitlines()[2:] if line[0] in "+-"] == [
        '-\t\t:history = "made by tests/data/make_fixtures.py" ;',
        '-  \t\ttemp:units = "degree_Celsius" ;',
        '+  \t\ttemp:units = "K" ;',
    ]
    assert contents(tmp_path, target) == before


def test_a_dry_run_needs_no_right_to_write_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = stored("file", tmp_path)
    before = contents(tmp_path, target)
    # root may write everything
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert nczarr.edit(target, ':title = "b"', dry_run=True).changes == 1
    # The rules are those of a file.
    with pytest.raises(CDLError, match="Attempt to define fill value when data already exists"):
        nczarr.edit(target, "/ocean/temp:_FillValue = 3", dry_run=True)
    with pytest.raises(NCZarrError, match="Permission denied"):
        nczarr.edit(target, ':title = "b"')
    assert contents(tmp_path, target) == before


def test_what_is_so_already_is_not_written_again(tmp_path: Path) -> None:
    target = stored("directory", tmp_path)
    statements = [':title = "t"', "rename variable lat to lat", "/ocean/temp:_FillValue = -32768"]
    assert str(nczarr.edit(target, statements)) == "1 change"
    before = {p: p.stat().st_mtime_ns for p in target.rglob("*")}
    assert str(nczarr.edit(target, statements)) == "no change"
    assert {p: p.stat().st_mtime_ns for p in target.rglob("*")} == before


def test_forty_changes_write_each_document_as_one_change_does() -> None:
    written: dict[str, int] = {}

    class Watched(MemoryStore):
        """Counts the writes of each key."""

        def set(self, key: str, value: Any) -> None:
            written[key] = written.get(key, 0) + 1
            super().set(key, value)

    def writes(statements: list[str]) -> dict[str, int]:
        store = Watched()
        nczarr.copy(EXAMPLE, store)
        written.clear()
        nczarr.edit(store, statements)
        return dict(written)

    one = writes([":a = 1", "/ocean/temp:a = 1"])
    assert one
    assert writes([f"{owner}:a{i} = {i}" for i in range(20) for owner in ("", "/ocean/temp")]) == one


def test_a_dataset_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    memory: dict[str, bytes] = {}
    for target in (
        tmp_path / "no.zarr",
        tmp_path / "no.nc",
        memory,
        f"file://{tmp_path}/no.zip#mode=nczarr,zip",
    ):
        for dry_run in (True, False):
            with pytest.raises(DatasetNotFoundError):
                nczarr.edit(target, ":a = 1", dry_run=dry_run)
    assert not memory
    assert list(tmp_path.iterdir()) == []


def test_a_group_alone_and_a_dataset_of_another_writer_are_refused(tmp_path: Path) -> None:
    target = stored("directory", tmp_path)
    with pytest.raises(NCZarrError, match="the group /ocean of the dataset"):
        nczarr.edit(target / "ocean", ":a = 1")
    with nczarr.Dataset(target, "a"), pytest.raises(NCZarrError, match="open for writing"):
        nczarr.edit(target, ":a = 1")


def test_a_file_of_statements_changes_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.zarr", "b.nc", "c.zarr"):
        nczarr.copy(EXAMPLE, name)
    nczarr.edit("c.zarr", "rename variable /ocean/temp to sst")
    Path("edits.cdl").write_text(
        '// units\n/ocean/temp:units = "K" ;\n:run = 42 ; /* one */ delete :history ;\n'
    )
    assert main(["set", "--dry-run", "-f", "edits.cdl", "a.zarr", "c.zarr", "b.nc"]) == 1
    assert capsys.readouterr().out.count('+  \t\ttemp:units = "K" ;') == 2
    assert main(["set", "-f", "edits.cdl", "a.zarr", "c.zarr", "b.nc"]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["a.zarr: 3 changes", "b.nc: 3 changes"]
    assert shown.err.startswith("nczarr: c.zarr: edits.cdl:2:1: there is no variable or group '/ocean/temp'")
    assert list(nczarr.diff("a.zarr", "b.nc")) == []
    assert main(["set", "a.zarr", ":run = 42"]) == 0
    assert capsys.readouterr().out == "a.zarr: no change\n"
    assert main(["set", "--json", "a.zarr", ":run = 43"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == 1
    assert main(["set", "a.zarr"]) == 1
    assert "no statement is given" in capsys.readouterr().err


def test_a_renamed_group_keeps_the_types_of_its_attributes(tmp_path: Path) -> None:
    target = stored("directory", tmp_path)
    with nczarr.Dataset(target, "a") as ds:
        ds.renameGroup("ocean", "sea")
    with nczarr.Dataset(target) as ds:
        assert ds["/sea/flag"]._FillValue == 2
    nczarr.copy(target, tmp_path / "back.nc")


# --- random edits

SUFFIXES = {
    "i1": "b",
    "u1": "ub",
    "i2": "s",
    "u2": "us",
    "i4": "",
    "u4": "u",
    "i8": "ll",
    "u8": "ull",
    "f4": ".f",
    "f8": ".",
}
Change = tuple[str, Callable[[], Any]]


def made(path: Path) -> Path:
    """A file with groups, and names with blanks."""
    with netCDF4.Dataset(path, "w") as ds:
        for group in (ds, ds.createGroup("g 1"), ds.createGroup("g 1/deep")):
            group.note = "text"
            group.createDimension("x", 3)
            group.createDimension("plain", 2)
            group.createVariable("x", "f8", ("x",))[:] = [1, 2, 3]
            for name in ("v", "w 2"):
                group.createVariable(name, "i2", ("plain", "x"), fill_value=-1)[:] = 7
                group[name].units = "m"
    return path


def escaped(name: str) -> str:
    return name.replace(" ", "\\ ")


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class Trial:
    """Makes random statements, each with the call of netCDF4-python that does the same."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed).choice
        self.count = 0

    def new_name(self) -> str:
        self.count += 1
        return self.pick([f"n{self.count}", f"n {self.count}", f"é{self.count}", f"n-{self.count}+"])

    def change(self, ds: Any, texts: set[tuple[str, str]]) -> Change:
        """Return a change; `texts` are the attributes of characters, by owner and name."""
        group = self.pick([ds, ds["g 1"], ds["g 1/deep"]])
        place = "".join(f"/{escaped(name)}" for name in group.path.split("/") if name)
        if self.pick(range(4)) == 0:
            return self.of_node(group, place)
        variable = self.pick([None, *(name for name in group.variables if name != "x")])
        at = place if variable is None else f"{place}/{escaped(variable)}"
        return self.of_attribute(group if variable is None else group[variable], at, texts)

    def of_node(self, group: Any, place: str) -> Change:
        kind, new = self.pick(["variable", "dimension"]), self.new_name()
        old = self.pick([name for name in getattr(group, f"{kind}s") if name != "x"])
        rename = getattr(group, f"rename{kind.title()}")
        return f"rename {kind} {place}/{escaped(old)} to {escaped(new)}", lambda: rename(old, new)

    def of_attribute(self, owner: Any, at: str, texts: set[tuple[str, str]]) -> Change:
        names = [name for name in owner.ncattrs() if name != "_FillValue"]
        characters = [name for name in names if (at, name) in texts]
        new = self.new_name()
        name = self.pick([new, *names])
        what = self.pick(["number", "text", "string", "append", "delete", "rename"])
        if what == "append" and characters:
            name = self.pick(characters)
            return f'append {at}:{escaped(name)} = "; more"', lambda: owner.setncattr(
                name, owner.getncattr(name) + "; more"
            )
        if what == "delete" and names:
            name = self.pick(names)
            return f"delete {at}:{escaped(name)}", lambda: owner.delncattr(name)
        if what == "rename" and names:
            name = self.pick(names)
            return f"rename {at}:{escaped(name)} to {escaped(new)}", lambda: owner.renameAttribute(name, new)
        if what == "text":
            text = self.pick(["a", 'say "K"', "two\nlines", "back\\slash", "x" * 50])
            return f"{at}:{escaped(name)} = {quoted(text)}", lambda: owner.setncattr(name, text)
        if what == "string":
            text = self.pick(["a", "°C", "日本"])
            return f"string {at}:{escaped(name)} = {quoted(text)}", lambda: owner.setncattr_string(name, text)
        code = self.pick(list(SUFFIXES))
        values = np.array([self.pick(range(100)) for _ in range(self.pick([1, 1, 3]))], code)
        shown = ", ".join(f"{int(value)}{SUFFIXES[code]}" for value in values)
        return f"{at}:{escaped(name)} = {shown}", lambda: owner.setncattr(name, values)


def character_attributes(path: Path) -> set[tuple[str, str]]:
    with nczarr.Dataset(path) as ds:
        nodes = [*ds._nc_node.walk(), *ds._nc_node.walk_variables()]
        return {
            (node.fqn.rstrip("/"), name)
            for node in nodes
            for name, attribute in node.attributes.items()
            if attribute.type.name == "char"
        }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_edits_are_those_of_netcdf4_python(seed: int, tmp_path: Path) -> None:
    """Six times fifty statements, ten in one update, of a file and of a hierarchy."""
    trial, peer = Trial(seed), made(tmp_path / "peer.nc")
    file, hierarchy = tmp_path / "a.nc", tmp_path / "a.zarr"
    shutil.copyfile(peer, file)
    nczarr.copy(peer, hierarchy)
    for _ in range(5):
        statements = []
        for _ in range(10):
            texts = character_attributes(peer)
            with netCDF4.Dataset(peer, "a") as ds:
                statement, change = trial.change(ds, texts)
                change()
            statements.append(statement)
        nczarr.edit(file, " ;\n".join(statements))
        nczarr.edit(hierarchy, statements)
        assert lines(file) == lines(peer), statements
        assert lines(hierarchy) == lines(peer), statements
    with netCDF4.Dataset(peer) as expected, nczarr.Dataset(hierarchy) as found:
        for group, other in ((expected, found), (expected["g 1/deep"], found["g 1/deep"])):
            for name, variable in group.variables.items():
                np.testing.assert_array_equal(other[name][:], variable[:])
