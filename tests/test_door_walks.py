"""Walk through each door of docs/trust.md with what its rule forbids: a door without a walk fails.

The tests that the table names try every case of a rule; these try each entrance once.
"""

from __future__ import annotations

import contextlib
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trust_table import quoted, rows

import nczarr
import nczarr.xarray
from nczarr import cdl
from nczarr.cli import main
from nczarr.errors import CDLError, NCZarrError
from nczarr.mapping.dataset.changes import writing_alone
from nczarr.netcdf4.values.changes import ChangedValueWarning
from nczarr.stores import open_store
from nczarr.view import serve

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")
netCDF4 = pytest.importorskip("netCDF4")


@dataclass
class Place:
    """A directory with the output of commands."""

    path: Path
    capsys: pytest.CaptureFixture[str]

    def at(self, name: str) -> Path:
        return self.path / name

    def run(self, *words: object) -> tuple[int, str]:
        """Run a command; return its exit status, and all that it prints."""
        self.capsys.readouterr()
        status = main([str(word) for word in words])
        printed = self.capsys.readouterr()
        return status, printed.out + printed.err

    def refuses(self, message: str, *words: object) -> None:
        """Run a command that fails with a message."""
        status, printed = self.run(*words)
        assert message in printed
        assert status

    def names(self, message: str, *words: object) -> None:
        """Run a command that prints a warning or a finding, whatever its status is."""
        assert message in self.run(*words)[1]


Walk = Callable[[Place], None]


# --- a value comes back from the stored variable as it was given

LOST = "would be stored as -255.36"


def packed(path: Path) -> Path:
    """A dataset of hundredths in two bytes, which end at 327.67."""
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", None)
        ds.createVariable("v", "i2", ("x",)).scale_factor = 0.01
        ds["v"][:] = [1.0, 2.0]
    return path


def dataset_too_large(place: Place) -> None:
    """The casts are netCDF4-python's; the first value that changes is named."""
    with (
        nczarr.Dataset(packed(place.at("a.zarr")), "a") as ds,
        pytest.warns(ChangedValueWarning, match="400.0 at .* is stored as -255.36"),
    ):
        ds["v"][1:2] = np.array([400.0])


TOO_LARGE = xr.Dataset({"v": ("x", [400.0])})


def store_too_large(place: Place) -> None:
    with pytest.raises(NCZarrError, match=LOST):
        TOO_LARGE.nczarr.to_zarr(packed(place.at("a.zarr")), append_dim="x")


def file_too_large(place: Place) -> None:
    with pytest.raises(NCZarrError, match=LOST):
        xr.Dataset({"v": ("x", [1.0, 400.0])}).nczarr.to_netcdf(packed(place.at("a.nc")), mode="a")


def append_too_fine(place: Place) -> None:
    """Append a time that the stored days cannot hold."""
    for name, unit, number in (("a", "days", 1), ("b", "hours", 49)):
        units = f'time:units = "{unit} since 2000-01-01"'
        head = f"netcdf a {{ dimensions: time = UNLIMITED; variables: int time(time); {units};"
        nczarr.copy(cdl.loads(f"{head} data: time = {number}; }}"), place.at(f"{name}.zarr"))
    before = nczarr.digest(place.at("a.zarr"))
    message = "2000-01-03T01:00:00 at [0] would be stored as 2000-01-03T00:00:00"
    place.refuses(message, "append", "-q", place.at("b.zarr"), place.at("a.zarr"))
    assert nczarr.digest(place.at("a.zarr")) == before


# --- a value of an enum is one of its members


def with_enum(path: Path) -> Path:
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", None)
        type_ = ds.createEnumType(np.uint8, "cloud", {"clear": 0, "stratus": 1})
        ds.createVariable("v", type_, ("x",))[:] = [0, 1, 0]
    return path


def no_member(place: Place) -> Any:
    with xr.open_dataset(with_enum(place.at("a.zarr")), engine="nczarr") as found:
        good = found.load()
    return good.assign(v=good.v.copy(data=np.array([0, 7, 1], "u1")))


def enum_door(use: Callable[[Any, Place], object]) -> Walk:
    def walk(place: Place) -> None:
        data = no_member(place)
        with pytest.raises(NCZarrError, match=r"7.* is no member of the enum"):
            use(data, place)

    return walk


