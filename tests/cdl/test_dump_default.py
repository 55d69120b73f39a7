"""Test the default style of CDL output: ncgen reads it back as the same dataset."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_data import DATA

from nczarr.cdl import DumpOptions, dump, dumps, loads
from nczarr.errors import CDLError, LossError
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    INT64,
    STRING,
    UBYTE,
    UINT64,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Filter,
    Group,
    MemorySource,
    OpaqueType,
    Region,
    Storage,
    Type,
    Variable,
    VlenType,
    compare,
)
from nczarr.netcdf import open_dataset

needs_ncgen = pytest.mark.skipif(not shutil.which("ncgen"), reason="needs ncgen")


def _ncgen(text: str, folder: Path) -> Path | None:
    """The file that ncgen makes of a text; None if it refuses."""
    cdl, path = folder / "x.cdl", folder / "x.nc"
    path.unlink(missing_ok=True)
    cdl.write_text(text, encoding="utf-8", newline="")
    run = subprocess.run(["ncgen", "-4", "-o", str(path), str(cdl)], capture_output=True)
    return path if run.returncode == 0 else None


def _differences(dataset: Dataset, folder: Path, **options: Any) -> list[str]:
    path = _ncgen(dumps(dataset, DumpOptions(**options)), folder)
    assert path is not None
    with open_dataset(path) as source:
        return [str(d) for d in compare(dataset, source.dataset)]


def _variable(
    name: str, type_: Type, values: Any, *dimensions: str | int, fill: Any = None, **more: Any
) -> Variable:
    data = np.empty(np.shape(values), object) if type_.dtype == object else np.asarray(values, type_.dtype)
    if type_.dtype == object:
        data[...] = values
    attributes = () if fill is None else (Attribute("_FillValue", type_, np.array([fill], type_.dtype)),)
    return Variable(name, type_, dimensions, attributes=attributes, data=MemorySource(data), **more)


def _dataset(*variables: Variable, **more: Any) -> Dataset:
    sizes = {"n": 3, "m": 2}
    dimensions = tuple(Dimension(n, s) for n, s in sizes.items()) + more.pop("dimensions", ())
    return Dataset("d", dimensions=dimensions, variables=variables, **more)


@needs_ncgen
def test_floats_keep_their_bits(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    n = 4000
    single = random.integers(0, 1 << 32, n, dtype="u4").view("f4")
    double = random.integers(0, 1 << 63, n, dtype="u8").view("f8")
    single[np.isnan(single)], double[np.isnan(double)] = 1, 1
    single[:6] = [0.0, -0.0, np.inf, -np.inf, 9.96921e36, 0.1]
    double[:6] = [0.0, -0.0, np.inf, -np.inf, 9.969209968386869e36, 1e15]
    dataset = _dataset(
        _variable("f", FLOAT, single, "/x"),
        _variable("d", DOUBLE, double, "/x"),
        _variable("filled", FLOAT, [1.0, np.nextafter(np.float32(1), np.float32(2)), 2.0], "/n", fill=1.0),
        _variable("none", DOUBLE, [np.nan, 1.0, -0.0], "/n", fill=np.nan),
        dimensions=(Dimension("x", n),),
        attributes=(
            Attribute("a", FLOAT, single[:50]),
            Attribute("b", DOUBLE, double[:50]),
            Attribute.of("c", [np.nan, math.pi]),
        ),
    )
    assert _differences(dataset, tmp_path) == []


@needs_ncgen
def test_integers_keep_their_ends(tmp_path: Path) -> None:
    variables = []
    attributes = []
    for type_ in (BYTE, UBYTE, INT, INT64, UINT64):
        limits = np.iinfo(type_.dtype)
        variables.append(_variable(type_.name + "_v", type_, [limits.min, limits.max, 0], "/n"))
        variables.append(
            _variable(type_.name + "_f", type_, [limits.max, limits.max, 0], "/n", fill=limits.max)
        )
        attributes.append(
            Attribute(type_.name + "_a", type_, np.array([limits.min, limits.max], type_.dtype))
        )
    assert _differences(_dataset(*variables, attributes=tuple(attributes)), tmp_path) == []


@needs_ncgen
def test_chars_and_strings(tmp_path: Path) -> None:
    rows = np.array([[b"a", b"\n", b"\0"], [b"\0", b"\xff", b"\0"]])
    texts = ["a\"'\\\n\t\v\x01", "5° 海", ""]
    dataset = _dataset(
        _variable("fixed", CHAR, rows, "/m", "/n"),
        _variable("padded", CHAR, rows, "/m", "/n", fill=b"*"),
        _variable("records", CHAR, rows, "/t", "/n"),
        _variable("inner", CHAR, rows.T, "/n", "/t"),
        _variable("scalar", CHAR, b"\0", fill=b"x"),
        _variable("s", STRING, texts, "/n"),
        dimensions=(Dimension("t", 2, True),),
        attributes=(
            Attribute.of("text", "one\ntwo\t\x01 é"),
            Attribute.of("bytes", b"\xff\xfe"),
            Attribute.of("names", texts),
            Attribute.of("one", ["only"]),
        ),
    )
    assert _differences(dataset, tmp_path) == []


@needs_ncgen
def test_user_types(tmp_path: Path) -> None:
    sky = EnumType("/sky", UBYTE, (("clear", 0), ("a few", 1), ("x.y", 2)))
    sea = EnumType("/sea", INT, (("clear", 5), ("rough", 6)))
    raw = OpaqueType("/raw", 3)
    ints = VlenType("/ints", INT)
    point = CompoundType(
        "/point", (Field("at", DOUBLE, (2,)), Field("sky", sky), Field("tag", CHAR, (3,)), Field("n", INT))
    )
    points = np.zeros(2, point.dtype)
    points["at"], points["sky"], points["n"] = [[0.1, -0.0], [1e300, 3]], [1, 2], [4, 5]
    points["tag"] = [[b"a", b"\0", b"c"], [b"\0", b"\0", b"\0"]]
    lists = [np.array([1, 2], "i4"), np.array([], "i4"), np.array([-3], "i4")]
    dataset = _dataset(
        _variable("e", sky, [0, 1, 2], "/n", fill=1),
        _variable("e2", sea, [5, 6, 5], "/n"),
        _variable("o", raw, np.frombuffer(b"\0\1\xff\xaa\xbb\xcc", "V3"), "/m"),
        Variable("v", ints, ("/n",), data=MemorySource(np.array([*lists, None], object)[:3])),
        Variable("p", point, ("/m",), data=MemorySource(points)),
        types=(sky, sea, raw, ints, point),
        attributes=(Attribute("sea", sea, np.array([5], "i4")), Attribute("pp", point, points)),
    )
    assert _differences(dataset, tmp_path) == []


@needs_ncgen
def test_hostile_names_and_shadowed_dimensions(tmp_path: Path) -> None:
    names = [
        "2m",
        "a b",
        "50% a",
        "x:y;z",
        "q\"'",
        "[1]{2}".replace("[", "b["),
        "é海",
        "data",
        "types",
        "a\\b",
        "c~^`",
    ]
    variables = tuple(_variable(n, INT, [1, 2, 3], "/n", fill=0) for n in names)
    inner = Dataset(
        "g h",
        dimensions=(Dimension("n", 2),),
        variables=(_variable("v", INT, [[1, 2]] * 3, "/n", "/g\\ h/n"), _variable("n", INT, [1, 2, 3], "/n")),
    )
    dataset = _dataset(*variables, groups=(inner,))
    assert _differences(dataset, tmp_path) == []
    assert _differences(dataset, tmp_path, special=True) == []


@needs_ncgen
@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (2, 3, 2)])
def test_inner_unlimited_dimensions(tmp_path: Path, shape: tuple[int, ...]) -> None:
    dimensions = tuple(Dimension(f"u{i}", n, True) for i, n in enumerate(shape))
    references = tuple(f"/u{i}" for i in range(len(shape)))
    values = np.arange(math.prod(shape)).reshape(shape)
    dataset = Dataset("d", dimensions=dimensions, variables=(_variable("v", INT, values, *references),))
    for options in ({}, {"full": "c"}, {"brief": "f"}, {"line_length": 12}):
        assert _differences(dataset, tmp_path, **options) == []


@pytest.mark.slow
@needs_ncgen
@given(
    st.data(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_any_dataset_that_ncgen_takes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    dataset = data.draw(
        strategies.datasets(
            names=strategies.plain_names(), types="none", empty_attributes=False, storage=False
        )
    )
    assert _differences(dataset, tmp_path_factory.mktemp("any")) == []


@pytest.mark.slow
@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_dataset_prints_in_every_way(data: st.DataObject) -> None:
    dataset = data.draw(strategies.datasets(anonymous=True, zero_sizes=True))
    for ncdump in (False, True):
        for options in ({"full": "f"}, {"brief": "c", "line_length": 10}, {"special": True, "times": True}):
            try:
                text = dumps(dataset, DumpOptions(ncdump=ncdump, **options))  # type: ignore[arg-type]
            except CDLError as error:  # ncdump has no such names
                assert ncdump
                assert "contains '/'" in str(error)
                continue
            assert text.startswith("netcdf d {\n")
            assert text.endswith("}\n")
    # NcML is XML, or is refused.
    try:
        text = dumps(dataset, DumpOptions(ncml=True))
    except (LossError, CDLError) as error:
        assert "cannot hold the character U+" in str(error) or "contains '/'" in str(error)
    else:
        ET.fromstring(text.encode())


@needs_ncgen
@pytest.mark.parametrize(
    "name",
    ["tiny", "sst", "geometry", "test_a", "enum_variable", "ref_tst_compounds2", "lateral_search_example"],
)
def test_real_files_come_back(tmp_path: Path, name: str) -> None:
    with open_dataset(DATA / "netcdf" / f"{name}.nc") as source:
        assert _differences(source.dataset, tmp_path) == []


def test_empty_attributes_keep_their_type() -> None:
    attributes = (Attribute("i", INT, np.empty(0, "i4")), Attribute("s", STRING, np.empty(0, object)))
    attributes += (Attribute.of("c", ""),)
    text = dumps(Dataset("d", attributes=attributes))
    assert "\t\tint :i =  ;\n" in text
    assert "\t\tchar :c =  ;\n" in text
    assert "\t\tstring :s =  ;\n" in text


def test_long_dimensions_and_anonymous_ones() -> None:
    dataset = Dataset(
        "d", dimensions=(Dimension("long", 1 << 32),), variables=(_variable("v", INT, [1, 2], 2),)
    )
    text = dumps(dataset)
    assert "long = 4294967296LL ;" in text
    assert "int v(2) ;" in text
    assert "long = 4294967296 ;" in dumps(dataset, DumpOptions(ncdump=True))


def test_bytes_that_are_not_text() -> None:
    dataset = Dataset("d", attributes=(Attribute.of("a", b"caf\xe9"),))
    assert '"caf\\351"' in dumps(dataset)
    assert '"caf\udce9"' in dumps(dataset, DumpOptions(ncdump=True))


def test_kind_name_and_header() -> None:
    dataset = _dataset(_variable("v", INT, [1, 2, 3], "/n"), format="classic")
    assert dumps(dataset, DumpOptions(kind=True)) == "classic\n"
    text = dumps(dataset, DumpOptions(name="2 b", header_only=True))
    assert text.startswith("netcdf \\2\\ b {\n")
    assert "data:" not in text


def test_dates_are_comments() -> None:
    time = _variable("time", INT, [0, 1, 2], "/n")
    time = Variable(
        "time", INT, ("/n",), attributes=(Attribute.of("units", "days since 2000-02-28"),), data=time.data
    )
    text = dumps(_dataset(time), DumpOptions(times=True))
    assert ' time = 0,   // "2000-02-28"\n    1,   // "2000-02-29"\n    2;  // "2000-03-01"\n' in text


def test_special_attributes() -> None:
    filters = (Filter(3), Filter(2), Filter(1, (5,)), Filter(307, (9,)))
    storage = Storage("chunked", (2,), filters, "big", True, (4,))
    text = dumps(
        _dataset(_variable("data", INT, [1, 2, 3], "/n", storage=storage)), DumpOptions(special=True)
    )
    wanted = ['_Storage = "chunked"', "_ChunkSizes = 2", "_ShardSizes = 4"]
    wanted += ['_Fletcher32 = "true"', '_Shuffle = "true"']
    wanted += ["_DeflateLevel = 5", '_Filter = "307,9"', '_Endianness = "big"', '_NoFill = "true"']
    assert [line.strip() for line in text.splitlines() if "data :" in line] == [
        f"data :{w} ;" for w in wanted
    ]


def test_shards_around_other_chunks_than_those_of_the_source_are_left_out() -> None:
    storage = Storage("chunked", (2,), shard_shape=(3,))
    text = dumps(_dataset(_variable("v", INT, [1, 2, 3], "/n", storage=storage)), DumpOptions(special=True))
    assert "_ChunkSizes = 2" in text
    assert "_ShardSizes" not in text


@pytest.mark.parametrize(
    "options",
    [{"line_length": 9}, {"float_digits": 0}, {"double_digits": 21}, {"brief": "x"}, {"full": "C"}],
)
def test_options_without_sense(options: dict[str, Any]) -> None:
    with pytest.raises(CDLError):
        DumpOptions(**options)


@pytest.mark.parametrize("options", [{"variables": ("vv",)}, {"groups": ("g",)}, {"variables": ("/g/v",)}])
def test_unknown_variables_and_groups(options: dict[str, Any]) -> None:
    with pytest.raises(CDLError, match="there is no"):
        dumps(_dataset(_variable("v", INT, [1, 2, 3], "/n")), DumpOptions(**options))


class _Counting:
    """Values that are never in memory together; keeps the size of the largest region asked for."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.dtype = np.dtype("i4")
        self.largest = self.total = 0

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        shape = [s.stop - s.start for s in region]
        self.largest = max(self.largest, math.prod(shape))
        self.total += math.prod(shape)
        return np.ones(shape, "i4")


