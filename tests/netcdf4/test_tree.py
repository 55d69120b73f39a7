"""Groups, renaming, settings, lookup by attributes, text form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr import errors, model
from nczarr.mapping import open_dataset

Same = Callable[[Callable[[Any, str, Any], None]], None]


def build(ds: Any) -> None:
    ds.createDimension("x", 3)
    ds.createDimension("t", None)
    v = ds.createVariable("v", "i4", ("t", "x"), fill_value=-1)
    v.units = "K"
    v[:2] = np.arange(6).reshape(2, 3)
    g = ds.createGroup("g")
    g.createDimension("y", 2)
    seq = g.createVLType("i4", "seq")
    w = g.createVariable("w", "f8", ("x", "y"))
    w[:] = 1.5
    s = g.createGroup("h").createVariable("s", seq, ("y",))
    s[0] = np.arange(3, dtype="i4")


@pytest.mark.parametrize("stored", [False, True], ids=["at once", "after sync"])
def test_renaming(same: Same, stored: bool) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            build(ds)
            if stored:
                ds.sync()
            v, x, g = ds["v"], ds.dimensions["x"], ds["g"]
            ds.renameDimension("x", "lon")
            ds.renameVariable("v", "temp")
            log(
                v.name, v.dimensions, x.name, list(ds.dimensions), list(ds.variables), v[:], g["w"].dimensions
            )
            ds.renameGroup("g", "ocean")
            log(list(ds.groups), ds["ocean"]["w"][:], ds["ocean/h/s"][:])
            v[2] = 7
            for action in (
                lambda: ds.renameDimension("nope", "a"),
                lambda: ds.renameVariable("nope", "a"),
                lambda: ds.renameGroup("nope", "a"),
                lambda: ds.renameDimension("t", "lon"),
                lambda: v.renameAttribute("units", "unit"),
            ):
                log.attempt(action)
        with nc.Dataset(path) as ds:
            log(
                sorted(ds.variables),
                sorted(ds.groups),
                sorted(ds.dimensions),
                ds["temp"][:],
                ds["temp"].ncattrs(),
            )
            log(ds["ocean/w"][:], ds["ocean/h/s"][:], ds["ocean/w"].dimensions, list(ds["ocean"].vltypes))

    same(script)


def test_renaming_to_a_taken_name() -> None:
    with ours.Dataset({}, "w") as ds:
        build(ds)
        ds.createVariable("w", "i4")
        for action in (
            lambda: ds.renameVariable("v", "w"),
            lambda: ds.renameVariable("v", "g"),
            lambda: ds.renameGroup("g", "v"),
            lambda: ds.renameVariable("v", "a/b"),
        ):
            with pytest.raises(RuntimeError):
                action()
        assert list(ds.variables) == ["v", "w"]
        assert list(ds.groups) == ["g"]


def test_renaming_keeps_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        build(ds)
    before = model_of(path)
    with ours.Dataset(path, "a") as ds:
        ds.renameGroup("g", "k")
        ds.renameVariable("v", "u")
        ds.renameDimension("x", "z")
    with ours.Dataset(path, "a") as ds:
        ds.renameDimension("z", "x")
        ds.renameVariable("u", "v")
        ds.renameGroup("k", "g")
    after = model_of(path)
    assert [d for d in model.compare(before, after) if d.what != "dimensions"] == []


def model_of(path: Path) -> model.Dataset:
    return open_dataset(str(path)).dataset


def test_settings_reach_all_groups(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            build(ds)
            for method, names in (
                ("set_auto_mask", ["mask"]),
                ("set_auto_scale", ["scale"]),
                ("set_auto_maskandscale", ["mask", "scale"]),
                ("set_always_mask", ["always_mask"]),
                ("set_auto_chartostring", ["chartostring"]),
            ):
                for value in (False, True):
                    getattr(ds, method)(value)
                    for name in names:
                        log(getattr(ds["v"], name), getattr(ds["g/w"], name), getattr(ds["g/h/s"], name))
            ds.set_auto_mask(False)
            log(ds.createVariable("new", "i4").mask)
            log(ds.__orthogonal_indexing__, ds["v"].__orthogonal_indexing__, ds.keepweakref, ds.auto_complex)

    same(script)


def test_variables_by_attributes(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            for name, axis, units in (("a", "X", "m"), ("b", "Y", "m"), ("c", None, "s")):
                v = ds.createVariable(name, "f4")
                v.units = units
                if axis:
                    v.axis = axis
            ds.createGroup("g").createVariable("d", "f4").units = "m"
            for kwargs in (
                {},
                {"units": "m"},
                {"units": "m", "axis": "X"},
                {"axis": lambda v: v in ("X", "Y")},
                {"axis": lambda v: v is None},
                {"units": lambda v: True, "axis": "Y"},
                {"nope": "x"},
            ):
                log([v.name for v in ds.get_variables_by_attributes(**kwargs)])

    same(script)


def test_text_form(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        def show(thing: Any) -> str:
            return repr(thing).replace("netCDF4.", "").replace("nczarr.", "").replace("HDF5", "ZARR")

        with nc.Dataset(path, "w") as ds:
            build(ds)
            ds.title = "x"
            ds.createEnumType("i1", "e", {"a": 1})
            ds.createVariable("u", "u1")
            ds.createVariable("n", "f4", (), fill_value=False)
            ds.createVariable("text", str, ("x",))
            for thing in (
                ds,
                ds["g"],
                ds["v"],
                ds["g/w"],
                ds["g/h/s"],
                ds["u"],
                ds["n"],
                ds["text"],
                *ds.dimensions.values(),
            ):
                log(show(thing), str(thing) == repr(thing))
            log(show(ds.enumtypes["e"]), show(ds["g"].vltypes["seq"]))

    same(script)


def test_groups_and_their_parents(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            g = nc.Group(ds, "g")
            ds.groups["g"] = g
            log(g.path, g.name, g.parent.path, g.data_model, isinstance(g, nc.Dataset), g.filepath() == path)
            log.attempt(lambda: g.close())

    same(script)


def test_what_the_core_raises_has_the_names_of_the_interface(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w") as dataset:
        dataset.createDimension("x", 2)
        with pytest.raises(errors.EditError, match="in use"):
            dataset.createDimension("x", 3)
        with pytest.raises(errors.UnknownNameError, match="nothing"):
            dataset.renameDimension("nothing", "y")
        with pytest.raises(errors.RangeError, match="negative"):
            dataset.createDimension("y", -1)
        with pytest.raises(errors.NodeAttributeError, match="illegal characters"):
            dataset.setncattr("a/b", 1)
    with pytest.raises(errors.EditError, match="closed"):
        dataset.sync()
    with ours.Dataset(tmp_path / "a.zarr") as dataset, pytest.raises(errors.ReadOnlyError):
        dataset.createDimension("y", 3)


@pytest.mark.parametrize("kind", ["variables", "dimensions", "groups"])
def test_views_that_are_kept_show_what_is_made_later(kind: str, same: Callable[[Any], None]) -> None:
    def script(library: Any, path: str, log: Any) -> None:
        with library.Dataset(path, "w") as ds:

            def make(name: str) -> None:
                ds.createDimension(name, 1)
                ds.createVariable(name, "i4")
                ds.createGroup("g" + name)

            make("a")
            named = getattr(ds, kind)
            keys, values, items = named.keys(), named.values(), named.items()
            make("b")
            last = list(named)[-1]
            log(
                len(keys),
                len(values),
                len(items),
                list(keys),
                [v.name for v in values],
                [n for n, _ in items],
            )
            log(last in keys, "no" in keys, named[last] in values, 1 in values, (last, named[last]) in items)
            log(list(reversed(keys)), [v.name for v in reversed(values)], [n for n, _ in reversed(items)])
            log(repr(keys), keys == {*named}, keys - {last}, keys & {last}, dict(items) == named)
            log(repr(values)[:12], repr(items)[:12])

    same(script)