def dataset_no_member(place: Place) -> None:
    with (
        nczarr.Dataset(with_enum(place.at("a.zarr")), "a") as ds,
        pytest.raises(ValueError, match="illegal value to Enum"),
    ):
        ds["v"][1] = 7


def values_of(dataset: Any) -> np.ndarray:
    return dataset.variable_at("/v").data.read((slice(0, 3, 1),))


# --- a constant that its type changes is named


def gen_constant(place: Place) -> None:
    place.at("a.cdl").write_text("netcdf a { variables: byte b; data: b = 200; }")
    place.names("200", "gen", place.at("a.cdl"), "-o", place.at("a.zarr"))


# --- a node that is listed and missing is named and left out

MISSING = "the group 'G' is listed but missing"


def with_lost_group(place: Place) -> Path:
    path = place.at("lost.zarr")
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("time", None)
        for group in (ds, ds.createGroup("G")):
            group.createVariable("v", "f8", ("time",))[:] = [1, 2, 3]
    shutil.rmtree(path / "G")
    return path


def lost_group(*words: str) -> Walk:
    def walk(place: Place) -> None:
        path = with_lost_group(place)
        known = {
            "SOURCE": path,
            "OUT": place.at("out.png"),
            "SCAN": place.at("out.parquet"),
        }
        place.names(MISSING, *[known.get(word, word) for word in words])

    return walk


def lost_group_in_python(use: Callable[[Path, Place], object]) -> Walk:
    def walk(place: Place) -> None:
        path = with_lost_group(place)
        with pytest.warns(UserWarning, match=MISSING):
            use(path, place)

    return walk


def copy_lost_group(place: Place) -> None:
    place.refuses("'G' is listed but missing", "copy", "-q", with_lost_group(place), place.at("b.zarr"))
    assert not place.at("b.zarr").exists()


def append_lost_group(place: Place) -> None:
    place.names(MISSING, "append", "-q", with_lost_group(place), packed(place.at("b.zarr")))


# --- a chunk that a manifest records and that is missing is an error

GONE = "v/c/0"


def with_lost_chunk(place: Place) -> Path:
    path = place.at("chunk.zarr")
    nczarr.copy(
        cdl.loads("netcdf a { dimensions: x = 3; variables: int v(x); data: v = 1, 2, 3; }"),
        path,
        manifest=True,
    )
    (path / "v" / "c" / "0").unlink()
    return path


def lost_chunk(*words: str) -> Walk:
    def walk(place: Place) -> None:
        known = {"SOURCE": with_lost_chunk(place), "OUT": place.at("b.zarr")}
        place.refuses(GONE, *[known.get(word, word) for word in words])

    return walk


def dataset_lost_chunk(place: Place) -> None:
    with nczarr.Dataset(with_lost_chunk(place)) as ds, pytest.raises(NCZarrError, match=GONE):
        ds["v"][:]


def open_lost_chunk(place: Place) -> None:
    with nczarr.open(with_lost_chunk(place)) as ds, pytest.raises(NCZarrError, match=GONE):
        ds["v"][:]


# --- the dimension of a variable belongs to its group, or to a group above it

OUT_OF_REACH = "the dimension '/g/gx' is out of reach"
BEYOND = "netcdf d { group: g { dimensions: gx = 3; } group: h { variables: int v(/g/gx); } }"


def sibling(path: Path) -> Path:
    """A file that netCDF4-python writes, and cannot read."""
    with netCDF4.Dataset(path, "w") as file:
        gx = file.createGroup("g").createDimension("gx", 3)
        file.createGroup("h").createVariable("v", "i4", (gx,))
        file.createDimension("x", 3)
    return path


def create_beyond(place: Place) -> None:
    with nczarr.Dataset(place.at("a.zarr"), "w") as ds:
        gx = ds.createGroup("g").createDimension("gx", 3)
        with pytest.raises(NCZarrError, match=OUT_OF_REACH):
            ds.createGroup("h").createVariable("v", "i4", (gx,))


# --- codecs


def unknown_codec(message: str, use: Callable[[Place], object]) -> Walk:
    def walk(place: Place) -> None:
        with pytest.raises((NCZarrError, ValueError), match=message):
            use(place)
        assert not place.at("b.zarr").exists()

    return walk


