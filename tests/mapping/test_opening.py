"""Detect the content of paths and URLs; errors name what was searched for."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

import nczarr
from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError
from nczarr.mapping import create_dataset, open_dataset
from nczarr.model import DOUBLE, FLOAT, INT, INT64, SHORT, STRING, Attribute, Dataset, Variable
from nczarr.stores import MemoryStore

ORIGINAL = Path(__file__).parents[1] / "data" / "classic.nc"
LAYOUTS = ("nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019")


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "form", ["{}.zarr", "{}.zip", "file://{}.zarr#mode=nczarr,file", "file://{}.zip#mode=nczarr,zip"]
)
def test_every_form_opens_by_itself(form: str, layout: str, consolidated: bool, tmp_path: Path) -> None:
    target = form.format(tmp_path / "d")
    stored = tmp_path / ("d.zip" if ".zip" in form else "d.zarr")
    nczarr.copy(ORIGINAL, stored, layout=layout, consolidated=consolidated, lossy=True)
    with nczarr.Dataset(target) as dataset, nczarr.Dataset(ORIGINAL) as original:
        # Only a listing knows the order of plain Zarr that is not consolidated.
        ordered = consolidated or not layout.startswith("zarr")
        names = [list(d.variables) if ordered else sorted(d.variables) for d in (dataset, original)]
        assert names[0] == names[1]
        for name, variable in original.variables.items():
            assert dataset[name].dtype == variable.dtype
            assert dataset[name][...].tolist() == variable[...].tolist()


def test_what_is_something_else_is_named(tmp_path: Path) -> None:
    looked_for = r"looked for zarr\.json, \.zmetadata, \.zgroup and \.zarray"
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "folder" / "notes.md").write_text("hello")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "x")
    nczarr.copy(ORIGINAL, tmp_path / "d.zarr")
    wrong: list[tuple[str, type[NCZarrError], str]] = [
        ("empty", DatasetNotFoundError, f"{looked_for}; the store is empty"),
        ("folder", DatasetNotFoundError, f"{looked_for}; the store contains inside/, notes.md"),
        ("other.zip", DatasetNotFoundError, f"{looked_for}; the store contains a.txt"),
        ("text.txt", NCZarrError, "Unknown file format"),
        ("nothing.zarr", DatasetNotFoundError, "No such file or directory"),
        ("d.zarr#mode=nczarr,zip", StoreError, "a directory, not a zip file"),
    ]
    for name, error, said in wrong:
        with pytest.raises(error, match=said) as caught:
            nczarr.Dataset(str(tmp_path / name))
        assert name.partition("#")[0] in str(caught.value)
    for target, said in (("nosuch://x", "nosuch"), ("", "not a path"), (3, "not a path")):
        with pytest.raises((StoreError, DatasetNotFoundError), match=said):
            nczarr.Dataset(target)
    with pytest.raises(DatasetNotFoundError, match=f"{looked_for}; the store is empty"):
        nczarr.Dataset("memory://nothing-here/d.zarr")


def test_attributes_that_look_alike_are_not_taken_for_each_other() -> None:
    """Equal attributes of variables are made once; what differs in any way is not equal."""
    alike = (
        Attribute.of("a", 1, SHORT),
        Attribute.of("a", 1, INT64),
        Attribute.of("a", 1.0, DOUBLE),
        Attribute.of("a", 1.0, FLOAT),
        Attribute.of("a", 0.0, DOUBLE),
        Attribute.of("a", -0.0, DOUBLE),
        Attribute.of("a", "1"),
        Attribute.of("a", ["1"], STRING),
        Attribute.of("a", 1, SHORT),
    )
    variables = tuple(Variable(f"v{i}", INT, (), attributes=(a,)) for i, a in enumerate(alike))
    fills = tuple(
        Variable(f"f{t.name}", t, (), attributes=(Attribute.of("_FillValue", 1, t),))
        for t in (SHORT, INT, DOUBLE)
    )
    store = MemoryStore()
    create_dataset(store, Dataset("d", variables=variables + fills)).close()
    with open_dataset(store) as opened:
        read = opened.dataset.variables
        for before, after in zip(variables + fills, read, strict=True):
            assert before.attributes == after.attributes
            assert before.attributes[0].values.tobytes() == after.attributes[0].values.tobytes()
        first, last = read[0].attributes[0], read[len(alike) - 1].attributes[0]
        assert first is last
        with pytest.raises(ValueError, match="read-only"):
            first.values[0] = 2


def test_an_opening_for_reading_creates_nothing(tmp_path: Path) -> None:
    """The trial whether a file system ignores case created a file beside the root's document, and removed it."""
    path = tmp_path / "a.zarr"
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", 2)
    os.utime(path, ns=(1, 1))
    nczarr.open(path).close()
    with nczarr.Dataset(path) as ds:
        assert list(ds.dimensions) == ["x"]
    assert path.stat().st_mtime_ns == 1