class _Nowhere(io.TextIOBase):
    def __init__(self) -> None:
        self.size = self.longest = 0

    def write(self, text: str) -> int:
        self.size += len(text)
        self.longest = max(self.longest, len(text))
        return len(text)


@pytest.mark.parametrize("shape", [(3_000_000,), (3, 1_000_000), (1_000_000, 3), (2, 1, 1_500_000)])
def test_large_variables_are_streamed(shape: tuple[int, ...]) -> None:
    source, file = _Counting(shape), _Nowhere()
    dump(Dataset("d", variables=(Variable("v", INT, shape, data=source),)), file)  # type: ignore[arg-type]
    assert source.total == math.prod(shape)
    assert source.largest <= 1 << 20
    assert file.longest < 1 << 20
    assert file.size >= 3 * math.prod(shape)


def test_whole_chunks_are_read_where_that_is_possible() -> None:
    source = _Counting((64, 100, 1000))
    variable = Variable("v", INT, source.shape, data=source, storage=Storage("chunked", (32, 10, 1000)))
    dump(Dataset("d", variables=(variable,)), _Nowhere())  # type: ignore[arg-type]
    assert source.largest == 32 * 100 * 1000


@pytest.mark.parametrize("character", ["\0", "\x01", "\x1b", "\udcff", "\uffff"])
def test_ncml_refuses_what_xml_has_no_place_for(character: str) -> None:
    dataset = Dataset("d", attributes=(Attribute("a", STRING, np.array([f"x{character}y"], object)),))
    with pytest.raises(LossError, match=rf"U\+{ord(character):04X}"):
        dumps(dataset, DumpOptions(ncml=True))
    assert f"&#{ord(character)};" in dumps(dataset, DumpOptions(ncml=True, ncdump=True)) or character > "\x1f"


