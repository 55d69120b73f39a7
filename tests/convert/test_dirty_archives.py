"""Archives that are not clean: with each option joined rightly, or refused with the cure named; never silently wrong.

The oracle reads every file with netCDF4 and decodes its numbers with numpy, by date.
"""

from __future__ import annotations

import json
import warnings
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import cftime
import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nczarr
from nczarr.convert import open_source
from nczarr.convert.many.fit import ADJUSTMENTS, REPACKS
from nczarr.errors import NCZarrError
from nczarr.model import Attribute, Dataset, Dimension, MemorySource, Variable, primitive_for_dtype, rewrite
from tests.helpers.dirty_archives import KINDS, MERGES, Kind, make
from tests.helpers.dirty_fields import Fields, Raw, decoded, raw_of_file, wanted_of, wrong
from tests.helpers.dirty_files import CONTENT, FILES_OF

ROOT = Path(__file__).parents[2]
#: Every option alone.
OPTIONS: list[dict[str, Any]] = [
    {},
    *({"repack": mode} for mode in REPACKS),
    *({"adjust": word} for word in ADJUSTMENTS),
    {"join": "first"},
    {"join": "fill"},
    {"tolerance": {"*": 1e-3}},
    {"expect_step": "1d"},
    {"expect_step": "auto", "join": "fill"},
]


def raw_of_dataset(dataset: Dataset) -> Raw:
    found: Raw = {}
    for fqn, v in dataset.all_variables.items():
        assert v.data is not None
        values = v.data.read(tuple(slice(0, n, 1) for n in v.data.shape))
        attributes = {
            a.name: a.text if a.type.name in ("char", "string") else a.values.squeeze()[()]
            for a in v.attributes
        }
        found[fqn[1:]] = tuple(str(d)[1:] for d in v.dimensions), values, attributes
    return found


def in_memory(path: Path) -> Dataset:
    with open_source(path) as opened:
        return rewrite(
            opened,
            variable=lambda fqn, v: v.with_data(
                MemorySource(v.data.read(tuple(slice(0, n, 1) for n in v.data.shape)))  # type: ignore[union-attr]
            ),
        )


def names_a_cure(message: str, kind: Kind) -> bool:
    words = []
    for cure in kind.cures:
        words += [f"adjust='{word}'" for word in str(cure.get("adjust", "")).split(",") if "adjust" in cure]
        words += ["repack="] if "repack" in cure else []
        words += ["tolerance={'"] if "tolerance" in cure else []
        words += ["join='fill'"] if cure.get("join") == "fill" else []
        words += ["join='first'"] if cure.get("join") == "first" else []
        words += ["exclude= omits"] if "exclude" in cure else []
        words += ["select= selects"] if "select" in cure else []
    return not kind.cures or any(word in message for word in words) or "('order'" in str(words)


@pytest.mark.filterwarnings("ignore:repack=")
@pytest.mark.parametrize("name", KINDS | CONTENT)
def test_joined_rightly_or_refused_with_the_cure(name: str, tmp_path: Path) -> None:
    kind = (KINDS | CONTENT)[name]
    paths = make(kind, tmp_path / "in")
    if kind.write is not None:
        with pytest.raises(NCZarrError, match=r"2\.nc"):
            nczarr.join(paths, tmp_path / "out.zarr")
        return
    sources = [in_memory(path) for path in paths]
    # Times that no program decodes are only refused.
    wanted = cache(partial(wanted_of, paths))
    for options in [*OPTIONS, *(c for c in kind.cures if c not in OPTIONS)]:
        store: dict[str, bytes] = {}
        must = options in kind.cures or (not options and not kind.says)
        try:
            nczarr.join(sources, store, **options)
        except NCZarrError as error:
            assert not must, f"{options}: {error}"
            if not options:
                assert kind.says in str(error)
                assert names_a_cure(str(error), kind), str(error)
            continue
        assert options or not kind.says, "joined without any option"
        assert options in kind.cures or kind.says not in ("units", "calendar"), (
            f"{options}: the meaning is lost"
        )
        with open_source(store) as seen:
            problems = list(wrong(raw_of_dataset(seen), wanted(), options))
        assert not problems, f"{options}: {problems[:3]}"


