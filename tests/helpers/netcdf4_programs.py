"""Generate random programs of netCDF4-python, and run them with a library."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

FORMATS = ("NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")

_CLASSIC_TYPES = ["i1", "i2", "i4", "f4", "f8", "S1"]
_TYPES = [*_CLASSIC_TYPES, "u1", "u2", "u4", "i8", "u8", "str"]
_DIMENSIONS = ["x", "t", "n"]  # and "own"
_VARIABLES = ["v", "w", "x", "t"]
_ATTRIBUTES = ["units", "scale_factor", "add_offset", "missing_value", "valid_min", "valid_range", "a"]

_sizes = st.sampled_from([None, 1, 3, 4])
_numbers = st.sampled_from([0, 1, 2, -1, 5, 100, 127, -128, 0.5, -2.5, 1e20])
_attribute_values = st.one_of(
    _numbers,
    st.sampled_from(["", "K", "Übersicht", "a\nb", [1, 2], [0.5, 2.0], [1, 100]]),
    st.tuples(st.sampled_from(["i1", "i2", "i4", "f4", "f8"]), st.sampled_from([0, 1, 5, 100])),
)
_index = st.one_of(
    st.integers(-4, 5),
    st.builds(
        slice,
        st.none() | st.integers(-3, 4),
        st.none() | st.integers(-3, 5),
        st.sampled_from([None, 1, 2, -1]),
    ),
    st.sampled_from([[0, 2], [1], [2, 0], [0, 0, 1], [True, False, True], []]),
)
_indices = st.one_of(
    st.just(Ellipsis), _index, st.tuples(_index, _index), st.tuples(st.just(Ellipsis), _index)
)
#: For writing: with a negative start of a slice, netCDF4-python loses values or fails.
_from = st.builds(
    slice, st.none() | st.integers(0, 4), st.none() | st.integers(-3, 5), st.sampled_from([None, 1, 2])
)
_at = st.one_of(
    st.integers(-4, 5), _from, st.sampled_from([[0, 2], [1], [2, 0], [0, 0, 1], [True, False, True]])
)
_places = st.one_of(st.just(Ellipsis), _at, st.tuples(_at, _at), st.tuples(st.just(Ellipsis), _at))
_groups = st.sampled_from(["", "", "", "g"])
_variables = st.sampled_from(_VARIABLES)
_data = st.tuples(
    st.sampled_from(["scalar", "fit", "fit", "ramp"]),
    st.sampled_from([(), (3,), (2, 3), (3, 2), (1, 3), (4,)]),
    st.integers(-3, 120),
    st.sampled_from(["plain", "plain", "masked", "float", "list"]),
)


def steps(format: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """One step of a program."""
    types = st.sampled_from(_TYPES if format == "NETCDF4" else _CLASSIC_TYPES)
    groups = _groups if format == "NETCDF4" else st.just("")
    options = st.fixed_dictionaries(
        {},
        optional={
            "fill_value": st.sampled_from([0, 5, 100]),
            "zlib": st.booleans(),
            "chunksizes": st.sampled_from([1, 2, 3]),
            "least_significant_digit": st.just(1),
        },
    )
    writes = st.tuples(st.just("write"), groups, _variables, _places, _data)
    makes = st.tuples(
        st.just("variable"),
        groups,
        _variables,
        types,
        st.lists(st.sampled_from([*_DIMENSIONS, "own"]), max_size=2).map(tuple),
        options,
    )
    attributes = st.tuples(
        st.just("attribute"), groups, st.none() | _variables, st.sampled_from(_ATTRIBUTES), _attribute_values
    )
    return st.one_of(
        # Names in the group differ from those of its parent: netCDF4-python confuses them on opening the
        # file.
        st.tuples(st.just("dimension"), st.just(""), st.sampled_from(_DIMENSIONS), _sizes),
        st.tuples(st.just("dimension"), groups, st.just("own"), _sizes),
        makes,
        makes,
        writes,
        writes,
        writes,
        st.tuples(st.just("read"), groups, _variables, _indices),
        st.tuples(st.just("read"), groups, _variables, _indices),
        attributes,
        attributes,
        st.tuples(st.just("delete"), groups, st.none() | _variables, st.sampled_from(_ATTRIBUTES)),
        # Variables and dimensions have different names: netCDF-C crashes, or loses values.
        st.tuples(
            st.just("rename"), groups, st.just("Variable"), st.sampled_from("vw"), st.sampled_from("vwu")
        ),
        st.tuples(
            st.just("rename"), groups, st.just("Dimension"), st.sampled_from("nd"), st.sampled_from("nd")
        ),
        st.tuples(
            st.just("rename"),
            groups,
            st.just("Attribute"),
            st.sampled_from(_ATTRIBUTES),
            st.just("b"),  # the classic formats reject longer names outside of define mode
        ),
        st.tuples(
            st.just("set"),
            st.sampled_from(["set_auto_mask", "set_auto_scale", "set_auto_maskandscale", "set_always_mask"]),
            st.booleans(),
        ),
        st.just(("sync",)),
        st.tuples(st.just("open"), st.sampled_from(["r", "a", "a"])),
    )


@st.composite
def programs(draw: st.DrawFn, formats: tuple[str, ...] = FORMATS) -> tuple[str, list[tuple[Any, ...]]]:
    """A format, and steps that begin with some dimensions and a variable."""
    format = draw(st.sampled_from(formats))
    start = [
        ("dimension", "", "t", None),
        ("dimension", "", "x", 3),
        ("variable", "", "v", draw(st.sampled_from(["f4", "i2"])), ("t", "x"), {}),
    ]
    return format, start + draw(st.lists(steps(format), min_size=3, max_size=20))


class Run:
    """A program that runs with a library."""

    def __init__(self, library: Any, path: str, format: str, log: Any) -> None:
        self.library, self.path, self.log = library, path, log
        self.ds = self.opened("w", format=format)
        self.types: dict[str, Any] = {}
        if format == "NETCDF4":
            self._find_types(make=True)
            self.ds.createGroup("g")

    def opened(self, mode: str, **options: Any) -> Any:
        """Return the open dataset."""
        return self.library.Dataset(self.path, mode, **options)

    def closed(self) -> None:
        """Close the dataset."""
        self.ds.close()

    def _find_types(self, *, make: bool) -> None:
        if make:
            self.ds.createCompoundType(np.dtype([("a", "i2"), ("b", "f8")]), "record")
            self.ds.createVLType("i4", "many")
            self.ds.createEnumType("u1", "colour", {"red": 0, "green": 1, "blue": 5})
        self.types = {**self.ds.cmptypes, **self.ds.vltypes, **self.ds.enumtypes}

    def step(self, step: tuple[Any, ...]) -> None:
        """Run one step, and log its result."""
        getattr(self, step[0])(*step[1:])
        if hasattr(self.ds, "_enddef") and self.ds.isopen():
            # After an error, netCDF-C leaves classic files in define mode, in which values are neither
            # readable nor writable.
            self.ds._enddef()

    def group(self, name: str) -> Any:
        return self.ds[name] if name else self.ds

    def dimension(self, group: str, name: str, size: int | None) -> None:
        self.log.attempt(lambda: len(self.group(group).createDimension(name, size)))

    def variable(self, group: str, name: str, type_: str, dimensions: Any, options: dict[str, Any]) -> None:
        def make() -> Any:
            datatype = str if type_ == "str" else self.types.get(type_, type_)
            given = dict(options)
            if (
                "chunksizes" in given
            ):  # the number of dimensions: otherwise netCDF4-python leaves a variable behind
                given["chunksizes"] = (given["chunksizes"],) * len(dimensions)
            made = self.group(group).createVariable(name, datatype, dimensions, **given)
            return made.dtype, made.shape

        self.log.attempt(make)

    def write(self, group: str, name: str, index: Any, data: Any) -> None:
        def write() -> Any:
            v = self.group(group).variables[name]
            place = self.place(v, index)
            v[place] = self.data(v, place, *data)
            return v[...]

        self.log.attempt(write)

    @staticmethod
    def shape_of_data(v: Any, index: Any, kind: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return np.shape(v[index]) if kind == "fit" else () if kind == "scalar" else shape

    def data(self, v: Any, index: Any, kind: str, shape: tuple[int, ...], start: int, form: str) -> Any:
        """Return values for a variable, equal for each library with the same variable."""
        shape = self.shape_of_data(v, index, kind, shape)
        size = int(np.prod(shape))
        if v.dtype is str:
            values: Any = np.array([f"s{start + i}" for i in range(size)], object).reshape(shape)
            return values if shape else f"s{start}"
        if isinstance(v.datatype, self.library.VLType):
            values = np.empty(size, object)
            for i in range(size):
                values[i] = np.arange(start, start + i % 3 + 1, dtype="i4")
            return values.reshape(shape) if shape else np.arange(start, start + 2, dtype="i4")
        if isinstance(v.datatype, self.library.CompoundType):
            values = np.zeros(shape, v.dtype)
            values["a"], values["b"] = start, start / 2
            return values
        if isinstance(v.datatype, self.library.EnumType):
            return np.resize(np.array([0, 1, 5], "u1"), shape)
        if v.dtype.kind == "S":
            return np.resize(np.array([b"a", b"z", b""], "S1"), shape)
        values = (np.arange(size) + max(start, 0)).reshape(shape)
        values = values.astype("f8") + 0.25 if form == "float" else values.astype(v.dtype)
        if form == "masked" and shape:
            return np.ma.masked_array(values, np.arange(size).reshape(shape) % 2 == 0)
        return values.tolist() if form == "list" else values

    def read(self, group: str, name: str, index: Any) -> None:
        def read() -> Any:
            v = self.group(group).variables[name]
            return v[self.place(v, index)]

        self.log.attempt(read)

    def place(self, v: Any, index: Any) -> Any:
        """Return the index. The classic formats accept any index of a variable without dimensions."""
        return index if v.dimensions else ...

    def owner(self, group: str, variable: str | None) -> Any:
        owner = self.group(group)
        return owner if variable is None else owner.variables[variable]

    def attribute(self, group: str, variable: str | None, name: str, value: Any) -> None:
        given = np.dtype(value[0]).type(value[1]) if isinstance(value, tuple) else value

        def set_() -> Any:
            owner = self.owner(group, variable)
            owner.setncattr(name, given)
            return owner.getncattr(name)

        self.log.attempt(set_)

    def delete(self, group: str, variable: str | None, name: str) -> None:
        self.log.attempt(lambda: self.owner(group, variable).delncattr(name))

    def rename(self, group: str, kind: str, old: str, new: str) -> None:
        self.log.attempt(lambda: getattr(self.group(group), f"rename{kind}")(old, new))

    def set(self, name: str, value: bool) -> None:
        self.log.attempt(lambda: getattr(self.ds, name)(value))

    def sync(self) -> None:
        self.log.attempt(lambda: self.ds.sync())

    def open(self, mode: str) -> None:
        self.closed()
        self.ds = self.opened(mode)
        self._find_types(make=False)
        self.look()

    def close(self) -> None:
        """Close the dataset, and log its content."""
        self.open("r")
        self.ds.set_auto_maskandscale(False)
        self.look()
        self.ds.close()

    def look(self) -> None:
        """Log the whole content of the dataset."""
        for group in (self.ds, *self.ds.groups.values()):
            self.log(group.path, group.data_model, {n: group.getncattr(n) for n in group.ncattrs()})
            # In HDF5, a renamed object moves to the end or keeps its position, depending on the library's
            # version.
            self.log(sorted((d.name, len(d), d.isunlimited()) for d in group.dimensions.values()))
            for _, v in sorted(group.variables.items()):
                self.log(v.name, v.dtype, v.dimensions, v.shape)
                self.log({n: v.getncattr(n) for n in v.ncattrs()})
                self.log.attempt(lambda v=v: v[...])
