"""Read plain Zarr, of any version, as a netCDF model, and arrays without NCZarr's keys as netCDF variables.

The rules are in ``docs/spec/plain-zarr.md``. They also apply to arrays that another program added to an NCZarr dataset.
Zarr data types that NCZarr does not write:

==============================  ==================================================================================
Zarr data type                  netCDF
==============================  ==================================================================================
bool                            byte, 0 and 1, with the attribute ``dtype = "bool"`` (like xarray); kept on Zarr
float16                         float; kept on Zarr
complex64, complex128           compound ``_PFNC_FLOAT_COMPLEX_TYPE``, ``_PFNC_DOUBLE_COMPLEX_TYPE`` {r, i}
numpy.datetime64                int64 with ``units = "… since 1970-01-01"``; not-a-time is ``_FillValue``
numpy.timedelta64               int64 with ``units``; not-a-time is ``_FillValue``
fixed_length_utf32              string
null_terminated_bytes, n > 1    string
raw_bytes, r<N>                 opaque
bytes                           vlen of ubyte
struct, structured              compound
==============================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from nczarr import model
from nczarr.compression import filters_for
from nczarr.dataclass import dataclass
from nczarr.errors import DatasetNotFoundError, UnsupportedError, error_context
from nczarr.json_values import member
from nczarr.mapping.dialect import Binding, Reading, left_out_nodes
from nczarr.mapping.findings import make_finding
from nczarr.mapping.node_names import free_name, unescape_name
from nczarr.mapping.values import encodings
from nczarr.mapping.values.arrays import array_storage
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED, decode_attributes
from nczarr.model.nodes import dataset_of
from nczarr.zarr import ArrayMetadata, DataType, Hierarchy
from nczarr.zarr.types import StructType

#: xarray's attribute for the names of dimensions on Zarr v2.
DIMENSIONS_KEY = "_ARRAY_DIMENSIONS"
#: The key in the document of an array that contains NCZarr's keys.
_NCZARR = "nczarr"
_UNSURE = "there are no consolidated metadata, and listings of this store may omit arrays: some arrays may be left out"


def is_plain(hierarchy: Hierarchy) -> bool:
    """Return True: every hierarchy can be read as plain Zarr."""
    return True


def read_plain(hierarchy: Hierarchy, name: str) -> Reading:
    """Read a hierarchy without NCZarr's keys; see :meth:`nczarr.mapping.dialect.Dialect.read`.

    Arrays with unknown extensions and nodes whose names are invalid in netCDF are left out, and listed in ``losses``. A
    single array at the root becomes a dataset with one variable, named after the dataset.

    Raises
    ------
    DatasetNotFoundError
        The store cannot list the nodes, and there are no consolidated metadata.
    """
    # A dataset without its arrays would look complete.
    if not hierarchy.complete and not hierarchy.store.listable:
        raise DatasetNotFoundError(
            "the store cannot list its keys, and there are no consolidated metadata that name its arrays",
            path=hierarchy.store.url,
            hint="consolidate the metadata (nczarr consolidate), or make the server list them",
        )
    reader = _PlainReader(hierarchy)
    single = name if hierarchy.is_array("") else None
    dataset = dataset_of(reader.group("/", "", name, single), name)
    findings = [
        make_finding(
            "node-foreign",
            fqn,
            "the array was copied from an NCZarr dataset; it is read as plain Zarr",
            "warning",
        )
        for fqn, binding in reader.variables.items()
        if binding.path and _NCZARR in hierarchy.nodes[binding.path].extra
    ]
    if not hierarchy.complete and single is None:
        findings.append(make_finding("nodes-unsure", "/", _UNSURE))
    return Reading(dataset, reader.variables, reader.groups, tuple(reader.losses), tuple(findings))


class _PlainReader:
    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.plain = PlainArrays(hierarchy)
        self.variables: dict[str, Binding] = {}
        self.groups: dict[str, str] = {}
        self.unknown = hierarchy.unknown_nodes()
        self.children = hierarchy.nodes.index_children()
        self.losses = [*left_out_nodes(self.unknown)]

    def group(self, fqn: str, path: str, name: str, single: str | None = None) -> model.Group:
        self.groups[fqn] = path
        names: dict[str, str] = {}
        for child in [""] if single else self.children.get(path, ()):
            if child in self.unknown:
                continue
            node = single or child.rpartition("/")[2]
            own_name = unescape_name(node)
            own_name = node if own_name is None else own_name
            wrong = model.check_name(own_name)
            # Two nodes may have one name when their escapes are reversed.
            if wrong or own_name in names.values():
                self.losses.append(f"{child!r} is left out: {wrong or 'its name is taken'}")
                continue
            names[child] = own_name
        nodes = self.hierarchy.nodes
        arrays = {c: m for c in names if (m := nodes[c]).is_array}
        self.plain.prefer(fqn, [(names[c], metadata) for c, metadata in arrays.items()])
        variables = []
        for child, metadata in arrays.items():
            at = model.join_fqn(fqn, names[child])
            with error_context(self.hierarchy.store.place(child), fqn=at):
                variable, self.variables[at] = self.plain.variable(fqn, child, names[child], metadata)
            variables.append(variable)
        own = nodes[path]
        with error_context(self.hierarchy.store.place(path), fqn=fqn):
            attributes = plain_attributes(own.attributes) if not own.is_array else ()
        groups = [self.group(model.join_fqn(fqn, n), c, n) for c, n in names.items() if c not in arrays]
        return model.Group(
            name,
            attributes=attributes,
            types=self.plain.types(fqn),
            dimensions=self.plain.dimensions(fqn),
            variables=tuple(variables),
            groups=tuple(groups),
        )


# --- labels and attributes


def labels_of(metadata: ArrayMetadata) -> tuple[str | None, ...]:
    """Return the labels of an array's dimensions: ``dimension_names``, else ``_ARRAY_DIMENSIONS``, else None.

    A label that is invalid as a netCDF name is None.
    """
    labels: Sequence[object] | None = metadata.dimension_names
    if labels is None:
        listed = metadata.attributes.get(DIMENSIONS_KEY)
        # A list of another length is an attribute of another program.
        if isinstance(listed, list) and len(listed) == metadata.ndim:
            labels = listed
    if labels is None:
        return (None,) * metadata.ndim
    # Zarr allows any text as a label, and netCDF does not.
    return tuple(x if isinstance(x, str) and model.check_name(x) is None else None for x in labels)


def plain_attributes(
    attributes: Mapping[str, object], array: model.Type | None = None, reserved: frozenset[str] = RESERVED
) -> tuple[model.Attribute, ...]:
    """Return the attributes of a node without NCZarr's keys, with inferred types.

    Annotations (NZ-1.0's ``_nczarr_attr``) apply where they are valid.
    """
    info = {"types": member(attributes.get(ATTR_KEY), "types")}
    return decode_attributes(
        attributes, info, {}, array=array, reserved=reserved, stale=lambda name, why: None
    )


# --- arrays


@dataclass
class _GroupDeclarations:
    """The declarations of one group."""

    dimensions: dict[str, int] = field(default_factory=dict)
    added: list[model.Dimension] = field(default_factory=list)
    by_label: dict[tuple[str, int], str] = field(default_factory=dict)
    preferred: dict[str, int] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    types: list[model.UserType] = field(default_factory=list)
    type_names: set[str] = field(default_factory=set)


def describe(
    attributes: tuple[model.Attribute, ...],
    encoding: encodings.Encoding,
    described: Sequence[model.Attribute],
) -> tuple[model.Attribute, ...]:
    """Return the attributes of an array, and those of its data type that it does not have itself."""
    known = {attribute.name for attribute in attributes}
    # xarray masks values first, and takes what it has masked for true.
    if isinstance(encoding, encodings.TruthEncoding) and "_FillValue" in known:
        return attributes
    return (*attributes, *(a for a in described if a.name not in known))


class PlainArrays:
    """Converts arrays to variables, and declares the dimensions and types that they need.

    A label means the dimension of that name in the nearest group that has one of the same length. If there is none, or
    if the group itself has a coordinate variable for the label, the group gets a dimension of its own. One label with
    several lengths in a group becomes several dimensions: the length of the coordinate variable, else the first length,
    keeps the name; the others get their length as a suffix (``x_5``).

    Examples
    --------
    >>> from nczarr.zarr.types import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> plain = PlainArrays()
    >>> a = ArrayMetadata((3,), data_type_for("int32"), RegularGrid((3,)), fill_value=0, dimension_names=("x",))
    >>> plain.variable("/", "a", "a", a)[0].dimensions, plain.dimensions("/")
    (('/x',), (Dimension(name='x', size=3, unlimited=False),))
    """

    def __init__(self, hierarchy: Hierarchy | None = None) -> None:
        self._hierarchy = hierarchy
        self._groups: dict[str, _GroupDeclarations] = {}

    def _group(self, fqn: str) -> _GroupDeclarations:
        found = self._groups.get(fqn)
        if found is None:
            found = self._groups[fqn] = _GroupDeclarations()
        return found

    def begin(
        self, types: Mapping[str, Sequence[model.UserType]], dimensions: Mapping[str, model.Dimension]
    ) -> None:
        """Set the types that the groups declare themselves, by group, and the dimensions, by FQN."""
        for fqn, declared in types.items():
            if not declared:
                continue  # most groups, each of which would get an object
            self._group(fqn).type_names.update(t.name for t in declared)
        for fqn, dimension in dimensions.items():
            self._group(model.split_fqn(fqn)[0]).dimensions[dimension.name] = dimension.size

    def prefer(self, fqn: str, arrays: Sequence[tuple[str, ArrayMetadata]]) -> None:
        """Set all arrays of a group, because coordinate variables determine the meaning of labels."""
        group = self._group(fqn)
        for name, metadata in arrays:
            # An array along itself is a coordinate variable: its length is that of the label.
            if labels_of(metadata) == (name,):
                group.preferred[name] = metadata.shape[0]
                group.own.add(name)
        for _, metadata in arrays:
            for label, length in zip(labels_of(metadata), metadata.shape, strict=True):
                if label is not None:
                    group.preferred.setdefault(label, length)

    def types(self, fqn: str) -> tuple[model.UserType, ...]:
        """Return the types that the arrays of a group added."""
        return tuple(self._group(fqn).types)

    def dimensions(self, fqn: str) -> tuple[model.Dimension, ...]:
        """Return the dimensions that the arrays of a group added."""
        return tuple(self._group(fqn).added)

    def references(
        self, group: str, metadata: ArrayMetadata, shape: tuple[int, ...]
    ) -> tuple[model.DimensionRef, ...]:
        """Return the dimension references of an array, by its labels."""
        labels = labels_of(metadata)[: len(shape)]
        return tuple(
            length if label is None else self._dimension(group, label, length)
            for label, length in zip(labels, shape, strict=True)
        )

    def _dimension(self, fqn: str, label: str, length: int) -> str:
        group = self._group(fqn)
        if (label, length) in group.by_label:
            return group.by_label[label, length]
        found = self._nearest(fqn, label, length)
        if found is None:
            name = label
            # xarray cannot open arrays of one label and several lengths; netCDF needs a name for each.
            if name in group.dimensions or group.preferred.get(label, length) != length:
                name = free_name(f"{label}_{length}", group.dimensions, group.preferred)
            group.dimensions[name] = length
            group.added.append(model.Dimension(name, length))
            found = model.join_fqn(fqn, name)
        group.by_label[label, length] = found
        return found

    def _nearest(self, fqn: str, label: str, length: int) -> str | None:
        names = model.parse_fqn(fqn)
        for depth in range(len(names), -1, -1):
            at = model.format_fqn(names[:depth])
            declared = self._groups[at].dimensions if at in self._groups else {}
            if label in declared:
                return model.join_fqn(at, label) if declared[label] == length else None
            if depth == len(names) and label in self._group(fqn).own:
                return None
        return None

    def variable(
        self, group: str, path: str, name: str, metadata: ArrayMetadata
    ) -> tuple[model.Variable, Binding]:
        """Return the variable for an array, without data, and its binding.

        Raises
        ------
        UnsupportedError
            netCDF has no type for the data type of the array.
        """
        encoding, described = self.encoding(group, name, metadata)
        reserved = RESERVED if metadata.dimension_names is not None else RESERVED | {DIMENSIONS_KEY}
        own = plain_attributes(metadata.attributes, encoding.type, reserved)
        attributes = describe(own, encoding, [*described, *self._mask(encoding, metadata)])
        stored = array_storage(
            metadata, metadata.ndim, "v3" if self._hierarchy is None else self._hierarchy.layout
        )
        endian = next((c.configuration.get("endian") for c in metadata.codecs if c.name == "bytes"), None)
        storage = replace(
            stored,
            layout="chunked" if metadata.shape else None,
            chunk_shape=stored.array_chunks,
            filters=filters_for(stored.codecs or ()).filters,
            endian="big" if endian == "big" else "native",
            data_type=encoding.kept_type,
        )
        references = self.references(group, metadata, metadata.shape)
        variable = model.Variable(name, encoding.type, references, attributes=attributes, storage=storage)
        return variable, Binding(path, encoding)

    def _mask(self, encoding: encodings.Encoding, metadata: ArrayMetadata) -> Iterator[model.Attribute]:
        """Yield ``_FillValue`` for xarray's convention on v2, where it is the fill value of the array.

        Only that of numbers and text: neither true nor false means that a value is missing, xarray opens no netCDF
        file with a ``_FillValue`` of a user-defined type, and not-a-time is that of times.
        """
        on_v2 = self._hierarchy is not None and self._hierarchy.layout == "v2"
        masks = encoding.type.is_atomic and not isinstance(
            encoding, encodings.TruthEncoding | encodings.TimeEncoding
        )
        # zarr-python gives each array of version 2 a fill value, which only xarray's convention means as
        # missing.
        if on_v2 and masks and metadata.fill_value is not None and DIMENSIONS_KEY in metadata.attributes:
            fill = np.empty(1, metadata.data_type.dtype)
            fill[0] = metadata.fill_value
            yield model.Attribute("_FillValue", encoding.type, encoding.decode(fill))

    def encoding(
        self, group: str, name: str, metadata: ArrayMetadata
    ) -> tuple[encodings.Encoding, Sequence[model.Attribute]]:
        """Return the encoding of an array in its data type, and attributes that describe the values."""
        type_ = encodings.simple_type(metadata.data_type)
        if type_ is not None:
            return encodings.encoding_for_reading(type_, metadata.data_type), []
        declare = partial(self._declare, group)
        base = _base_of_sequences(metadata)
        if base is not None:
            made = declare(f"{base.name}_sequence_t", lambda fqn: model.VlenType(fqn, base))
            return encodings.PackedEncoding(made, metadata.data_type), []
        return _special_encoding(metadata.data_type, declare, name)

    def _declare(self, fqn: str, name: str, make: Callable[[str], model.UserType]) -> model.UserType:
        """Return a type of a group; declare it unless the group has a type of the same content."""
        group = self._group(fqn)
        for known in group.types:
            if make(known.fqn) == known:
                return known
        type_ = make(model.join_fqn(fqn, free_name(name, group.type_names)))
        group.type_names.add(type_.name)
        group.types.append(type_)
        return type_


def _base_of_sequences(metadata: ArrayMetadata) -> model.PrimitiveType | None:
    """Return the element type of numcodecs' ``vlen-array`` in version 2, whose bytes equal those of a netCDF vlen."""
    filters = (metadata.origin or {}).get("filters")
    first = filters[0] if isinstance(filters, list) and filters else None
    if not isinstance(first, dict) or first.get("id") != "vlen-array":
        return None
    try:
        dtype = np.dtype(first.get("dtype"))
    except (TypeError, ValueError, SyntaxError):
        return None
    # The packed form of a netCDF vlen is little-endian.
    numbers = dtype.kind in "iuf" and dtype == dtype.newbyteorder("<")
    return model.primitive_for_dtype(dtype) if numbers else None


# --- data types

#: Declares a user-defined type by its name and a function from the FQN to the type.
_Declare = Callable[[str, Callable[[str], model.UserType]], model.UserType]

_COMPLEX = {
    "complex64": ("_PFNC_FLOAT_COMPLEX_TYPE", model.FLOAT),
    "complex128": ("_PFNC_DOUBLE_COMPLEX_TYPE", model.DOUBLE),
}
_UNITS = {
    "W": "weeks",
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "μs": "microseconds",
    "ns": "nanoseconds",
    "ps": "picoseconds",
    "fs": "femtoseconds",
    "as": "attoseconds",
}


def _special_encoding(
    data_type: DataType, declare: _Declare, name: str
) -> tuple[encodings.Encoding, list[model.Attribute]]:
    """Return the encoding of a data type that NCZarr does not write, and attributes that describe the values.

    `name` is the name of the variable; types without a name of their own are named after it.
    """
    dtype = data_type.dtype
    if data_type.name in ("bytes", "variable_length_bytes"):
        made = declare("bytes_t", lambda fqn: model.VlenType(fqn, model.UBYTE))
        return encodings.PackedEncoding(made, data_type), []
    # xarray marks truth values of netCDF files by this attribute.
    if dtype.kind == "b":
        return encodings.TruthEncoding(model.BYTE, data_type), [model.Attribute.of("dtype", "bool")]
    # netCDF has no float of 16 bits.
    if dtype.kind == "f" and dtype.itemsize == 2:
        return encodings.CastEncoding(model.FLOAT, data_type), []
    if dtype.kind in "mM":
        return _time(data_type)
    if dtype.kind in "US":
        return encodings.TextEncoding(model.STRING, data_type), []
    if dtype.kind == "c":
        made = _complex_type(data_type.name, declare)
    elif isinstance(data_type, StructType):
        made = _compound(data_type, declare, f"{name}_t")
    elif dtype.kind == "V":
        made = _opaque(dtype.itemsize, declare)
    else:
        raise UnsupportedError(f"netCDF has no type for the Zarr data type {data_type.name!r}")
    return encodings.ViewEncoding(made, data_type), []


def _complex_type(name: str, declare: _Declare) -> model.UserType:
    type_name, part = _COMPLEX[name]
    fields = (model.Field("r", part), model.Field("i", part))
    return declare(type_name, lambda fqn: model.CompoundType(fqn, fields))


def _opaque(size: int, declare: _Declare) -> model.UserType:
    return declare(f"opaque_{size}", lambda fqn: model.OpaqueType(fqn, size))


def _time(data_type: DataType) -> tuple[encodings.Encoding, list[model.Attribute]]:
    step = unit = np.datetime_data(data_type.dtype)[0]
    if data_type.dtype.kind == "M":
        if unit in ("Y", "M", "generic"):  # these have no fixed length
            step = "D"
        attributes = [
            model.Attribute.of("units", f"{_UNITS[step]} since 1970-01-01"),
            model.Attribute.of("calendar", "proleptic_gregorian"),
        ]
    else:
        words = {"Y": "years", "M": "months", "generic": "1"}
        attributes = [model.Attribute.of("units", words.get(unit) or _UNITS[unit])]
    attributes.append(model.Attribute.of("_FillValue", np.iinfo(np.int64).min, model.INT64))
    return encodings.TimeEncoding(model.INT64, data_type, step=step), attributes


def _compound(data_type: StructType, declare: _Declare, name: str) -> model.UserType:
    """Return the compound of a struct; every field has the same bytes as in Zarr."""
    fields = []
    for f in data_type.fields:
        type_, shape = _field(f.data_type, declare, f"{name}_{f.name}")
        fields.append(model.Field(f.name, type_, (*f.shape, *shape)))
    return declare(name, lambda fqn: model.CompoundType(fqn, tuple(fields)))


def _field(data_type: DataType, declare: _Declare, name: str) -> tuple[model.Type, tuple[int, ...]]:
    dtype = data_type.dtype
    if isinstance(data_type, StructType):
        return _compound(data_type, declare, name), ()
    if dtype.kind == "S":
        return model.CHAR, (dtype.itemsize,) if dtype.itemsize > 1 else ()
    if dtype.kind == "b":
        return model.UBYTE, ()
    if dtype.kind in "Mm":
        return model.INT64, ()
    if dtype.kind == "c":
        return _complex_type(data_type.name, declare), ()
    return model.primitive_for_dtype(dtype) or _opaque(dtype.itemsize, declare), ()