def test_what_the_oracle_leaves_out_is_joined_rightly_too(tmp_path: Path) -> None:
    texts: list[str] = []
    for name in ("bounds in other units", "bounds of the day before", "strings of each file", "empty text"):
        paths, out = make(CONTENT[name], tmp_path / name), tmp_path / f"{name}.zarr"
        nczarr.join(paths, out)
        with nczarr.Dataset(out) as seen:
            if "bounds" in name:
                before = [0, 0, 1, 1] * 2 if name == "bounds of the day before" else [0] * 8
                np.testing.assert_array_equal(seen["time_bnds"][:, 0], np.arange(8) - before)
                np.testing.assert_array_equal(seen["time_bnds"][:, 1], np.arange(8) - before + 1)
            else:
                texts += [str(text) for text in seen["name"][:].tolist()]
    assert texts == ["é0", "", "é1", "", "é2", "", "é3", "", *4 * ["None"]]


def test_the_page_counts_the_kinds_of_daily_files() -> None:
    joined = [kind for kind in CONTENT.values() if not kind.says]
    cured = [kind for kind in CONTENT.values() if kind.says and kind.cures]
    rows = (
        f"| content | {len(joined)} | {len(cured)} | {len(CONTENT) - len(joined) - len(cured)} | 0 |",
        f"| files | {sum(not kind.says for kind in FILES_OF.values())} | "
        f"| {sum(bool(kind.says) for kind in FILES_OF.values())} | 0 |",
    )
    page = (ROOT / "docs/reference/dirty-archives.md").read_text()
    assert all(row in page for row in rows), rows


@pytest.mark.parametrize("name", FILES_OF)
def test_a_broken_or_odd_file_is_refused_by_its_name_or_joined_rightly(name: str, tmp_path: Path) -> None:
    kind = FILES_OF[name]
    paths = make(KINDS["clean"], tmp_path / "in")
    wanted, third = wanted_of(paths), paths[2].name
    paths = kind.change(paths) or paths
    out = tmp_path / "out.zarr"
    if kind.says:
        with pytest.raises(NCZarrError) as caught:
            nczarr.join(paths, out)
        assert kind.says in str(caught.value)
        assert third in str(caught.value)
        assert not out.exists()
        return
    nczarr.join(paths, out)
    with open_source(out) as seen:
        assert list(wrong(raw_of_dataset(seen), wanted, {})) == []


