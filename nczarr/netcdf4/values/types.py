"""Convert types and storage of the model to the dtypes, byte orders, chunks and filters that a program sees.

Compounds are packed in the model and aligned, as in C, in the program. Compounds and pairs of a real and an imaginary
part follow the conventions of nc-complex, the library that netCDF4-python uses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nczarr import model
from nczarr.compression import BLOSC_COMPRESSORS, ENCODED, FILTERS, signed
from nczarr.dataclass import dataclass
from nczarr.errors import ArgumentError, ArgumentTypeError, EditError
from nczarr.model.chunk_shapes import default_shards, netcdf_c_chunks
from nczarr.session import DimensionNode, GroupNode, Session, TypeNode, VariableNode
from nczarr.session.new_chunks import chunks_beside

#: netCDF-C's names of blosc's compressors, by their number.
BLOSC = tuple(f"blosc_{name.removeprefix('blosc')}" for name in BLOSC_COMPRESSORS)
#: HDF5's numbers for szip's entropy coding and nearest neighbour coding.
SZIP = {"ec": 4, "nn": 32}


def shown_dtype(type_: model.Type, storage: model.Storage) -> Any:
    """Return the dtype of a variable: in its stored byte order, ``str`` for strings, of the elements for sequences.

    Examples
    --------
    >>> from nczarr.model import INT, STRING, Storage, VlenType
    >>> shown_dtype(INT, Storage()), shown_dtype(VlenType("/row", INT), Storage()), shown_dtype(STRING, Storage())
    (dtype('int32'), dtype('int32'), <class 'str'>)
    """
    if isinstance(type_, model.VlenType):
        type_ = type_.base
    elif type_.is_atomic:
        if stored_endian(type_, storage) == "big" and sys.byteorder == "little":
            return type_.dtype.newbyteorder(">")
        if storage.endian == "little" and sys.byteorder == "big":
            return type_.dtype.newbyteorder("<")
    return str if type_ == model.STRING else aligned_dtype(type_)


def stored_endian(type_: model.Type, storage: model.Storage) -> str:
    """Return the byte order of a stored variable, as in :meth:`Variable.endian` after reopening."""
    if not type_.is_atomic or type_ in (model.CHAR, model.STRING):
        return "native"
    if storage.endian == "big" and type_.dtype.itemsize > 1:
        return "big"
    return "little" if storage.endian == "big" or storage.endian == "little" else sys.byteorder


def default_chunks_of(
    session: Session, type_: model.Type, dimensions: Sequence[DimensionNode]
) -> tuple[int, ...]:
    """Return the default chunk shape of a new variable: that of netCDF-C in its files, that of Zarr beside others."""
    if session.stored.disk_format == "ZARR":
        with session.tree.lock:
            return chunks_beside(session.root, type_, dimensions)
    sizes = [0 if d.unlimited else d.size for d in dimensions]  # a new variable is going to grow
    return netcdf_c_chunks(sizes, [d.unlimited for d in dimensions], item_size(type_))


def default_shards_of(
    type_: model.Type, dimensions: Sequence[DimensionNode], chunks: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the default shard shape of a new variable; None if one chunk is enough."""
    sizes = [0 if d.unlimited else d.size for d in dimensions]
    return default_shards(sizes, [d.unlimited for d in dimensions], chunks, item_size(type_))


def item_size(type_: model.Type) -> int:
    """Return the bytes that a value takes in a chunk of HDF5."""
    # As C counts: a length and a pointer, and for text a pointer.
    if type_.kind == "vlen":
        return 16
    return 8 if type_ == model.STRING else max(type_.dtype.itemsize, 1)


def chunking_of(session: Session, node: VariableNode) -> tuple[int, ...] | None:
    """Return the chunk shape of netCDF; None for contiguous storage."""
    hints, dimensions = node.storage, node.dimensions
    if hints.chunk_shape and hints.layout in (None, "chunked"):
        return tuple(hints.chunk_shape)
    if any(d.unlimited for d in dimensions) or hints.layout == "chunked":
        if session.stored.disk_format == "ZARR":
            session.choose_chunks()
            return node.storage.array_chunks
        sizes, unlimited = [d.size for d in dimensions], [d.unlimited for d in dimensions]
        return netcdf_c_chunks(sizes, unlimited, item_size(node.type))
    return None


