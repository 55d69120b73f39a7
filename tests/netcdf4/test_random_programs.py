"""Run random programs with netCDF4-python on a netCDF file, and with nczarr on a netCDF file and on Zarr.

``NCZARR_PROGRAMS=2000 pytest tests/netcdf4/test_random_programs.py`` runs many, at random.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from netcdf4_memory_programs import MemoryRun, memory_programs
from netcdf4_programs import Run, programs
from netcdf4_wide_programs import WideRun, wide_programs

import nczarr.netcdf4 as ours
from nczarr import mapping
from nczarr.cdl import DumpOptions, dumps
from nczarr.errors import NCZarrError

#: So many programs for each test, other ones each time: ``NCZARR_PROGRAMS=1000``. Without it 25, the same each time.
PROGRAMS = int(os.environ.get("NCZARR_PROGRAMS", 0))
EXAMPLES = settings(
    max_examples=PROGRAMS or 25,
    derandomize=not PROGRAMS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def is_error(entry: Any) -> bool:
    return isinstance(entry, tuple) and entry[0] == "error"


def agree(step: tuple[Any, ...], theirs: Any, mine: Any) -> bool:
    """True if two entries of the logs say the same."""
    if repr(theirs) == repr(mine):
        return True
    if is_error(theirs) and is_error(mine):
        # Of several faults either may be named first. An index behind the end is an IndexError in all our formats.
        either = step[0] in ("write", "variable", "attribute", "odd_name")
        return either or {theirs[1], mine[1]} <= {"RuntimeError", "IndexError", "ValueError"}
    if step[0] == "variable" and step[3] in ("str", "many") and (theirs, mine) == ([], ["UserWarning"]):
        return True  # the file has no filters of text and sequences, which netCDF4-python does not say
    if is_error(theirs) and mine[1] == "|S1" and 0 in mine[2]:
        return True  # netCDF4-python cannot join no characters
    if step[0] == "write" and theirs == ("error", "AttributeError"):
        return True  # netCDF4-python cannot repeat text for a variable of characters
    if isinstance(theirs, list) and isinstance(mine, list) and {*theirs} - {*mine} == {"RuntimeWarning"}:
        return True  # a valid_min of NaN, which numpy casts to an integer there
    if step[0] == "write" and theirs == ("error", "IndexError") and isinstance(step[3], tuple):
        return True  # netCDF4-python cannot write to a list of positions beside a slice that goes backwards
    # One element takes one value: netCDF4-python keeps the last of several.
    return step[0] == "write" and step[4][0] == "ramp" and mine == ("error", "IndexError")


def as_ncdump(path: str, folder: str) -> list[str] | None:
    """Return the lines of ncdump's text, sorted: netCDF-C moves what it changes to the end. None if there is none."""
    if not os.path.exists(path) or shutil.which("ncdump") is None:
        return None
    if path.endswith(".nc"):
        shown = subprocess.run(["ncdump", "-n", "a", path], capture_output=True, check=False)
        text = shown.stdout.decode("utf-8", "surrogateescape")
        return sorted(text.splitlines()) if shown.returncode == 0 else None
    with mapping.open_dataset(path) as stored:
        return sorted(dumps(stored.dataset, DumpOptions(ncdump=True, name="a")).splitlines())


_SETS = ("attribute", "string_attribute")


def loses_the_mask(step: tuple[Any, ...], theirs: Any, mine: Any) -> bool:
    """True if netCDF4-python has written the values below a mask: it repeats masked values without their mask."""
    is_repeated = step[0] == "write" and step[4][0] != "fit" and step[4][3] in ("masked", "allmasked")
    if not is_repeated or mine[0] != "masked" or theirs[1:3] != mine[1:3]:
        return False
    lost = np.array(mine[3], bool) & ~np.array(theirs[3], bool)
    return bool(lost.any())


def keeps_the_old_name(before: list[tuple[Any, ...]], step: tuple[Any, ...]) -> bool:
    """True if a file of netCDF-C keeps the attribute's old name too: it was stored, set again, then renamed."""
    if step[0] != "rename" or step[2] != "Attribute":
        return False
    stored = is_set = is_set_again = False
    for earlier in before:
        if earlier[0] in ("sync", "open"):
            stored, is_set_again = is_set, False
        elif earlier == ("delete", step[1], None, step[3]):
            stored = is_set = is_set_again = False
        elif (earlier[0], earlier[1], earlier[-2]) in ((kind, step[1], step[3]) for kind in _SETS):
            # An attribute of a variable of this name only makes the comparison end earlier.
            is_set, is_set_again = True, stored
    return is_set_again