# --- rights


def rights(name: str, use: Callable[[Path, Place], object]) -> Walk:
    def walk(place: Place) -> None:
        target = place.at(name)
        nczarr.Dataset(target, "w").close()
        target.chmod(0o700)
        use(target, place)
        assert stat.S_IMODE(target.stat().st_mode) == 0o700

    return walk


def gen_over(target: Path, place: Place) -> None:
    place.at("a.cdl").write_text('netcdf a { :title = "new"; }')
    assert place.run("gen", "--overwrite", "-o", target, place.at("a.cdl")) == (0, "")


PLAIN = xr.Dataset({"v": ("x", [1.0, 2.0])})

# --- a command that changes metadata or removes data holds the dataset alone


def held(*words: str) -> Walk:
    def walk(place: Place) -> None:
        path = packed(place.at("a.zarr"))
        known = {"TARGET": path, "SOURCE": packed(place.at("b.zarr"))}
        before = nczarr.digest(path)
        with open_store(path, "r+") as store, writing_alone(store):
            place.refuses("open for writing", *[known.get(word, word) for word in words])
        assert nczarr.digest(path) == before

    return walk


def append_to_other_steps(place: Place) -> None:
    text = "netcdf a {{ dimensions: time = {} ; variables: int time(time) ; data: time = {} ; }}"
    nczarr.copy(cdl.loads(text.format(2, "1, 2")), place.at("a.zarr"))
    nczarr.copy(cdl.loads(text.format(1, "1")), place.at("b.zarr"))
    region = ("--region", "time=1:2")
    place.refuses("at the index 1", "append", "-q", place.at("b.zarr"), place.at("a.zarr"), *region)


def clean_beside_a_writer(place: Place) -> None:
    """The command removes nothing of a writer at work: its new chunks are in no document yet."""
    path = packed(place.at("a.zarr"))
    with nczarr.Dataset(path, "a") as ds:
        ds["v"][2:5] = [3.0, 4.0, 5.0]
        ds.createVariable("w", "i4", ("x",))[:] = [1, 2, 3, 4, 5]
        place.run("clean", path)
    with nczarr.Dataset(path) as ds:
        assert ds["v"][:].tolist() == pytest.approx([1, 2, 3, 4, 5])
        assert ds["w"][:].tolist() == [1, 2, 3, 4, 5]


# --- a name that a user types has one notation

NAMES = ["/g\\ 1/a\\,b", "/g 1/a\\,b"]


def with_names(path: Path) -> Path:
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", 2)
        ds.createGroup("g 1").createVariable("a,b", "f8", ("x",))[:] = [1, 2]
    return path


def both_names(*words: str) -> Walk:
    """Run a command for both forms of a name, and for a name that does not exist."""

    def walk(place: Place) -> None:
        path = with_names(place.at("a.zarr"))
        outputs = set()
        for number, name in enumerate([*NAMES, "/g 1/none"]):
            known = {
                "SOURCE": path,
                "NAME": name,
                "OUT": place.at(f"{number}.zarr"),
                "PNG": place.at(f"{number}.png"),
            }
            status, printed = place.run(*[known.get(word, word) for word in words])
            assert (status == 0) == (name in NAMES), printed
            if status == 0:
                outputs.add(printed)
        assert len(outputs) == 1

    return walk


def view_names(place: Place) -> None:
    path = with_names(place.at("a.zarr"))
    for name in NAMES:
        serve(path, variable=name, open_browser=False).close()
    with pytest.raises(NCZarrError, match="none"):
        serve(path, variable="/g 1/none", open_browser=False)


def gen_codec(place: Place) -> None:
    codecs = '[{\\"name\\": \\"nothing\\"}]'
    text = f'netcdf a {{ dimensions: x = 2; variables: int v(x); v:_Codecs = "{codecs}"; }}'
    place.at("a.cdl").write_text(text)
    place.refuses("nothing", "gen", "-o", place.at("b.zarr"), place.at("a.cdl"))
    assert not place.at("b.zarr").exists()