def describe_filters(filters: Sequence[model.Filter]) -> dict[str, Any]:
    """Return filters with their settings, under the names of netCDF4-python and xarray.

    Examples
    --------
    >>> from nczarr.model import Filter
    >>> describe_filters([Filter(Filter.DEFLATE, (5,))])["complevel"]
    5
    """
    names = ("zlib", "szip", "zstd", "bzip2", "blosc", "shuffle", "complevel", "fletcher32")
    described: dict[str, Any] = dict.fromkeys(names, False)
    described["complevel"] = 0
    for f in filters:
        values = f.parameters
        if f.id == model.Filter.BLOSC:
            # The first four parameters are the filter's own; other programs may leave the rest out.
            if len(values) > 6:
                described["complevel"], shuffle, code = values[4:7]
                name = BLOSC[code] if code < len(BLOSC) else str(code)
                described["blosc"] = {"compressor": name, "shuffle": shuffle}
        elif f.id == model.Filter.SZIP:
            if len(values) > 1:
                coding = "nn" if values[0] & SZIP["nn"] else "ec"
                described["szip"] = {"coding": coding, "pixels_per_block": values[1]}
        elif f.id in ENCODED:
            described[FILTERS[f.id].keyword] = True
            if f.id not in (model.Filter.SHUFFLE, model.Filter.FLETCHER32):
                described["complevel"] = signed(values[0]) if values else 0
    return described


def aligned_dtype(type_: model.Type) -> np.dtype:
    """Return the dtype of a type in the interface: compounds are aligned, other types as in the model.

    Examples
    --------
    >>> pair = model.CompoundType("/p", (model.Field("a", model.BYTE), model.Field("b", model.DOUBLE)))
    >>> aligned_dtype(pair).itemsize, pair.dtype.itemsize
    (16, 9)
    """
    if not isinstance(type_, model.CompoundType):
        return type_.dtype
    # Programs of netCDF4-python pass and expect C's structures.
    return np.dtype([(f.name, aligned_dtype(f.type), f.shape) for f in type_.fields], align=True)


def view_dtype(type_: model.Type) -> np.dtype:
    """As :func:`aligned_dtype`, with one-dimensional arrays of characters as bytes of fixed length.

    Examples
    --------
    >>> view_dtype(model.CompoundType("/p", (model.Field("name", model.CHAR, (8,)),)))
    dtype([('name', 'S8')], align=True)
    """
    if not isinstance(type_, model.CompoundType):
        return type_.dtype
    return np.dtype([_view_field(f) for f in type_.fields], align=True)


def _view_field(field: model.Field) -> tuple[str, np.dtype, tuple[int, ...]]:
    if field.type == model.CHAR and len(field.shape) == 1:
        return field.name, np.dtype(f"S{field.shape[0]}"), ()
    return field.name, view_dtype(field.type), field.shape


def _same_fields(dtype: np.dtype, other: np.dtype) -> bool:
    """Return True if two structured dtypes have the same names and formats; offsets may differ."""
    if dtype.names != other.names or dtype.names is None:
        return False
    for name in dtype.names:
        a, b = dtype[name], other[name]
        if a.shape != b.shape:
            return False
        a, b = a.base, b.base
        if not (_same_fields(a, b) if a.names and b.names else a.newbyteorder("=") == b.newbyteorder("=")):
            return False
    return True