def same_attributes(before: list[tuple[Any, ...]], theirs: Any, mine: Any) -> bool:
    """True if attributes differ in their order only, and one was set twice: netCDF-C moves what changes to the end."""
    given = [(step[1], step[3]) for step in before if step[0] == "attribute"]
    given += [(step[1], step[4]) for step in before if step[0] == "rename" and step[2] == "Attribute"]
    if len({*given}) == len(given) or not (isinstance(theirs, dict) and isinstance(mine, dict)):
        return False
    return sorted(map(repr, theirs.items())) == sorted(map(repr, mine.items()))


def hides_a_dimension(before: list[tuple[Any, ...]], step: tuple[Any, ...]) -> bool:
    """True if a group gets a dimension of the name of its parent's, which a variable of the group has already."""
    return step[0] == "dimension" and any(
        earlier[0] == "variable" and earlier[1] == step[1] and step[2] in earlier[4] for earlier in before
    )


def compare(name: str, made: type[Run], program: Any, make_log: Any) -> None:
    """Run a program with both libraries, ours on `name`, and compare what each step shows."""
    format, steps = program
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = []
        for library, path in ((netCDF4, Path(folder, "theirs.nc")), (ours, Path(folder, name))):
            log = make_log(library, zarr=not name.endswith(".nc"))
            runs.append(made(library, str(path), format, log))
        try:
            for i, step in enumerate([*steps, ("close",)]):
                if keeps_the_old_name(steps[:i], step) or hides_a_dimension(steps[:i], step):
                    return
                try:
                    for run in runs:
                        run.step(step)
                except RuntimeError:
                    if run is runs[0]:
                        return  # netCDF-C may be unable to close what it failed to rename
                    raise
                theirs, mine = (run.log.entries for run in runs)
                only_theirs_fails = is_error(theirs[0]) and not is_error(mine[0])
                if step[0] == "rename" and only_theirs_fails:
                    return  # netCDF-C fails to rename what it has made a moment ago
                if (
                    step[0] == "delete"
                    and only_theirs_fails
                    and ("rename", "Attribute", step[3])
                    in {
                        (earlier[0], earlier[2], earlier[-1])
                        for earlier in steps[:i]
                        if earlier[0] == "rename"
                    }
                ):
                    return  # netCDF-C does not find renamed attributes of a classic file to delete them
                if step[0] == "variable" and "chunksizes" in step[5] and is_error(theirs[0]):
                    return  # netCDF4-python leaves the variable behind, if chunks are longer than a dimension
                assert len(theirs) == len(mine)
                if loses_the_mask(step, theirs[0], mine[0]):
                    return
                for j, (one, other) in enumerate(zip(theirs, mine, strict=True)):
                    before_error = j and is_error(theirs[j - 1]) and is_error(mine[j - 1])  # warnings
                    same = agree(step, one, other) or same_attributes(steps[:i], one, other)
                    assert before_error or same, (step, one, other)
                if any(is_error(a) != is_error(b) for a, b in zip(theirs, mine, strict=True)):
                    return  # what was refused by one only makes all that follows different
                for run in runs:
                    run.log.entries.clear()
            texts = [as_ncdump(run.path, folder) for run in runs]
            if None not in texts:
                assert texts[0] == texts[1]
        finally:
            for run in runs:
                if run.ds.isopen():
                    # netCDF-C may be unable to close what it failed to rename.
                    with suppress(*[RuntimeError] if run is runs[0] else []):
                        run.ds.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
@EXAMPLES
@given(program=programs())
def test_a_program_sees_the_same(name: str, program: Any, make_log: Any) -> None:
    compare(name, Run, program, make_log)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.nc", "a.zarr", "a.zarr.zip"])