def create_with_codec(place: Place) -> None:
    with nczarr.Dataset(place.at("a.zarr"), "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("v", "i4", ("x",), compression="nothing")


def warns_beyond(use: Callable[[Path, Place], object]) -> Walk:
    """Change a file with a dimension out of reach: it is named, and read as a dimension of the variable itself."""

    def walk(place: Place) -> None:
        with pytest.warns(UserWarning, match=OUT_OF_REACH):
            use(sibling(place.at("a.nc")), place)

    return walk


def store_beyond(place: Place) -> None:
    tree = xr.DataTree.from_dict({"/g": xr.Dataset({"w": ("gx", [1, 2, 3])}), "/h": xr.Dataset()})
    tree["/h"].dataset = xr.Dataset({"v": ("gx", [1, 2, 3])})
    tree.nczarr.to_zarr(place.at("a.zarr"))
    with nczarr.Dataset(place.at("a.zarr")) as ds:
        assert ds["/h/v"].get_dims()[0].group().path == "/h"


def file_beyond(place: Place) -> None:
    tree = xr.DataTree.from_dict(
        {"/g": xr.Dataset({"w": ("gx", [1, 2, 3])}), "/h": xr.Dataset({"v": ("gx", [1, 2, 3])})}
    )
    tree.nczarr.to_netcdf(place.at("a.nc"))
    with netCDF4.Dataset(place.at("a.nc")) as ds:
        assert ds["/h/v"].get_dims()[0].group().path == "/h"


def gen_beyond(place: Place) -> None:
    place.at("a.cdl").write_text(BEYOND)
    place.refuses(OUT_OF_REACH, "gen", "-o", place.at("a.zarr"), place.at("a.cdl"))
    assert not place.at("a.zarr").exists()


def check_beyond(place: Place) -> None:
    """Rewrite the reference in the documents, as another program may."""
    path = place.at("a.zarr")
    nczarr.copy(cdl.loads(BEYOND.replace("/g/gx", "gy").replace("h {", "h { dimensions: gy = 3;")), path)
    for file in path.rglob("zarr.json"):
        file.write_text(file.read_text().replace('"/h/gy"', '"/g/gx"'))
    place.refuses("out of reach", "check", path)


#: The walks of each rule, by the first words of the rule and by the door.
# --- statements that change metadata are all tried before the first byte

NO_W = "<cdl>:2:1: there is no variable or group 'w'"
MISTAKEN = [':title = "new"', 'w:units = "K"']


def edited(change: Callable[[Path, Place], object]) -> Walk:
    """One of two statements names no variable: neither has an effect."""

    def walk(place: Place) -> None:
        for name in ("a.zarr", "a.nc"):
            target = packed(place.at(name))
            before = list(nczarr.Dataset(target).ncattrs())
            with contextlib.suppress(CDLError):  # the command has printed its own
                change(target, place)
            with nczarr.Dataset(target) as ds:
                assert ds.ncattrs() == before == []

    return walk


WALKS: dict[str, dict[str, Walk]] = {
    "a value comes back": {
        "Dataset": dataset_too_large,
        "to_zarr": store_too_large,
        "to_netcdf": file_too_large,
        "append": append_too_fine,
    },
    "a value of an enum": {
        "Dataset": dataset_no_member,
        "to_zarr": enum_door(lambda data, place: data.nczarr.to_zarr(place.at("b.zarr"))),
        "to_netcdf": enum_door(lambda data, place: data.nczarr.to_netcdf(place.at("b.nc"))),
        "from_xarray": enum_door(lambda data, _: values_of(nczarr.from_xarray(data))),
        "to_model": enum_door(lambda data, _: values_of(data.nczarr.to_model())),
    },
    "a constant that its type changes": {"gen": gen_constant},
    "a node that is listed and missing": {
        "open": lost_group_in_python(lambda path, _: nczarr.open(path).close()),
        "Dataset": lost_group_in_python(lambda path, _: nczarr.Dataset(path).close()),
        "MFDataset": lost_group_in_python(lambda path, _: nczarr.MFDataset([path], aggdim="time").close()),
        "copy": copy_lost_group,
        "join": lost_group("join", "-q", "SOURCE", "SOURCE", "OUT"),
        "append": append_lost_group,
        "scan": lost_group("scan", "-q", "-o", "SCAN", "SOURCE"),
        **{name: lost_group(name, "SOURCE") for name in ("dump", "info", "tree", "ls", "digest", "sources")},
        "diff": lost_group("diff", "SOURCE", "SOURCE"),
        "check": lost_group("check", "SOURCE"),
        "repair": lost_group("repair", "SOURCE"),
        "plot": lost_group("plot", "SOURCE", "/v", "-o", "OUT"),
        "view": lost_group_in_python(lambda path, _: serve(path, open_browser=False).close()),
    },
    "a chunk that a manifest records": {
        "open": open_lost_chunk,
        "Dataset": dataset_lost_chunk,
        "copy": lost_chunk("copy", "-q", "SOURCE", "OUT"),
        "dump": lost_chunk("dump", "SOURCE"),
        "diff": lost_chunk("diff", "SOURCE", "SOURCE"),
        "digest": lost_chunk("digest", "SOURCE"),
        "check": lost_chunk("check", "--data", "SOURCE"),
    },
    "the dimension of a variable": {
        "Dataset": create_beyond,
        "to_zarr": store_beyond,
        "to_netcdf": file_beyond,
        "copy": warns_beyond(lambda path, place: nczarr.copy(path, place.at("b.zarr"), lossy=True)),
        "gen": gen_beyond,
        "dump": lambda place: place.names(OUT_OF_REACH, "dump", sibling(place.at("a.nc"))),
        "check": check_beyond,
    },
    "a name that a user types": {
        "copy": both_names("copy", "-q", "-V", "NAME", "SOURCE", "OUT"),
        "dump": both_names("dump", "-v", "NAME", "SOURCE"),
        "plot": both_names("plot", "SOURCE", "NAME", "-o", "PNG"),
        "view": view_names,
        "zom": both_names("zom", "--path", "NAME", "SOURCE"),
    },
    "a codec is stored": {
        "Dataset": unknown_codec("nothing", create_with_codec),
        "to_zarr": unknown_codec(
            "nothing",
            lambda place: PLAIN.nczarr.to_zarr(place.at("b.zarr"), encoding={"v": {"codecs": ["nothing"]}}),
        ),
        "copy": unknown_codec(
            "nothing",
            lambda place: nczarr.copy(packed(place.at("a.zarr")), place.at("b.zarr"), compression="nothing"),
        ),
        "gen": gen_codec,
    },
    "what replaces a file or directory": {
        "Dataset": rights("a.zarr", lambda target, _: nczarr.Dataset(target, "w").close()),
        "to_zarr": rights("a.zarr", lambda target, _: PLAIN.nczarr.to_zarr(target, mode="w")),
        "to_netcdf": rights("a.nc", lambda target, _: PLAIN.nczarr.to_netcdf(target)),
        "copy": rights(
            "a.zarr", lambda target, place: nczarr.copy(packed(place.at("b.zarr")), target, overwrite=True)
        ),
        "gen": rights("a.nc", gen_over),
    },
    "the steps of a region": {"append": append_to_other_steps},
    "a command that changes metadata": {
        "append": held("append", "-q", "SOURCE", "TARGET"),
        "repair": held("repair", "TARGET"),
        "consolidate": held("consolidate", "TARGET"),
        "rm": held("rm", "--yes", "TARGET"),
    },
    "statements that change metadata": {
        "edit": edited(lambda target, place: nczarr.edit(target, MISTAKEN)),
        "set": edited(lambda target, place: place.refuses(NO_W, "set", target, *MISTAKEN)),
    },
    "the remains of a writer": {"clean": clean_beside_a_writer},
}


def doors() -> list[tuple[str, str]]:
    """Return the rules of the table with each of their doors."""
    return [(rule, door) for rule, _, cell, _ in rows() for door in quoted(cell)]


def walks_of(rule: str) -> dict[str, Walk]:
    return next((walks for words, walks in WALKS.items() if rule.startswith(words)), {})


def test_every_door_of_the_table_has_a_walk_and_every_walk_a_door() -> None:
    walked = {(rule, door) for rule, *_ in rows() for door in walks_of(rule)}
    assert walked == set(doors())
    assert sum(map(len, WALKS.values())) == len(doors())


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(("rule", "door"), doors(), ids=[f"{door}-{rule[:30]}" for rule, door in doors()])
def test_a_door_lets_nothing_through_that_its_rule_forbids(
    rule: str, door: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walks_of(rule)[door](Place(tmp_path, capsys))
