"""Compare unwritten elements with netCDF-C, for every type: unwritten, partly written, grown."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import mapping_tools as tools
import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.convert import copy, diff
from nczarr.mapping import WriteOptions, open_dataset
from nczarr.model import (
    BYTE,
    PRIMITIVES,
    STRING,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    MemorySource,
    OpaqueType,
    Variable,
    VlenType,
    default_fill,
    same_values,
)
from nczarr.stores import MemoryStore

INTEGERS = [n for n, t in PRIMITIVES.items() if t.dtype.kind in "iu"]
#: CDL's declaration of the type T, and a value of it.
TYPES: dict[str, tuple[str, str]] = {
    **{name: ("", "1") for name in PRIMITIVES if name not in ("char", "string")},
    "char": ("", '"a"'),
    "string": ("", '"a"'),
    **{
        f"enum of {n}": (f"{n} enum T {{one = 1, fill = {int(default_fill(PRIMITIVES[n]))}}} ;", "one")
        for n in INTEGERS
    },
    "opaque": ("opaque(3) T ;", "0X010203"),
    "vlen": ("int(*) T ;", "{1, 2}"),
    "vlen of string": ("string(*) T ;", '{"a", "b"}'),
    "vlen of enum": ("ubyte enum e {one = 1} ; e(*) T ;", "{one}"),
    "compound": (
        "ubyte enum e {zero = 0, one = 1} ; compound T { int i ; e q ; char t(3) ; double d(2) ; ubyte u ; } ;",
        '{1, one, {"abc"}, {1, 2}, 3}',
    ),
    "compound of compound": (
        "compound inner { short s ; byte b ; } ; compound T { inner i(2) ; float f ; } ;",
        "{{{1, 2}, {3, 4}}, 5}",
    ),
    "compound of strings": (
        "int(*) row ; compound T { int i ; string s ; row r ; } ;",
        '{1, "a", {1, 2}}',
    ),
}  # fmt: skip


def made(name: str, path: Path) -> None:
    """A file of netCDF-C: variables that were never written, and some that others outgrew."""
    if shutil.which("ncgen") is None:
        pytest.skip("ncgen is not installed")
    declared, value = TYPES[name]
    word = "T" if declared else name
    types = f"types:\n  {declared}\n" if declared else ""
    # ncgen cannot fill up enums that it has too few values of.
    grown = "" if "enum" in name + declared else f"  grown = {value} ;\n"
    text = (
        f"netcdf made {{\n{types}dimensions:\n  x = 2 ;\n  t = UNLIMITED ;\nvariables:\n"
        f"  {word} never(x) ;\n  {word} scalar ;\n  {word} grown(t) ;\n  {word} longer(t, x) ;\n"
        f"  {word} all(x) ;\n  int steps(t) ;\n"
        f"data:\n{grown}  all = {value}, {value} ;\n  steps = 1, 2, 3 ;\n}}\n"
    )
    path.with_suffix(".cdl").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["ncgen", "-4", "-o", str(path), str(path.with_suffix(".cdl"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def dumped(path: Path) -> str:
    done = subprocess.run(["ncdump", "-n", "x", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # A string that is not there, and one that is empty, are one in every model but C's.
    return re.sub(r"\bNIL\b", '""', done.stdout.partition("data:")[2])


@pytest.mark.parametrize("name", TYPES)
def test_unwritten_elements_are_those_of_netcdf_c(name: str, tmp_path: Path) -> None:
    source, store, back = tmp_path / "a.nc", tmp_path / "b.zarr", tmp_path / "c.nc"
    made(name, source)
    copy(source, store)
    copy(store, back)
    assert [str(d) for d in diff(source, store)] == []
    assert dumped(back) == dumped(source)


@pytest.mark.parametrize("name", [n for n in TYPES if n.startswith("enum") or not TYPES[n][0]])
@pytest.mark.parametrize("target", ["nc", "zarr"])
def test_python_sees_what_netcdf4_python_sees(name: str, target: str, tmp_path: Path) -> None:
    source, there = tmp_path / "a.nc", tmp_path / f"b.{target}"
    made(name, source)
    if target == "zarr":
        copy(source, there)
    else:
        there = source
    for masked in (False, True):
        with netCDF4.Dataset(source) as theirs, nczarr.Dataset(there) as ours:
            theirs.set_auto_mask(masked)
            ours.set_auto_mask(masked)
            for variable in theirs.variables:
                a, b = theirs[variable][...], ours[variable][...]
                assert type(a) is type(b), variable
                assert np.array_equal(np.ma.getmaskarray(a), np.ma.getmaskarray(b)), variable
                assert np.ma.getdata(a).tolist() == np.ma.getdata(b).tolist(), variable


@pytest.mark.parametrize("base", INTEGERS)
def test_an_enum_that_is_written_in_part(base: str, tmp_path: Path) -> None:
    """The same calls, on netCDF4-python and on nczarr."""
    found = []
    for module, path in ((netCDF4, tmp_path / "a.nc"), (nczarr, tmp_path / "b.zarr")):
        with module.Dataset(path, "w") as dataset:
            dtype = PRIMITIVES[base].dtype
            kind = dataset.createEnumType(
                dtype, "e", {"zero": 0, "fill": int(default_fill(PRIMITIVES[base]))}
            )
            dataset.createDimension("t", None)
            dataset.createDimension("x", 3)
            part = dataset.createVariable("part", kind, ("t", "x"))
            dataset.createVariable("never", kind, ("t", "x"))
            own = dataset.createVariable("own", kind, ("t", "x"), fill_value=0)
            part[1, 1] = 0
            own[2, 0] = int(default_fill(PRIMITIVES[base]))
        with module.Dataset(path) as dataset:
            dataset.set_auto_mask(False)
            found.append({n: v[...].tolist() for n, v in dataset.variables.items()})
    with nczarr.Dataset(tmp_path / "a.nc") as dataset:
        dataset.set_auto_mask(False)
        found.append({n: v[...].tolist() for n, v in dataset.variables.items()})
    assert found[0] == found[1] == found[2]


def nested() -> list[Variable]:
    enum = EnumType("/e", PRIMITIVES["ubyte"], (("one", 1),))
    inner = CompoundType("/inner", (Field("q", enum), Field("b", BYTE, (2,))))
    types = [
        *PRIMITIVES.values(), enum, OpaqueType("/o", 2), VlenType("/v", enum), inner,
        CompoundType("/outer", (Field("i", inner), Field("s", STRING), Field("v", VlenType("/v", enum)))),
    ]  # fmt: skip
    return [Variable(f"v{i}", type_, ("/x",)) for i, type_ in enumerate(types)]


@pytest.mark.parametrize("options", [{}, {"char": "uint8", "compound": "bytes"}, {"compound": "struct"}])
def test_a_store_without_chunks_reads_as_default_fills(options: dict[str, str]) -> None:
    """``fill_value`` is what the specification says: the default fill of the variable's type."""
    variables = nested()
    types = {t.fqn: t for v in variables for t in (v.type,) if t.is_user_defined}
    dataset = Dataset(
        "d", types=tuple(types.values()), dimensions=(Dimension("x", 2),), variables=tuple(variables)
    )  # type: ignore[arg-type]
    store = MemoryStore()
    tools.copy(dataset, store, WriteOptions(**options))  # type: ignore[arg-type]
    with open_dataset(store) as stored:
        for fqn, variable in stored.dataset.all_variables.items():
            values = variable.data.read((slice(0, 2),))  # type: ignore[union-attr]
            assert all(same_values(value, default_fill(variable.type)) for value in values), fqn


def test_a_value_that_is_zero_is_not_lost_in_an_enum() -> None:
    """The chunk that holds nothing but zeros is no longer the chunk that is not there."""
    enum = EnumType("/e", PRIMITIVES["ubyte"], (("zero", 0),))
    data = MemorySource(np.zeros(2, "u1"))
    dataset = Dataset(
        "d",
        types=(enum,),
        dimensions=(Dimension("x", 2),),
        variables=(Variable("v", enum, ("/x",), data=data),),
    )
    store = MemoryStore()
    tools.copy(dataset, store)
    assert tools.differences(dataset, store) == []
