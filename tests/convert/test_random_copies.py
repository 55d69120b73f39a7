"""Compare random copies (subsets, joins, appends, resumes) with numpy on the values that netCDF4 wrote."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import cftime
import netCDF4
import numpy as np
import pytest

import nczarr

#: So many copies for each test, other ones each time: ``NCZARR_PROGRAMS=1000``. Without it 12, the same each time.
PROGRAMS = int(os.environ.get("NCZARR_PROGRAMS", 0))
SEEDS = random.sample(range(10**9), PROGRAMS) if PROGRAMS else range(12)
KINDS = {"NETCDF4": "nc4", "NETCDF4_CLASSIC": "nc7", "NETCDF3_CLASSIC": "nc3", "NETCDF3_64BIT_DATA": "nc5"}
CLASSIC_TYPES = ["i1", "i2", "i4", "f4", "f8", "S1"]
ALL_TYPES = [*CLASSIC_TYPES, "u1", "u2", "u4", "i8", "u8", "text", "enum", "ragged"]


@dataclass(frozen=True)
class Made:
    """A variable as it is to be: a field of any type, or a coordinate."""

    type: str
    dimensions: tuple[str, ...]
    values: np.ndarray
    attributes: dict[str, Any]

    def part(self, select: dict[str, slice]) -> Made:
        """What a selection leaves of it."""
        region = (*(select.get(d, slice(None)) for d in self.dimensions), ...)
        return replace(self, values=self.values[region])


Dataset = dict[str, Made]


def random_values(dice: random.Random, type_: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(dice.randrange(1 << 30))
    if type_ in ("text", "ragged"):
        values = np.empty(shape, object)
        for index in np.ndindex(*shape):
            count = dice.randrange(4)
            values[index] = "aé0"[:count] if type_ == "text" else np.arange(count, dtype="i4")
        return values
    if type_ == "S1":
        return np.asarray(rng.choice(np.array([b"a", b"z", b" ", b"\0"], "S1"), shape), "S1")
    if type_ == "enum":
        return rng.integers(0, 3, shape).astype("i1")
    if type_[0] == "f":
        return np.where(rng.random(shape) < 0.1, np.nan, rng.standard_normal(shape)).astype(type_)
    limits = np.iinfo(type_)
    return rng.integers(limits.min, limits.max, shape, np.dtype(type_), endpoint=True)


def random_dataset(dice: random.Random, classic: bool) -> Dataset:
    lengths = {"time": dice.randint(1, 9), "y": dice.randint(1, 7), "x": dice.randint(1, 5)}
    days = {"units": "days since 2019-12-28", "calendar": dice.choice(["standard", "noleap"])}
    y = np.linspace(-60, 60, lengths["y"]) if lengths["y"] > 1 else np.array([5.0])
    found = {
        "/time": Made("f8", ("time",), np.arange(lengths["time"]) * dice.choice([0.5, 1.0, 31.0]), days),
        "/y": Made("f8", ("y",), y[:: dice.choice([1, -1])], {"units": "degrees_north"}),
    }
    for number in range(dice.randint(1, 4)):
        type_ = dice.choice(CLASSIC_TYPES if classic else ALL_TYPES)
        dimensions = tuple(d for d in lengths if dice.random() < 0.7)
        if type_ == "ragged":
            dimensions = dimensions or ("x",)
        values = random_values(dice, type_, tuple(lengths[d] for d in dimensions))
        group = "/" if classic or dice.random() < 0.7 else "/g/"
        found[f"{group}v{number}"] = Made(type_, dimensions, values, {"long_name": f"number {number}"})
    return found


def write(dice: random.Random, path: Path, dataset: Dataset, kind: str) -> None:
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for variable in dataset.values():
            for dimension, length in zip(variable.dimensions, variable.values.shape, strict=True):
                if dimension not in file.dimensions:
                    file.createDimension(dimension, None if dimension == "time" else length)
        types: dict[str, Callable[[], Any]] = {
            "text": lambda: str,
            "enum": lambda: (
                file.enumtypes.get("e") or file.createEnumType("i1", "e", {"a": 0, "b": 1, "c": 2})
            ),
            "ragged": lambda: file.vltypes.get("r") or file.createVLType("i4", "r"),
        }
        for fqn, made in dataset.items():
            how: dict[str, Any] = {}
            if kind.startswith("NETCDF4") and made.type not in ("text", "ragged") and made.dimensions:
                how = {"zlib": dice.random() < 0.5, "shuffle": dice.random() < 0.5}
                if dice.random() < 0.3:
                    how["chunksizes"] = [dice.randint(1, 4) if d == "time" else 1 for d in made.dimensions]
            type_ = types[made.type]() if made.type in types else made.type
            variable = file.createVariable(fqn, type_, made.dimensions, **how)
            variable.set_auto_maskandscale(False)
            variable.set_auto_chartostring(False)
            variable.setncatts(made.attributes)
            variable[...] = made.values if made.dimensions else made.values[()]


def variables_of(group: Any, above: str = "/") -> dict[str, Any]:
    found = {f"{above}{name}": variable for name, variable in group.variables.items()}
    for name, child in group.groups.items():
        found |= variables_of(child, f"{above}{name}/")
    return found


def plain(values: Any) -> Any:
    """Values for a comparison: NaN is equal to itself, ragged ones are lists."""
    if values.dtype == object:
        return [v if isinstance(v, str) else v.tolist() for v in np.ravel(values)]
    return [values.dtype.newbyteorder("="), values.shape, repr(values.tolist())]


def assert_holds(path: Path, wanted: Dataset) -> None:
    """netCDF4 reads files; what is on Zarr is read by us."""
    library: Any = netCDF4 if path.suffix == ".nc" else nczarr
    with library.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        found = variables_of(file)
        assert set(found) == set(wanted)
        for fqn, made in wanted.items():
            variable = found[fqn]
            variable.set_auto_chartostring(False)
            assert variable.dimensions == made.dimensions, fqn
            # A single text, and a single NUL, come without a type of their own.
            form = made.values.dtype if made.values.dtype.kind in "OS" else None
            assert plain(np.asarray(variable[...], form)) == plain(made.values), fqn
            attributes = {name: variable.getncattr(name) for name in variable.ncattrs()}
            assert attributes == made.attributes, fqn


def random_choice(dice: random.Random, dataset: Dataset) -> tuple[dict[str, Any], Dataset]:
    """Options that choose and rename, and what they leave."""
    options: dict[str, Any] = {}
    if dice.random() < 0.6:
        given: dict[str, slice] = {}
        select: dict[str, slice] = {}
        for name in ("time", "y"):
            axis = dataset[f"/{name}"]
            first, last = sorted(dice.randrange(axis.values.size) for _ in range(2))
            select[name] = given[name] = slice(first, last + 1, dice.choice([1, 1, 2]))
            if dice.random() < 0.5:
                select[name] = slice(first, last + 1)
                ends = sorted(axis.values[[first, last]].tolist())
                given[name] = slice(*ends)
                if name == "time":
                    units, calendar = axis.attributes["units"], axis.attributes["calendar"]
                    dates = cftime.num2date(ends, units, calendar, only_use_cftime_datetimes=True)
                    given[name] = slice(*(date.isoformat() for date in dates))
        options["select"] = given
        dataset = {fqn: made.part(select) for fqn, made in dataset.items()}
    fields = [fqn for fqn in dataset if fqn not in ("/time", "/y")]
    if dice.random() < 0.3:
        old = dice.choice(fields)
        new = f"w{dice.randrange(10**6)}"
        options["rename"] = {old: new}
        names = {old: f"{old.rpartition('/')[0]}/{new}"}
        dataset = {names.get(fqn, fqn): made for fqn, made in dataset.items()}
    elif dice.random() < 0.3 and len(fields) > 1:
        out = dice.choice(fields)
        options["exclude"] = [out]
        dataset = {fqn: made for fqn, made in dataset.items() if fqn != out}
    return options, dataset


def random_form(dice: random.Random, on_zarr: bool, classic: bool = False) -> dict[str, Any]:
    """Options of how it is stored."""
    found: dict[str, Any] = {
        "workers": dice.choice([1, 2]),
        "memory": dice.choice(["64KiB", "512MiB"]),
        "verify": dice.random() < 0.2,
    }
    if not classic:
        found["compression"] = dice.choice([None, "zstd:1", "gzip:3", "none", "source"])
        found["checksum"] = dice.random() < 0.2
        found["chunks"] = dice.choice([None, "auto", {"time": 2, "y": 3}, {"time": 1}])
    if on_zarr:
        found["shards"] = dice.choice([None, None, "auto", 4096])
    return found


def random_source(dice: random.Random, path: Path) -> Dataset:
    kind = dice.choice([*KINDS, "NETCDF4"])
    dataset = random_dataset(dice, classic=kind != "NETCDF4")
    write(dice, path, dataset, kind)
    assert_holds(path, dataset)
    return dataset


@pytest.mark.parametrize("seed", SEEDS)
def test_one_after_another(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    source = tmp_path / "source.nc"
    dataset = random_source(dice, source)
    for number in range(dice.randint(1, 3)):
        target = tmp_path / f"{number}.{dice.choice(['zarr', 'zarr', 'zip', 'nc'])}"
        options, dataset = random_choice(dice, dataset)
        options |= random_form(dice, target.suffix != ".nc")
        if target.suffix == ".nc":
            options["format"] = "nc4"
        nczarr.copy(source, target, **options)
        assert_holds(target, dataset)
        source = target


def in_other_units(dataset: Dataset, days: int) -> Dataset:
    time = dataset["/time"]
    since = cftime.num2date(0, time.attributes["units"], time.attributes["calendar"])
    units = f"days since {(since - timedelta(days)).isoformat(' ')}"
    moved = replace(time, values=time.values + days, attributes=time.attributes | {"units": units})
    return dataset | {"/time": moved}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["concat", "append", "replace"])
def test_parts_of_one(how: str, seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    kind = dice.choice([*KINDS, "NETCDF4"])
    dataset = random_dataset(dice, classic=kind != "NETCDF4")
    steps = dataset["/time"].values.size
    cuts = sorted({0, steps, *(dice.randrange(steps) for _ in range(3))})
    parts: list[Path] = []
    for number, (start, stop) in enumerate(pairwise(cuts)):
        # What is replaced was something else before.
        first = dice.randint(0, start) if how == "replace" else start
        window = {"time": slice(first, stop)}
        if first < start:
            for fqn, made in dataset.items():
                if "time" in made.dimensions and fqn != "/time":
                    values = made.values.copy()
                    axis = made.dimensions.index("time")
                    where = (*[slice(None)] * axis, slice(first, stop))
                    values[where] = random_values(dice, made.type, values.shape)[where]
                    dataset[fqn] = replace(made, values=values)
        part = {fqn: made.part(window) for fqn, made in dataset.items()}
        if number and dice.random() < 0.5:
            part = in_other_units(part, dice.choice([1, 10]))
        path = tmp_path / f"part{number}.nc"
        write(dice, path, part, kind)
        if dice.random() < 0.3:
            nczarr.copy(path, path.with_suffix(".zarr"), chunks={"time": dice.randint(1, 3)})
            path = path.with_suffix(".zarr")
        parts.append(path)
    target = tmp_path / f"all.{dice.choice(['zarr', 'nc'])}"
    form = random_form(dice, target.suffix == ".zarr", classic="NETCDF3" in kind and target.suffix == ".nc")
    if target.suffix == ".nc":
        form["format"] = KINDS[kind]
    if how == "concat":
        nczarr.join(parts, target, **form)
    else:
        nczarr.copy(parts[0], target, **form)
        for some in [parts[1:]] if dice.random() < 0.3 and parts[1:] else parts[1:]:
            nczarr.append(some, target, replace=how == "replace", workers=form["workers"])
    assert_holds(target, dataset)


class Stops:
    """A progress that ends the copy after some blocks, as a kill would."""

    def __init__(self, blocks: int) -> None:
        self.left = blocks

    def start(self, total: int) -> None:
        pass

    def advance(self, count: int, fqn: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def finish(self) -> None:
        pass


@pytest.mark.parametrize("seed", SEEDS)
def test_gone_on_with(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    source, target = tmp_path / "source.nc", tmp_path / "out.zarr"
    dataset = random_source(dice, source)
    if dice.random() < 0.4:
        nczarr.copy(source, tmp_path / "source.zarr")
        source = tmp_path / "source.zarr"
    options, dataset = random_choice(dice, dataset)
    options |= random_form(dice, on_zarr=True)
    for _ in range(dice.randint(1, 3)):
        try:
            nczarr.copy(source, target, resume=True, progress=Stops(dice.randrange(4)), **options)
        except KeyboardInterrupt:
            continue
        break
    nczarr.copy(source, target, resume=True, **options)
    assert_holds(target, dataset)