def test_the_page_has_the_recorded_results_of_each_kind() -> None:
    spec = spec_from_file_location("dirty_archives_by_program", ROOT / "tests/benchmarks/dirty_archives.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    results = json.loads(script.RESULTS.read_text())
    for program in results["programs"].values():
        assert program["outcomes"].keys() == KINDS.keys()
        assert {outcome for outcome, _ in program["outcomes"].values()} <= set(script.OUTCOMES)
    page = script.PAGE.read_text()
    assert page.partition(script.BEGIN)[2].partition(script.END)[0].strip() == script.table(results)


def selected(wanted: list[Fields], options: dict[str, Any]) -> list[Fields]:
    """Return the part of the fields that options select or do not exclude."""
    days, rows = (options.get("select", {}).get(name, slice(None)) for name in ("time", "lat"))
    dates = sorted({date for of_file in wanted for _, date in of_file if date})[days]
    return [
        {
            (n, d): f[rows] if f.ndim and len(f) == 4 else f
            for (n, d), f in fields.items()
            if d in ("", *dates)
        }
        for fields in [{k: v for k, v in f.items() if k[0] != options.get("exclude")} for f in wanted]
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:repack=")
@pytest.mark.parametrize("name", MERGES)
def test_merged_rightly_or_refused_with_the_cure(name: str, tmp_path: Path) -> None:
    kind = MERGES[name]
    paths = make(kind, tmp_path / "in", split=True)
    sources, wanted = [in_memory(path) for path in paths], wanted_of(paths)
    for options in [*OPTIONS, *(c for c in kind.cures if c not in OPTIONS)]:
        store: dict[str, bytes] = {}
        try:
            nczarr.join(sources, store, merge=True, **options)
        except NCZarrError as error:
            assert options not in kind.cures, f"{options}: {error}"
            if not options:
                assert kind.says, str(error)
                assert kind.says in str(error)
                assert names_a_cure(str(error), kind), str(error)
            continue
        assert options or not kind.says, "merged without any option"
        with open_source(store) as seen:
            problems = list(wrong(raw_of_dataset(seen), selected(wanted, options), options))
        assert not problems, f"{options}: {problems[:3]}"
    if kind.cures or not kind.says:
        cure = (kind.cures or ({},))[0]
        nczarr.join(paths, tmp_path / "out.nc", merge=True, **cure)
        assert not list(wrong(raw_of_file(tmp_path / "out.nc"), selected(wanted, cure), cure))


@pytest.mark.filterwarnings("ignore:repack=")
@pytest.mark.parametrize(
    "name", ["packed with missing", "packed, flipped, reordered, kelvin", "missing week"]
)
def test_netcdf_files_are_written_alike(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    paths = make(kind, tmp_path / "in")
    nczarr.join(paths, tmp_path / "out.nc", **kind.cures[0])
    assert not list(wrong(raw_of_file(tmp_path / "out.nc"), wanted_of(paths), kind.cures[0]))


def test_the_error_bound_is_stated(tmp_path: Path) -> None:
    paths = make(KINDS["packing of each file"], tmp_path / "in")
    with pytest.warns(UserWarning, match=r"repack='common': /v: no value changes by more than 0\.0\d+"):
        nczarr.join(paths, tmp_path / "out.zarr", repack="common")
    finer = make(KINDS["finer scale"], tmp_path / "in2")
    with pytest.raises(NCZarrError, match=r"/v: \d+\.\d+ at \[0, 0, 0\] would be stored as \d+ ") as caught:
        nczarr.join(finer, tmp_path / "no.zarr", repack="first")
    assert "1.nc: /v" in str(caught.value)
    assert "repack='common'" in str(caught.value)
    assert not (tmp_path / "no.zarr").exists()


def test_missing_and_repeated_days_are_named(tmp_path: Path) -> None:
    paths = make(KINDS["missing week"], tmp_path / "in")
    with pytest.raises(NCZarrError, match=r"lacks 7 steps: 2001-01-07, 2001-01-08, .*2001-01-13") as caught:
        nczarr.join(paths, tmp_path / "no.zarr", expect_step="1d")
    assert "3.nc" in str(caught.value)
    assert "join='fill'" in str(caught.value)
    with pytest.raises(NCZarrError, match="has 1 steps twice: 2001-01-06"):
        nczarr.join(
            make(KINDS["repeated day"], tmp_path / "in2"),
            tmp_path / "no.zarr",
            expect_step="1d",
        )


def months(path: Path, numbers: list[int], calendar: str = "standard") -> Path:
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        t = file.createVariable("time", "f8", ("time",))
        t.units, t.calendar = "days since 2000-01-01", calendar
        dates = [cftime.datetime(2000 + n // 12, n % 12 + 1, 15, calendar=calendar) for n in numbers]
        t[:] = cftime.date2num(dates, t.units, calendar)
        file.createVariable("v", "f8", ("time",))[:] = numbers
    return path


@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day"])
@pytest.mark.parametrize("step", ["1mo", "auto"])
def test_months_inside_of_files_are_filled(tmp_path: Path, calendar: str, step: str) -> None:
    numbers = [[0, 1, 4, 5], [7, 8, 9, 10]]
    paths = [months(tmp_path / f"{i}.nc", of_file, calendar) for i, of_file in enumerate(numbers)]
    nczarr.join(paths, tmp_path / "a.nc", expect_step=step, join="fill")
    with netCDF4.Dataset(tmp_path / "a.nc") as seen:
        dates = cftime.num2date(seen["time"][:], seen["time"].units, calendar)
        assert [12 * d.year + d.month - 24001 for d in dates] == list(range(11))
        assert {d.day for d in dates} == {15}
        np.testing.assert_array_equal(
            np.ma.filled(seen["v"][:], -1), [n if n in (0, 1, 4, 5, 7, 8, 9, 10) else -1 for n in range(11)]
        )


def test_a_dirty_file_is_appended(tmp_path: Path) -> None:
    name = "packed with missing"
    paths = make(KINDS[name], tmp_path / "in")
    for target in ("a.zarr", "a.nc"):
        nczarr.copy(paths[0], tmp_path / target)
        with pytest.raises(NCZarrError, match="repack='first'"):
            nczarr.append(paths[1], tmp_path / target)
        with pytest.raises(NCZarrError, match="an append keeps the packing"):
            nczarr.append(paths[1], tmp_path / target, repack="common")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for path in paths[1:]:
                nczarr.append(path, tmp_path / target, repack="first")
        with open_source(tmp_path / target) as seen:
            assert not list(wrong(raw_of_dataset(seen), wanted_of(paths), {"repack": "first"}))


@pytest.mark.parametrize(
    "options",
    [
        {"repack": "best"},
        {"adjust": "all"},
        {"expect_step": "daily"},
        {"expect_step": "1"},
        {"tolerance": {"lat": -1.0}},
        {"tolerance": {"latitude": 1.0}},
    ],
)
def test_unknown_words_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    paths = make(KINDS["clean"], tmp_path / "in")
    with pytest.raises(NCZarrError, match=f"{next(iter(options))}="):
        nczarr.join(paths, tmp_path / "out.zarr", **options)


def test_options_need_several_files(tmp_path: Path) -> None:
    paths = make(KINDS["clean"], tmp_path / "in")
    with pytest.raises(NCZarrError, match=r"copy has no option repack \(use nczarr\.join"):
        nczarr.copy(paths[0], tmp_path / "out.zarr", repack="first")


TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@st.composite
def packed_files(draw: st.DrawFn) -> Dataset:
    """A file with a packed variable of any type, with numbers at the edges of the type."""
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    number = st.floats(width=32, allow_infinity=False) if dtype.kind == "f" else st.integers(
        *([int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)] if dtype.kind != "f" else [])
    )  # fmt: skip
    near = st.integers(0, 100)
    values = draw(st.lists(number | near, min_size=1, max_size=4))
    attributes = []
    of = draw(st.sampled_from([np.float32, np.float64]))
    if draw(st.booleans()):
        attributes.append(
            Attribute.of("scale_factor", of(draw(st.sampled_from([1, 0.5, 0.01, 0.02, -0.1, 1e10]))))
        )
    if draw(st.booleans()):
        attributes.append(Attribute.of("add_offset", of(draw(st.sampled_from([0, 5, 0.01, 273.15, -1e6])))))
    type_ = primitive_for_dtype(dtype)
    assert type_ is not None
    if draw(st.booleans()):
        attributes.append(Attribute.of("_FillValue", dtype.type(draw(near)), type_))
    data = MemorySource(np.array(values, dtype))
    v = Variable("v", type_, ("/t",), attributes=tuple(attributes), data=data)
    return Dataset("d", dimensions=(Dimension("t", len(values), True),), variables=(v,))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None)
@given(st.lists(packed_files(), min_size=2, max_size=3), st.sampled_from([*REPACKS, None]))
def test_random_packings_are_exact_or_refused(files: list[Dataset], mode: str | None) -> None:
    def fields(raw: Raw) -> np.ndarray:
        (_, numbers, attributes) = raw["v"]
        return decoded(numbers, attributes)

    wanted = np.concatenate([fields(raw_of_dataset(file)) for file in files])
    store: dict[str, bytes] = {}
    how: dict[str, Any] = {"adjust": "promote"} if mode is None else {"repack": mode}
    try:
        nczarr.join(files, store, along="t", **how)
    except NCZarrError:
        return
    with open_source(store) as seen:
        raw = raw_of_dataset(seen)
    found, attributes = fields(raw), raw["v"][2]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    steps = [
        abs(float(f.variables[0].attribute["scale_factor"].values[0]))
        if "scale_factor" in f.variables[0].attribute
        else 1.0
        for f in files
    ]
    offsets = [
        abs(float(f.variables[0].attribute["add_offset"].values[0]))
        for f in files
        if "add_offset" in f.variables[0].attribute
    ]
    bound = 2.0**-21 * np.maximum(abs(wanted), max(offsets, default=0)) + max(steps) * 2.0**-10
    if mode == "common" and "scale_factor" in attributes:
        bound = bound + 0.5001 * abs(attributes["scale_factor"])
    is_number = ~np.isnan(wanted)
    assert (abs(found - wanted)[is_number] <= bound[is_number]).all()