@EXAMPLES
@given(program=wide_programs())
def test_a_wide_program_sees_the_same(name: str, program: Any, make_log: Any) -> None:
    compare(name, WideRun, program, make_log)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "begin"),
    [("a.nc", "memory"), ("a.nc", "persist"), ("a.zarr.zip", "memory"), ("a.zarr", "persist")],
)
@EXAMPLES
@given(program=memory_programs())
def test_a_program_in_memory_sees_the_same(name: str, begin: str, program: Any, make_log: Any) -> None:
    class Made(MemoryRun):
        pass

    Made.begin, Made.both_read = begin, name.endswith(".nc")
    compare(name, Made, program, make_log)


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("format", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_what_is_renamed_keeps_its_place(format: str, stored: bool, name: str, tmp_path: Path) -> None:
    """In the dataset, as in netCDF-C; in the open one it goes to the end, as in netCDF4-python.

    In netCDF-4 files what the HDF5 library renames may go to the end.
    """
    seen = []
    for library, path in ((netCDF4, tmp_path / "theirs.nc"), (ours, tmp_path / name)):
        ds = library.Dataset(path, "w", format=format)
        for dimension in "xyz":
            ds.createDimension(dimension, 1)
        for variable in "abc":
            ds.createVariable(variable, "i4", ("y",))[:] = 1
        if format == "NETCDF4":
            ds.createGroup("g")
            ds.createGroup("h")
        if stored:
            ds.close()
            ds = library.Dataset(path, "a")
        ds.renameDimension("x", "u")
        ds.renameVariable("a", "first")
        if format == "NETCDF4":
            ds.renameGroup("g", "other")
        during = list(ds.dimensions), list(ds.variables), list(ds.groups)
        ds.close()
        with library.Dataset(path) as ds:
            seen.append((during, list(ds.dimensions), list(ds.variables), list(ds.groups)))
    theirs, mine = seen
    assert mine[:2] == theirs[:2]
    assert sorted(mine[3]) == sorted(theirs[3])  # netCDF-C's HDF5 moves groups, too
    if (format, name) == ("NETCDF4", "a.nc"):
        assert sorted(mine[2]) == sorted(theirs[2])
    else:
        assert mine[2] == theirs[2]


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_a_dimension_hides_none_of_earlier_variables(name: str, tmp_path: Path) -> None:
    """netCDF4-python looks for the dimensions of a variable by their names, and finds the later one."""
    with ours.Dataset(tmp_path / name, "w") as ds:
        ds.createDimension("x", 2)
        v = ds.createGroup("g").createVariable("v", "i4", ("x",))
        ds["g"].createDimension("x", 3)
        assert ds["g"].createVariable("w", "i4", ("x",)).shape == (3,)
        v[:] = [1, 2]
    with ours.Dataset(tmp_path / name) as ds:
        assert [d.group().path for d in (*ds["g/v"].get_dims(), *ds["g/w"].get_dims())] == ["/", "/g"]
        assert ds["g/v"][:].tolist() == [1, 2]


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_packing_of_characters_is_warned_of(name: str, make_log: Any, tmp_path: Path) -> None:
    """Characters are never unpacked; a factor that is no number is warned of as for numbers."""
    seen = []
    for library, path in ((netCDF4, tmp_path / "theirs.nc"), (ours, tmp_path / name)):
        log = make_log(library)
        with library.Dataset(path, "w") as ds:
            v = ds.createVariable("v", "S1", ())
            v[...] = b"a"
            v.scale_factor = ""
            log.attempt(lambda v=v: v[...])
        seen.append(log.entries)
    assert seen[0] == seen[1]
    assert seen[0][-1] == ["UserWarning"]


def test_values_before_the_first_step_are_refused(tmp_path: Path) -> None:
    """They were dropped without a word; netCDF4-python refuses some of them, and drops the others."""
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 3)
        v = ds.createVariable("v", "f4", ("t", "x"))
        for index in (slice(-3, None), slice(-1, None, 2), (slice(-1, None), slice(1, 2))):
            with pytest.raises(ValueError, match="before the end of an axis of 0"):
                v[index] = np.ones((1, 3))
        v[-1:] = np.ones((0, 3))
        assert v.shape == (0, 3)
        v[:2] = 0
        v[-1:] = np.ones((1, 3))
        assert v[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["scale_factor", "add_offset"])
@pytest.mark.parametrize("value", ["", [1, 2], [1.0, 2.0, 3.0]])
def test_packing_that_is_no_number_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    """netCDF4-python packs with a vector that fits the values, and does not unpack with it."""
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        v = ds.createVariable("v", "i2", ("x",))
        v.setncattr(name, value)
        for index in (0, slice(None)):
            with pytest.raises(TypeError, match="is not a number") as error:
                v[index] = 1
            assert isinstance(error.value, NCZarrError)
