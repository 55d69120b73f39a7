"""Compare CDL files from public collections with the datasets that ncgen makes of them."""

from __future__ import annotations

import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from real_data import CDL_CORPUS, DATA

from nczarr.cdl import load
from nczarr.errors import CDLError
from nczarr.model import Dataset, Group, compare
from nczarr.model.nodes import same_values, source_of

pytestmark = pytest.mark.filterwarnings("ignore::nczarr.cdl.syntax.source.CDLWarning")

#: Where nczarr is right to differ from the netCDF file that ncgen makes, and why.
DIFFERENT = {
    "ncdap_test/expecttds3/tst-PROFILER.nc.dmp": "'-0' of a float keeps its sign; ncgen reads the integer 0",
    "ncdump/ref_test_365_day_1900.cdl": "a quoted date of a time variable is a date; ncgen reads the year",
    "ncdump/ref_times.cdl": "a quoted date of a time variable is a date; ncgen reads the year",
    "ncdump/ref_tst_special_atts.cdl": "_NoFill: the file has garbage where nothing was written",
    "ncdump/ref_tst_ncf213.cdl": "_NoFill: the file has garbage where nothing was written",
}
#: Filters that the local netCDF library may lack: ncgen stops half-way.
PLUGINS = {
    "nczarr_test/ref_multi.cdl",
    "nc_test4/bzip2.cdl",
    "nc_test4/unknown.cdl",
    "nc_test4/noop.cdl",
    "nc_test4/ref_multi.cdl",
}
#: Types of one form: a file does not say which it is (netCDF takes the first), the text does.
TYPES = {"ncdump/expected/ref_typescope.dmp"}

#: Files that ncgen rejects and nczarr reads.
READ_ALL_THE_SAME = {
    "ncdap_test/expected3/synth1.dmp": "an unescaped % in a name, as ncdump prints it",
    "ncdap_test/expected3/synth8.dmp": "a dimension named unlimited",
    "ncdap_test/expected3/synth9.dmp": "a dimension named long",
    "ncdap_test/expected3/synth10.dmp": "an unescaped % in a name",
    "ncdap_test/expected3/test.PointFile.dmp": "an unescaped % in a name",
    "ncdap_test/expected3/test.dfr1.dmp": "an unescaped % in a name",
    "ncdap_test/expected3/test.dfr2.dmp": "an unescaped % in a name",
    "ncdap_test/expected3/test.dfr3.dmp": "an unescaped % in a name",
    "ncdap_test/expectremote3/Surface_METAR_20120101_0000.nc.1.dmp": "ncgen crashes on short text of records",
    "ncdump/expected/ref_tst_chardata.dmp": "ncgen crashes on short text of records",
    "ncdump/expected/ref_tst_econst.dmp": "two enums with a member of one name",
    "ncdump/ref_tst_enum_undef.cdl": "_UNDEFINED, as ncdump prints a 0 without a member",
}


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


#: Files that ncgen reads and nczarr refuses.
REFUSED = {"scope_preorder.cdl": "a dimension of a sibling group is out of reach"}
ACCEPTED = [p for p in _files(CDL_CORPUS / "accepted") + _files(DATA / "cdl") if p.name not in REFUSED]
REJECTED = _files(CDL_CORPUS / "rejected")


def name_of(path: Path) -> str:
    text = path.as_posix()
    for part in ("/accepted/", "/rejected/"):
        if part in text:
            return text.split(part)[1].replace("ncdump/cdl/", "ncdump/")
    return path.name


def sorted_types(group: Group) -> Group:
    """ncgen writes types in an order of its own."""
    return replace(
        group,
        types=tuple(sorted(group.types, key=lambda t: t.name)),
        groups=tuple(sorted_types(g) for g in group.groups),
    )


#: Elements of the largest variable of which all values are compared. Four files declare up to 10**10 values and give
#: none: to compare those took three quarters of the time.
MANY = 1 << 24


def is_large(dataset: Dataset) -> bool:
    return any(math.prod(dataset.shape_of(v)) > MANY for v in dataset.all_variables.values())


def differing_ends(ours: Dataset, theirs: Dataset) -> list[str]:
    """Return the variables of which the first or the last values differ: a block of up to 100 along each axis."""
    found = []
    for fqn, v in ours.all_variables.items():
        shape = ours.shape_of(v)
        for last in (False, True):
            region = tuple(slice(max(0, n - 100), n, 1) if last else slice(0, min(n, 100), 1) for n in shape)
            sides = [source_of(d.variable_at(fqn), shape).read(region) for d in (ours, theirs)]
            if not same_values(*sides):
                found.append(f"{fqn}: values {region}")
    return found


@pytest.fixture(scope="module")
def nc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("ncgen") is None:
        pytest.skip("ncgen is not there")
    return tmp_path_factory.mktemp("corpus") / "reference.nc"


def test_every_accepted_file_is_read(recwarn: pytest.WarningsRecorder) -> None:
    for path in ACCEPTED:
        assert isinstance(load(path), Dataset), path


def test_a_file_with_a_dimension_out_of_reach_is_refused() -> None:
    (path,) = (p for p in _files(CDL_CORPUS / "accepted") if p.name in REFUSED)
    with pytest.raises(CDLError, match="out of reach"):
        load(path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_same_dataset_as_ncgen(part: int, nc: Path) -> None:
    from nczarr.netcdf import open_dataset

    compared = 0
    for path in ACCEPTED[part::8]:
        name = name_of(path)
        if name in PLUGINS | TYPES:
            continue
        nc.unlink(missing_ok=True)
        made = subprocess.run(["ncgen", "-4", "-o", nc, path], capture_output=True, timeout=60)
        if made.returncode:
            continue  # a filter or a bug of the local version
        ours = sorted_types(load(path))
        with open_dataset(nc) as file:
            theirs = sorted_types(file.dataset)
            assert isinstance(ours, Dataset)
            assert isinstance(theirs, Dataset)
            differences = [str(d) for d in compare(ours, theirs, data=not is_large(ours))]
            if is_large(ours):
                differences += differing_ends(ours, theirs)
        compared += 1
        assert bool(differences) == (name in DIFFERENT), (name, differences[:5])
    assert compared > 25


def test_same_dataset_as_ncdumps_reading() -> None:
    # The recorded output of a newer ncdump: an oracle that does not hang on the local version.
    for reference in _files(CDL_CORPUS / "ref"):
        name = reference.relative_to(CDL_CORPUS / "ref").as_posix().removesuffix(".ref")
        if Path(name).name in REFUSED or "typescope" in name:
            continue
        if name_of(Path("/accepted/" + name)) in DIFFERENT | dict.fromkeys(PLUGINS):
            continue
        source = CDL_CORPUS / "accepted" / name
        assert source.is_file(), name
        ours, theirs = sorted_types(load(source)), sorted_types(load(reference))
        assert isinstance(ours, Dataset)
        assert isinstance(theirs, Dataset)
        differences = [str(d) for d in compare(ours, theirs)]
        assert not [d for d in differences if not _is_lost_by_ncdump(d)], (name, differences[:5])


def _is_lost_by_ncdump(difference: str) -> bool:
    # ncdump drops NULs at the end of text, and the type of an attribute without values.
    return "\\x00" in difference or "''" in difference


def test_rejected_files() -> None:
    seen = set()
    for path in REJECTED:
        name = name_of(path)
        try:
            load(path)
        except CDLError as error:
            assert name not in READ_ALL_THE_SAME, (name, str(error))
            assert error.line is not None
        else:
            seen.add(name)
    assert seen == set(READ_ALL_THE_SAME)