@pytest.mark.parametrize("text", ["\t", "\n", "\r", "\x7f", "\x85", 'a<b>&"c"', "\u00e9"])
def test_ncml_is_xml(text: str) -> None:
    dataset = Dataset("d", attributes=(Attribute("a", STRING, np.array([f"x{text}y"], object)),))
    element = ET.fromstring(dumps(dataset, DumpOptions(ncml=True)).encode())[0]
    assert element.get("value") == f"x{text}y"


def _late_types() -> dict[str, Dataset]:
    """Datasets that use a type before the group that declares it."""
    colour = EnumType("/g/colour", BYTE, (("red", 1),))
    late = Group("g", types=(colour,))
    attribute = Attribute("a", colour, np.array([1], "i1"))
    return {
        "type": Dataset("d", types=(CompoundType("/c", (Field("x", colour),)),), groups=(late,)),
        "variable": Dataset("d", variables=(Variable("v", colour, ()),), groups=(late,)),
        "attribute": Dataset("d", attributes=(attribute,), groups=(late,)),
        "variable's attribute": Dataset(
            "d", variables=(Variable("v", INT, (), attributes=(attribute,)),), groups=(late,)
        ),
        "sibling": Dataset("d", groups=(Group("a", variables=(Variable("v", colour, ()),)), late)),
    }


@pytest.mark.parametrize("case", list(_late_types()))
def test_types_that_are_used_before_their_group_are_refused(case: str) -> None:
    dataset = _late_types()[case]
    with pytest.raises(LossError, match="before the group that declares it"):
        dumps(dataset)
    assert "colour" in dumps(dataset, DumpOptions(header_only=True))
    assert "colour" in dumps(dataset, DumpOptions(ncdump=True))


def test_types_of_a_group_come_in_an_order_that_can_be_read() -> None:
    inner = VlenType("/inner", INT)
    outer = VlenType("/outer", inner)
    assert [t.name for t in loads(dumps(Dataset("d", types=(outer, inner)))).types] == ["inner", "outer"]
