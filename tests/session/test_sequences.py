"""Random sequences of edits within one session, judged by what zarr-python and netCDF4-python find after every sync."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr

import nczarr.netcdf4 as ours

FILL = -1


class Program:
    """A program with one open dataset, and what it has declared and written."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.random = Random(seed)
        self.steps: dict[str, int] = {}
        #: By variable, its dimension (if any), and its values.
        self.values: dict[str, tuple[str | None, list[int]]] = {}
        self.attributes: dict[str, dict[str, int]] = {"": {}}
        self.types: list[str] = []
        self.count = 0
        self.dataset = ours.Dataset(path, "w")

    def new_name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    # -- edits

    def declare_dimension(self) -> None:
        name = self.new_name("t")
        self.dataset.createDimension(name)
        self.steps[name] = 0

    def declare_variable(self) -> None:
        name = self.new_name("v")
        along = self.random.choice([None, *self.steps])
        dimensions = () if along is None else (along,)
        chunks = {} if along is None else {"chunksizes": (self.random.choice([1, 3, 100]),)}
        self.dataset.createVariable(name, "i4", dimensions, fill_value=FILL, **chunks)
        self.values[name] = along, [FILL] if along is None else [FILL] * self.steps[along]
        self.attributes[name] = {}

    def declare_type(self) -> None:
        name = self.new_name("e")
        self.dataset.createEnumType("i1", name, {"no": 0, "yes": 1})
        self.types.append(name)

    def set_attribute(self) -> None:
        owner = self.random.choice(list(self.attributes))
        name = self.random.choice(["a", "b"])
        node = self.dataset[owner] if owner else self.dataset
        node.setncattr(name, np.int32(self.count))
        self.attributes[owner][name] = self.count
        self.count += 1

    def delete_attribute(self) -> None:
        owners = [owner for owner, found in self.attributes.items() if found]
        if owners:
            owner = self.random.choice(owners)
            name = self.random.choice(list(self.attributes[owner]))
            (self.dataset[owner] if owner else self.dataset).delncattr(name)
            del self.attributes[owner][name]

    def write(self) -> None:
        if not self.values:
            return
        name = self.random.choice(list(self.values))
        along, values = self.values[name]
        self.count += 1
        if along is None:
            self.dataset[name][...] = values[0] = self.count
            return
        first = self.random.randint(0, len(values))
        number = self.random.randint(1, 3)
        self.dataset[name][first : first + number] = np.full(number, self.count, "i4")
        length = max(self.steps[along], first + number)
        self.steps[along] = length
        for other, kept in self.values.values():
            if other == along:
                kept += [FILL] * (length - len(kept))
        values[first : first + number] = [self.count] * number

    def rename_variable(self) -> None:
        if self.values:
            old, new = self.random.choice(list(self.values)), self.new_name("v")
            self.dataset.renameVariable(old, new)
            self.values[new] = self.values.pop(old)
            self.attributes[new] = self.attributes.pop(old)

    def rename_dimension(self) -> None:
        if self.steps:
            old, new = self.random.choice(list(self.steps)), self.new_name("t")
            self.dataset.renameDimension(old, new)
            self.steps[new] = self.steps.pop(old)
            for name, (along, values) in self.values.items():
                self.values[name] = new if along == old else along, values

    def reopen(self) -> None:
        self.dataset.close()
        self.judge()
        self.dataset = ours.Dataset(self.path, "a")

    def read(self) -> None:
        for name, (_, values) in self.values.items():
            assert np.ma.filled(self.dataset[name][...], FILL).reshape(-1).tolist() == values

    def sync(self) -> None:
        self.dataset.sync()
        self.judge()

    # -- other eyes

    def judge(self) -> None:
        (self.judge_zarr if self.path.suffix == ".zarr" else self.judge_file)()

    def judge_zarr(self) -> None:
        for consolidated in (True, False):
            root = zarr.open_group(self.path, mode="r", use_consolidated=consolidated)
            assert sorted(name for name, _ in root.arrays()) == sorted(self.values)
            for name, (along, values) in self.values.items():
                array: Any = root[name]
                assert array.shape == (() if along is None else (len(values),)), name
                assert np.reshape(array[...], -1).tolist() == values, name
            for owner, wanted in self.attributes.items():
                found = root[owner].attrs if owner else root.attrs
                assert {n: found[n] for n in ("a", "b") if n in found} == wanted
            declared = root.attrs["_nczarr_group"]
            assert [t["name"] for t in declared.get("types", [])] == self.types
            assert {d["name"]: d["size"] for d in declared.get("dimensions", [])} == self.steps

    def judge_file(self) -> None:
        copy = self.path.with_name("copy.nc")
        shutil.copy(self.path, copy)
        with netCDF4.Dataset(copy) as found:
            assert {name: len(d) for name, d in found.dimensions.items()} == self.steps
            assert sorted(found.enumtypes) == sorted(self.types)
            assert sorted(found.variables) == sorted(self.values)
            for name, (along, values) in self.values.items():
                assert found[name].dimensions == (() if along is None else (along,))
                assert np.ma.filled(found[name][...], FILL).reshape(-1).tolist() == values, name
            for owner, wanted in self.attributes.items():
                node = found[owner] if owner else found
                assert {n: node.getncattr(n) for n in ("a", "b") if n in node.ncattrs()} == wanted


EDITS = [
    Program.declare_dimension,
    Program.declare_variable,
    Program.declare_type,
    Program.set_attribute,
    Program.delete_attribute,
    *[Program.write] * 4,
    Program.rename_variable,
    Program.rename_dimension,
    Program.read,
]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_what_others_see_after_any_sequence_of_edits(tmp_path: Path, suffix: str, seed: int) -> None:
    """Often one edit alone comes before a sync: each must be noticed by itself."""
    program = Program(tmp_path / f"a.{suffix}", seed)
    try:
        program.declare_dimension()
        program.declare_variable()
        for _ in range(20):
            for _ in range(program.random.choice([1, 1, 2, 5])):
                program.random.choice(EDITS)(program)
            program.random.choice([Program.sync, Program.sync, Program.sync, Program.reopen])(program)
        program.reopen()
    finally:
        if program.dataset.isopen():
            program.dataset.close()


def test_a_variable_that_is_created_between_two_appends_is_as_long_as_the_dimension(tmp_path: Path) -> None:
    """The dataset knew the variables along the dimension from the first append."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        v = ds.createVariable("v", "i4", ("t",))
        for step in (0, 1):
            v[step] = step
            ds.sync()
        ds.createVariable("w", "i4", ("t",), fill_value=FILL)
        ds.sync()
        v[2:6] = range(2, 6)
    root = zarr.open_group(path, mode="r")
    assert (root["v"].shape, root["w"].shape) == ((6,), (6,))
    assert root["w"][:].tolist() == [FILL] * 6


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_a_type_alone_is_stored(tmp_path: Path, name: str) -> None:
    with ours.Dataset(tmp_path / name, "w"):
        pass
    with ours.Dataset(tmp_path / name, "a") as ds:
        ds.createEnumType("i1", "quality", {"bad": 0, "good": 1})
    if name == "a.nc":
        with netCDF4.Dataset(tmp_path / name) as found:
            assert found.enumtypes["quality"].enum_dict == {"bad": 0, "good": 1}
    else:
        (declared,) = zarr.open_group(tmp_path / name, mode="r").attrs["_nczarr_group"]["types"]
        assert declared["name"] == "quality"
