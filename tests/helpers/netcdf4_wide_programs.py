"""Generate random programs of more of netCDF4-python: user types, text, masks, settings, all attribute types."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from netcdf4_programs import FORMATS, Run

_NUMBERS = ["i1", "i2", "i4", "f4", "f8"]
_MORE = ["u1", "u2", "u4", "i8", "u8"]
_USER = ["record", "many", "colour"]
_DIMENSIONS = ["x", "t", "n", "e", "own"]
_VARIABLES = ["v", "w", "c", "s", "x"]
_ATTRIBUTES = [
    "units",
    "a",
    "b",
    "missing_value",
    "valid_min",
    "valid_max",
    "valid_range",
    "flag_values",
    "Ü",
]
_ODD_NAMES = [
    " a",
    "a ",
    "a/b",
    "",
    "a b",
    "1a",
    "_a",
    "a\n",
    "é",
    "e\u0301",
    "_FillValue",
    "a@b",
    "x" * 300,
    "-a",
    ".a",
]
_SETTINGS = [
    "set_auto_mask",
    "set_auto_scale",
    "set_auto_maskandscale",
    "set_always_mask",
    "set_auto_chartostring",
]

_attribute_values = st.one_of(
    st.sampled_from(
        [0, 1, -1, 5, 100, 300, 2**31, 2**40, 2**63, -(2**63), 0.5, -2.5, 1e20, 1e300, float("nan")]
    ),
    st.sampled_from(["", "K", "Übersicht", "a\nb", "a\0", b"", b"bytes", b"\xff", True, [True, False]]),
    st.sampled_from(
        [[1, 2], [0.5, 2.0], [1, 2.5], (1, 2, 3), [], [[1, 2], [3, 4]], ["a", "bc"], ["ü", ""], [1, "a"]]
    ),
    st.sampled_from([None, 1j, {"a": 1}, [None], object, [2**40], [2**63], [b"a", b"bc"]]),
    st.builds(
        lambda t, v: np.array(v).astype(t),
        st.sampled_from([*_NUMBERS, *_MORE]),
        st.sampled_from([0, 1, 100, [1, 2], [], [[1], [2]]]),
    ),
    st.builds(lambda t: np.array(["a", "bcd"], t), st.sampled_from(["U3", "S3", "O", "U1", "S1"])),
    st.sampled_from(
        [
            np.str_("a"),
            np.bytes_(b"a"),
            np.bool_(True),
            np.float16(1.5),
            np.array([], "U1"),
            np.ma.masked,
            np.ma.array([1, 2], "i4", mask=[0, 1]),
        ]
    ),
)


def _slices(steps: list[int | None]) -> st.SearchStrategy[slice]:
    ends = st.none() | st.integers(-4, 6)
    return st.builds(slice, ends, ends, st.sampled_from(steps))


_some = st.one_of(
    st.integers(-4, 5),
    st.integers(0, 2),
    st.integers(0, 2).map(np.int64),
    _slices([None, 1, 2, 3, -1, -2]),
    st.just(slice(None)),
    st.sampled_from([[0, 2], [1], [2, 0], [0, 0, 1], [True, False, True], [], [-1], [0, -1], (0, 2)]),
    st.sampled_from([np.array([0, 2]), np.array([True, False, True]), np.array([2, 1, 0]), np.array(1)]),
)
_indices = st.one_of(
    st.just(Ellipsis),
    _some,
    st.tuples(_some),
    st.tuples(_some, _some),
    st.tuples(_some, _some, _some),
    st.tuples(_some, st.just(Ellipsis)),
    st.tuples(st.just(Ellipsis), _some),
    st.tuples(_some, st.just(Ellipsis), _some),
    st.just(()),
    st.just("mask"),
)
#: For writing: with a negative start of a slice, netCDF4-python loses values or fails.
_at = st.one_of(
    st.integers(0, 5),
    st.integers(-2, -1),
    st.builds(
        slice, st.none() | st.integers(0, 4), st.none() | st.integers(0, 6), st.sampled_from([None, 1, 2, 3])
    ),
    st.sampled_from([slice(None, None, -1), slice(2, None, -1), slice(2, 0, -1)]),
    st.just(slice(None)),
    st.sampled_from([[0, 2], [1], [2, 0], [True, False, True], np.array([0, 1]), np.array([1, 3])]),
)
_places = st.one_of(
    st.just(Ellipsis),
    _at,
    st.tuples(_at, _at),
    st.tuples(_at, _at, _at),
    st.tuples(_at, st.just(Ellipsis)),
    st.tuples(st.just(Ellipsis), _at),
    st.just("mask"),
)
_data = st.tuples(
    st.sampled_from(["scalar", "fit", "fit", "fit", "ramp"]),
    st.sampled_from([(), (1,), (3,), (2, 3), (3, 2), (1, 3), (4,), (2, 2, 3), (1, 1, 1), (0,)]),
    st.integers(-3, 120),
    st.sampled_from(
        ["plain", "plain", "masked", "allmasked", "float", "list", "nan", "wide", "text", "bool", "big"]
    ),
)
_groups = st.sampled_from(["", "", "", "g", "g/h"])
_names = st.sampled_from(_VARIABLES)


def _fits_int(value: Any) -> bool:
    """Return False for integers that need more than 32 bits."""
    array = np.array(value) if isinstance(value, int | list | np.integer) else np.array(0)
    return array.dtype.kind not in "iu" or not array.size or bool((np.abs(array.astype("f8")) < 2**31).all())


def steps(format: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """One step of a program."""
    full = format == "NETCDF4"
    types = st.sampled_from([*_NUMBERS, "S1", "text", *([*_MORE, "str", *_USER] if full else [])])
    groups = _groups if full else st.just("")
    options = st.fixed_dictionaries(
        {},
        optional={
            "fill_value": st.sampled_from([0, 5, 100, -1, 2.5]),
            "zlib": st.booleans(),
            "shuffle": st.booleans(),
            "fletcher32": st.booleans(),
            "contiguous": st.booleans(),
            "complevel": st.sampled_from([0, 1, 9]),
            "chunksizes": st.sampled_from([1, 2, 3]),
            "least_significant_digit": st.just(1),
            "endian": st.sampled_from(["native", "little", "big"]),
        },
    )
    write = st.tuples(st.just("write"), groups, _names, _places, _data)
    make = st.tuples(
        st.just("variable"),
        groups,
        _names,
        types,
        st.lists(st.sampled_from(_DIMENSIONS), max_size=3).map(tuple),
        options,
    )
    read = st.tuples(st.just("read"), groups, _names, _indices)
    # In formats without 64-bit integers, netCDF4-python truncates them.
    values = _attribute_values if full else _attribute_values.filter(_fits_int)
    attribute = st.tuples(
        st.just("attribute"), groups, st.none() | _names, st.sampled_from(_ATTRIBUTES), values
    )
    return st.one_of(
        st.tuples(st.just("dimension"), groups, st.just("own"), st.sampled_from([None, 1, 3])),
        make,
        make,
        write,
        write,
        write,
        write,
        read,
        read,
        read,
        attribute,
        attribute,
        st.tuples(
            st.just("packing"), groups, _names, st.sampled_from([0.5, 2.0, 10]), st.sampled_from([0, 1.5, -3])
        ),
        st.tuples(
            st.just("odd_name"),
            groups,
            st.sampled_from(["attribute", "variable", "dimension", "group"]),
            st.sampled_from(_ODD_NAMES),
        ),
        st.tuples(
            st.just("string_attribute"),
            groups,
            st.sampled_from(_ATTRIBUTES),
            st.sampled_from(["", "a", "ü", ["a", "b"]]),
        ),
        st.tuples(st.just("delete"), groups, st.none() | _names, st.sampled_from(_ATTRIBUTES)),
        st.tuples(
            st.just("rename"), groups, st.just("Variable"), st.sampled_from("vwu"), st.sampled_from("vwu")
        ),
        st.tuples(
            st.just("rename"), groups, st.just("Dimension"), st.sampled_from("nd"), st.sampled_from("nd")
        ),
        st.tuples(st.just("rename"), groups, st.just("Group"), st.sampled_from("gk"), st.sampled_from("gk")),
        st.tuples(
            st.just("rename"),
            groups,
            st.just("Attribute"),
            st.sampled_from(_ATTRIBUTES),
            st.sampled_from("ab"),
        ),
        st.tuples(st.just("set"), st.sampled_from(_SETTINGS), st.booleans()),
        st.tuples(st.just("set_for"), groups, _names, st.sampled_from(_SETTINGS), st.booleans()),
        st.tuples(st.just("describe"), groups, _names),
        st.just(("sync",)),
        st.tuples(st.just("open"), st.sampled_from(["r", "a", "a", "r+"])),
    )


@st.composite
def wide_programs(draw: st.DrawFn, formats: tuple[str, ...] = FORMATS) -> tuple[str, list[tuple[Any, ...]]]:
    """A format, and steps that begin with dimensions and some variables."""
    format = draw(st.sampled_from(formats))
    start: list[tuple[Any, ...]] = [
        ("dimension", "", "t", None),
        ("dimension", "", "x", 3),
        ("dimension", "", "e", 2),
        ("dimension", "", "n", None if format == "NETCDF4" else 4),
        ("variable", "", "v", draw(st.sampled_from([*_NUMBERS, "S1"])), ("t", "x"), {}),
        ("variable", "", "c", "text", draw(st.sampled_from([("x", "n"), ("t", "x"), ("x",)])), {}),
    ]
    if format == "NETCDF4":
        type_ = draw(st.sampled_from([*_USER, "str", "f4", "i8"]))
        start.append(
            (
                "variable",
                "",
                "s",
                type_,
                draw(st.sampled_from([("t", "n"), ("n", "x"), ("t",), ("x", "e")])),
                {},
            )
        )
    return format, start + draw(st.lists(steps(format), min_size=3, max_size=25))


class WideRun(Run):
    """A program that runs with a library."""

    def __init__(self, library: Any, path: str, format: str, log: Any) -> None:
        super().__init__(library, path, format, log)
        if format == "NETCDF4":
            self.ds.createGroup("g/h")

    def variable(self, group: str, name: str, type_: str, dimensions: Any, options: dict[str, Any]) -> None:
        if type_ in (*_USER, "str", "text", "S1"):
            options = {
                k: v
                for k, v in options.items()
                if k not in ("fill_value", "least_significant_digit", "endian")
            }
        if options.get("contiguous"):  # netCDF4-python leaves a variable behind after a conflict
            fixed = not {"t", "n", "own"} & set(dimensions)
            options = {k: v for k, v in options.items() if k == "fill_value" or (fixed and k == "contiguous")}
        if type_[0] == "u" and options.get("fill_value") in (
            -1,
            2.5,
        ):  # netCDF4-python fails and leaves a variable behind
            options = {**options, "fill_value": 7}
        if type_ == "text" and dimensions:
            super().variable(group, name, "S1", dimensions, options)
            self.attribute(group, name, "_Encoding", "utf-8")
        else:
            super().variable(group, name, "S1" if type_ == "text" else type_, dimensions, options)

    def attribute(self, group: str, variable: str | None, name: str, value: Any) -> None:
        def set_() -> Any:
            owner = self.owner(group, variable)
            owner.setncattr(name, value)
            return owner.getncattr(name)

        self.log.attempt(set_)

    def data(self, v: Any, index: Any, kind: str, shape: tuple[int, ...], start: int, form: str) -> Any:
        shape = self.shape_of_data(v, index, kind, shape)
        size = int(np.prod(shape))
        if v.dtype is not str and v.dtype.kind == "S" and form in ("text", "wide", "list"):
            words = [("ab", "é", "", "xyz")[(start + i) % 4] for i in range(size)]
            # netCDF4-python takes an array of objects for characters.
            values: Any = np.array(words, {"text": "U3", "wide": "U5", "list": "U1"}[form]).reshape(shape)
            return values if shape else words[0]
        if v.dtype is str or v.dtype.kind == "S" or v.dtype.names or not isinstance(v.datatype, np.dtype):
            return super().data(v, index, kind, shape, start, form)
        plain = (np.arange(size) + start).reshape(shape)
        match form:
            case "allmasked":
                return np.ma.masked_all(shape, v.dtype)
            case "nan":
                return np.where(plain % 2, np.nan, plain).astype("f8")
            case "wide":
                return plain.astype("i8") * 1000
            case "text":
                return plain.astype("U4")
            case "bool":
                return plain % 2 == 0
            case "big":
                return plain.astype(">f4")
        return super().data(v, index, kind, shape, start, form)

    def place(self, v: Any, index: Any) -> Any:
        if isinstance(index, str):  # a mask of the variable's shape
            return np.arange(v.size).reshape(v.shape) % 2 == 0 if v.dimensions else ...
        return super().place(v, index)

    def packing(self, group: str, variable: str, scale: float, offset: float) -> None:
        def pack() -> Any:
            v = self.owner(group, variable)
            if v.dtype is str or v.dtype.kind not in "iuf":  # nczarr packs numbers only
                return None
            v.setncatts({"scale_factor": scale, "add_offset": offset})
            return v[...]

        self.log.attempt(pack)

    def odd_name(self, group: str, kind: str, name: str) -> None:
        def make() -> Any:
            g = self.group(group)
            match kind:
                case "attribute":
                    g.setncattr(name, 1)
                    return sorted(g.ncattrs())
                case "variable":
                    return g.createVariable(name, "i4").name
                case "dimension":
                    return g.createDimension(name, 1).name
            return g.createGroup(name).name

        self.log.attempt(make)

    def string_attribute(self, group: str, name: str, value: Any) -> None:
        def set_() -> Any:
            self.group(group).setncattr_string(name, value)
            return self.group(group).getncattr(name)

        self.log.attempt(set_)

    def set_for(self, group: str, variable: str, name: str, value: bool) -> None:
        self.log.attempt(lambda: getattr(self.owner(group, variable), name)(value))

    def describe(self, group: str, variable: str) -> None:
        def look() -> Any:
            v = self.owner(group, variable)
            return (
                # Chunks of compounds depend on their size, which is the C compiler's in netCDF4-python.
                v.shape,
                v.size,
                v.ndim,
                v.dimensions,
                getattr(v.dtype, "names", None) or self.log.chunking(v),
                v.endian(),
                v.quantization(),
                v.mask,
                v.scale,
                v.always_mask,
                v.chartostring,
                v.get_dims()[0].size if v.ndim else None,
                getattr(v, "filters", dict)(),
            )

        self.log.attempt(look)

    def look(self) -> None:
        """Log the whole content of the dataset. netCDF-C moves attributes that change type to the end."""
        groups = [self.ds, *self.ds.groups.values()]
        groups += [below for g in self.ds.groups.values() for below in g.groups.values()]
        for group in groups:
            self.log(group.path, group.data_model, {n: group.getncattr(n) for n in sorted(group.ncattrs())})
            self.log(sorted((d.name, len(d), d.isunlimited()) for d in group.dimensions.values()))
            for _, v in sorted(group.variables.items()):
                self.log(v.name, v.dtype, v.dimensions, v.shape)
                self.log({n: v.getncattr(n) for n in sorted(v.ncattrs())})
                self.log.attempt(lambda v=v: v[...])