def converted_records(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return records in another dtype of the same fields. Text is bytes or an array of characters, as in the dtype."""
    result = np.empty(data.shape, dtype)
    for name in dtype.names or ():
        source, target, shape = data[name], dtype[name].base, dtype[name].shape
        if target.names is not None:
            source = converted_records(source, target)
        elif target.kind == "S" and not shape and source.shape == (*data.shape, target.itemsize):
            source = np.ascontiguousarray(source).view(target)[..., 0]
        elif target.kind == "S" and len(shape) == 1 and source.ndim == data.ndim:
            text = np.ascontiguousarray(source.astype(f"S{shape[0]}"))
            source = text.reshape(-1).view("S1").reshape(*data.shape, shape[0])
        result[name] = source
    return result


def find_compound(group: GroupNode, dtype: np.dtype) -> model.CompoundType:
    """Return the compound type with these fields in a group or those above.

    Raises
    ------
    ArgumentError
        If no type has these fields.
    """
    for node in (node for scope in group.ancestors() for node in scope.types):
        found = node.type
        if isinstance(found, model.CompoundType) and (
            _same_fields(dtype, aligned_dtype(found)) or _same_fields(dtype, view_dtype(found))
        ):
            return found
    raise ArgumentError("cannot find compound type in this group or parent groups", hint=str(dtype))


# The names of the library nc-complex, which netCDF4-python uses.
_NAMES = {8: ("_PFNC_FLOAT_COMPLEX_TYPE", model.FLOAT), 16: ("_PFNC_DOUBLE_COMPLEX_TYPE", model.DOUBLE)}
#: The name of a new dimension of real and imaginary parts.
PAIR = "_pfnc_complex"
# nc-complex recognises dimensions of these names.
_PAIRS = (PAIR, "complex", "ri")


def complex_dtype(type_: model.Type) -> np.dtype | None:
    """Return the dtype of the complex numbers of a compound; None for other types.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, FLOAT, CompoundType, Field
    >>> complex_dtype(CompoundType("/z", (Field("re", FLOAT), Field("im", FLOAT))))
    dtype('complex64')
    >>> complex_dtype(DOUBLE), complex_dtype(CompoundType("/p", (Field("x", FLOAT), Field("y", FLOAT))))
    (None, None)
    """
    # nc-complex recognises complex numbers by the first letters of the fields.
    if not isinstance(type_, model.CompoundType) or [f.name[:1].lower() for f in type_.fields] != ["r", "i"]:
        return None
    real, imaginary = type_.fields
    if (
        real.type != imaginary.type
        or real.shape
        or imaginary.shape
        or real.type not in (model.FLOAT, model.DOUBLE)
    ):
        return None
    return np.dtype(f"c{2 * real.type.dtype.itemsize}")


def complex_type(group: GroupNode, dtype: np.dtype) -> TypeNode:
    """Return the compound of complex numbers in a group or those above; declare it if it is missing.

    Raises
    ------
    ArgumentTypeError
        If netCDF lacks floats of this size.
    """
    name, part = complex_parts(dtype)
    with group.tree.lock:  # no other thread can declare it between lookup and declaration
        for scope in group.ancestors():
            for node in scope.types:
                if node.type.name == name and complex_dtype(node.type) == dtype:
                    return node
        parts = (model.Field("r", part), model.Field("i", part))
        return group.add_type(model.CompoundType(model.join_fqn(group.fqn, name), parts))


def complex_parts(dtype: np.dtype) -> tuple[str, model.Type]:
    """Return the name of the compound of complex numbers, and the type of its parts; errors as above."""
    if dtype.itemsize not in _NAMES:
        raise ArgumentTypeError(f"netCDF has no floats for {dtype}", hint="complex64 or complex128")
    return _NAMES[dtype.itemsize]


def pair_dimension(group: GroupNode) -> DimensionNode | None:
    """Return the dimension of real and imaginary parts in a group or those above, or None.

    Raises
    ------
    EditError
        If the dimension with this name has another size.
    """
    found = group.find_dimension(PAIR)
    # Pairs along another dimension would not be complex numbers on reading.
    if found is not None and (found.size != 2 or found.unlimited):
        raise EditError(f"the dimension {PAIR!r} is not one of pairs: its size is {found.size}")
    return found


def pair_dtype(node: VariableNode) -> np.dtype | None:
    """Return the dtype of the complex numbers of a variable of pairs; None for other variables."""
    if node.type not in (model.FLOAT, model.DOUBLE) or not node.dimensions:
        return None
    last = node.dimensions[-1]
    if last.name not in _PAIRS or last.size != 2 or last.unlimited:
        return None
    return np.dtype(f"c{2 * node.type.dtype.itemsize}")


def shown_complex(data: np.ndarray | np.generic, dtype: np.dtype) -> np.ndarray:
    """Return records of the model as complex numbers; a scalar as a scalar."""
    shown = np.ascontiguousarray(data).reshape(np.shape(data)).view(dtype)
    return shown if isinstance(data, np.ndarray) else shown[()]


def complex_values(data: ArrayLike, dtype: np.dtype) -> np.ndarray:
    """Return numbers as contiguous complex numbers, with their mask.

    Raises
    ------
    ArgumentTypeError
        If the data are not numbers.
    """
    values = np.asanyarray(data)
    if values.dtype == object:
        values = np.array(np.ma.getdata(values).tolist())
    if values.dtype.kind not in "biufc":
        raise ArgumentTypeError(f"complex numbers are needed, not {values.dtype}")
    plain = np.ascontiguousarray(np.ma.getdata(values), dtype).reshape(values.shape)
    return np.ma.array(plain, mask=np.ma.getmaskarray(values)) if np.ma.isMA(values) else plain


@dataclass(slots=True)
class Settings:
    """The settings for reading and writing values of a variable.

    Parameters
    ----------
    dtype : numpy.dtype or type
        The dtype in the program; ``str`` for strings.
    view : numpy.dtype, optional
        For compounds: the dtype with characters as bytes.
    mask, scale, always_mask, chartostring : bool
        See the methods ``set_auto_…`` of the variable.
    digit : float, optional
        The decimal digit of rounding on writing.
    quantization : (int, str), optional
        Number of digits or bits, and the mode.
    complex : numpy.dtype, optional
        The dtype of complex numbers that are stored as compounds or pairs.
    paired : bool
        The complex numbers are pairs along the last dimension, which is hidden.
    """

    dtype: Any
    view: np.dtype | None = None
    mask: bool = True
    scale: bool = True
    always_mask: bool = True
    chartostring: bool = True
    digit: float | None = None
    quantization: tuple[int, str] | None = None
    complex: np.dtype | None = None
    paired: bool = False

    @classmethod
    def stored(cls, dtype: Any, view: np.dtype | None = None) -> Settings:
        """Return settings for values as in the store: not masked, not unpacked, characters not joined."""
        return cls(dtype, view, mask=False, scale=False, always_mask=False, chartostring=False)
