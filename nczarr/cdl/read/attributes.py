"""Convert attribute values to their declared type, or infer the type from the constants.

Special attributes describe storage (``_ChunkSizes``, ``_Filter`` …).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from lark import Token

from nczarr.cdl.read.scope import VariableState
from nczarr.cdl.read.values import ElementReader, count_values, expand, position_of
from nczarr.cdl.syntax.constants import (
    PLAIN_INTEGERS,
    Constant,
    ConstantError,
    convert,
    is_number,
    parse_constant,
)
from nczarr.cdl.syntax.source import Problems, as_text
from nczarr.cdl.syntax.tree import Call, Value
from nczarr.cdl.words import SUFFIXES
from nczarr.compression import FILTERS, NamedConfig, parse_codecs
from nczarr.errors import UnsupportedError
from nczarr.model import CHAR, PRIMITIVES, STRING, Attribute, Filter, PrimitiveType, Storage, Type
from nczarr.model.chunk_shapes import default_chunks, default_shards, misfit
from nczarr.transfer import value_bytes


class AttributeReader:
    """Builds attributes from the values after the ``=``; raises :class:`ConstantError` for a wrong value."""

    def __init__(self, problems: Problems, elements: ElementReader) -> None:
        self._problems = problems
        self._elements = elements

    def typed(self, name: str, type_: Type, items: Sequence[Value]) -> Attribute | None:
        """Return an attribute with a declared type; an empty list gives an attribute without values.

        Return None if a problem with a value is recorded.
        """
        # ncgen stores an empty text as one NUL.
        if type_ == CHAR:
            raw = b"".join(self._elements.texts(items, b"\0")) or b"\0" * bool(items)
            return Attribute(name, CHAR, np.frombuffer(raw, "S1"))
        self._elements.begin()
        problems = len(self._problems)
        values = np.zeros(count_values(items), type_.dtype)
        for i, item in enumerate(expand(items)):
            # ncgen refuses fill marks in attributes, too.
            if isinstance(item, Token) and str(item) == "_":
                raise ConstantError("'_' has no meaning in an attribute", position_of(item))
            self._elements.read(values, (i,), type_, item)
        return Attribute(name, type_, values) if len(self._problems) == problems else None

    def untyped(self, name: str, items: Sequence[Value]) -> Attribute:
        """Return an attribute without a declared type: char for text, else the widest type of its numbers."""
        constants: list[Constant] = []
        for item in expand(items):
            constant = _constant(item)
            if constant is None or not (is_number(constant.kind) or constant.kind == "string"):
                what = "a function" if isinstance(item, Call) else "a value in braces"
                what = what if constant is None else as_text(constant.text)[:40]
                hint: str | None = "write the type before the name"
                # A fill value has the type of its attribute, which is to be found.
                if constant is not None and constant.kind == "fill":
                    what, hint = "'_'", None
                message = f"the attribute {name!r} has no type, so {what} cannot be its value"
                raise ConstantError(message, position_of(item), hint=hint)
            constants.append(constant)
        texts = [c.value for c in constants if c.kind == "string"]
        # Texts without a type are one char attribute, never strings; an empty one has a NUL, as in ncgen's
        # file.
        if len(texts) == len(constants):
            return Attribute(name, CHAR, np.frombuffer(b"".join(texts) or b"\0", "S1"))
        # ncgen refuses text among numbers, also where they are characters.
        if texts:
            first = next(c for c in constants if c.kind == "string")
            raise ConstantError(
                f"the attribute {name!r} has both text and numbers",
                first.position,
                hint=f"write a type before it: string :{name} = …",
            )
        type_ = _widest(constants)
        values = np.array([convert(constant, type_) for constant in constants], type_.dtype)
        return Attribute(name, type_, values)

    def fill_value(
        self, type_: Type, token: Token, items: Sequence[Value], declared: Type | None = None
    ) -> Attribute | None:
        """Return ``_FillValue`` with one value of the variable's type; a declared type is ignored.

        Exception: a floating-point fill value that no integer equals, such as NaN, keeps its declared type. Real
        files have such values, and ncgen turns them into arbitrary integers.
        """
        if count_values(items) != 1:
            raise ConstantError("_FillValue takes one value", token.start_pos)
        item = items[0]
        # A mark that stands for the fill value cannot define it.
        if isinstance(item, Token) and str(item) == "_":
            raise ConstantError("_FillValue cannot be '_'", position_of(item))
        # ncgen takes the type of the variable whatever type is declared; a number that it cannot hold stays
        # as declared.
        if declared is not None and declared.dtype.kind == "f" and type_.dtype.kind in "iu":
            real = np.zeros(1, declared.dtype)
            self._elements.read(real, (0,), declared, item)
            limits = np.iinfo(type_.dtype)
            if not (
                np.isfinite(real[0]) and real[0] == np.trunc(real[0]) and limits.min <= real[0] <= limits.max
            ):
                return Attribute("_FillValue", declared, real)
        made = self.typed("_FillValue", type_, items)
        # ncgen fails on more than one character.
        if type_ == CHAR and made is not None and len(made.values) > 1:
            raise ConstantError("_FillValue of a char variable is one character", position_of(item))
        return made


def _constant(item: Value) -> Constant | None:
    """Return the constant of a token; None for other values."""
    try:
        return parse_constant(item) if isinstance(item, Token) else None
    except ConstantError as error:
        raise ConstantError(str(error), position_of(item)) from None


def _widest(constants: Sequence[Constant]) -> PrimitiveType:
    """Return the common type: double, else float, else the widest integer type (the last one of equal width)."""
    kinds = [c.kind for c in constants]
    for kind in ("double", "float"):
        if kind in kinds:
            return PRIMITIVES[kind]
    # 5000000000 is uint64 without a suffix; ncgen counts it as such only if int64 does not hold it.
    if any(c.kind == "uint64" and c.value > np.iinfo("i8").max for c in constants):
        return PRIMITIVES["uint64"]
    return max((PRIMITIVES[kind] for kind in reversed(kinds)), key=lambda type_: type_.dtype.itemsize)


#: Special attributes of the dataset. All but the first have no effect.
GLOBAL = frozenset(["_Format", "_NCProperties", "_SuperblockVersion", "_IsNetcdf4"])

_FLAGS = frozenset(["_Shuffle", "_Fletcher32", "_NoFill"])
_CHOICES = {"_Storage": ("contiguous", "compact", "chunked"), "_Endianness": ("little", "big", "native")}

#: Quantization: the names in CDL and the names of the plain attributes that netCDF keeps.
QUANTIZE = {
    "_QuantizeGranularBitRoundNumberOfSignificantDigits": "_QuantizeGranularBitRoundNumberOfSignificantDigits",
    "_QuantizeBitRoundNumberOfSignificantDigits": "_QuantizeBitRoundNumberOfSignificantBits",
}

#: All special attributes.
SPECIAL = {
    "_ChunkSizes", "_ShardSizes", "_DeflateLevel", "_Filter", "_Codecs", *_FLAGS, *_CHOICES, *GLOBAL, *QUANTIZE,
}  # fmt: skip

_FORMATS = {
    "classic": ("classic", "nc3", "1"),
    "64-bit offset": ("64-bit offset", "nc6", "2", "64-bit-offset"),
    "netCDF-4": ("netCDF-4", "nc4", "3", "netCDF4", "hdf5", "enhanced", "netcdf-4", "netcdf4"),
    "netCDF-4 classic model": (
        "netCDF-4 classic model", "nc7", "4", "netCDF-4-classic", "netCDF-4_classic", "netCDF4_classic", "hdf5-nc3",
        "enhanced-nc3",
    ),
    "cdf5": ("5", "64-bit-data", "64-bit data", "nc5", "cdf5", "cdf-5"),
}  # fmt: skip
_FORMAT_OF = {spelling: name for name, spellings in _FORMATS.items() for spelling in spellings}
_FILTER = re.compile(r"\s*\d+\s*(?:,\s*(?:0x[0-9a-f]+|-?\d+u?(?:[bs]|l{0,2}))\s*)*", re.IGNORECASE)
_MOST_DEFLATE = FILTERS[Filter.DEFLATE].levels[1]
_Shape = tuple[int, ...] | None
_MOST_UINT = 0xFFFF_FFFF
_LEAST_INT = -0x8000_0000


def read_special(name: str, items: Sequence[Value]) -> Any:
    """Return the value of ``_Format`` or a special attribute of a variable; :class:`ConstantError` if it is illegal."""
    if name == "_ChunkSizes":
        return _integers(name, items)
    if name == "_ShardSizes":
        constants = [parse_constant(item) for item in items if isinstance(item, Token)]
        return None if [c.value for c in constants] == [b"auto"] else _integers(name, items)
    if name == "_DeflateLevel":
        levels = _integers(name, items)
        # HDF5 writes a file for other levels which it cannot read.
        if len(levels) != 1 or levels[0] > _MOST_DEFLATE:
            raise ConstantError(f"{name} is one integer from 0 to {_MOST_DEFLATE}")
        return levels[0]
    text = _single_text(name, items)
    if name == "_Format":
        if text not in _FORMAT_OF:
            hint = "one of " + ", ".join(repr(name) for name in _FORMATS)
            raise ConstantError(f"there is no format {text!r}", hint=hint)
        return _FORMAT_OF[text]
    if name == "_Filter":
        return _filters(text)
    if name == "_Codecs":
        return _codecs(text)
    is_flag, word = name in _FLAGS, text.lower()
    choices = ("true", "false") if is_flag else _CHOICES[name]
    if word not in choices and not (is_flag and word in ("1", "0")):
        shown = " or ".join(f'"{choice}"' for choice in choices)
        raise ConstantError(f"{name} is {shown}, not {text!r}")
    return word in ("true", "1") if is_flag else word


def _filters(text: str) -> tuple[Filter, ...]:
    found = []
    for part in text.split("|"):
        numbers = [_parameter(n) for n in part.split(",")] if _FILTER.fullmatch(part) else []
        # ncgen takes negative parameters, which are unsigned for HDF5.
        if not numbers or max(numbers) > _MOST_UINT or min(numbers) < _LEAST_INT:
            raise ConstantError(f'_Filter is "id,parameter,…|id,…", not {text!r}')
        parameters = tuple(n & _MOST_UINT for n in numbers[1:])
        # HDF5 writes a file with a higher level, and cannot read it.
        if numbers[0] == Filter.DEFLATE and (len(parameters) != 1 or parameters[0] > _MOST_DEFLATE):
            raise ConstantError(f"the filter 1 (deflate) has one level from 0 to {_MOST_DEFLATE}")
        found.append(Filter(numbers[0], parameters))
    return tuple(found)


def _codecs(text: str) -> tuple[NamedConfig, ...] | None:
    """Return codecs by their names on Zarr v3; None for those of netCDF-C's Zarr v2, which ncgen ignores too."""
    # netCDF-C's Zarr v2 names codecs in its own JSON, which ncgen parses and ignores.
    if '"name"' not in text and text.strip() != "[]":
        return None
    try:
        return parse_codecs(text)
    except UnsupportedError as error:
        raise ConstantError(f"_Codecs: {error.message}") from None


def _parameter(text: str) -> int:
    text = text.strip().lower()
    return int(text, 16) if text.startswith("0x") else int(text.rstrip("".join(SUFFIXES)))


def _integers(name: str, items: Sequence[Value]) -> list[int]:
    numbers = []
    for item in expand(items):
        constant = _constant(item)
        if constant is None or constant.kind not in PLAIN_INTEGERS:
            raise ConstantError(f"{name} takes plain integers", position_of(item))
        numbers.append(constant.value)
    if not numbers:
        raise ConstantError(f"{name} has no value")
    return numbers


def _single_text(name: str, items: Sequence[Value]) -> str:
    item = items[0] if count_values(items) == 1 else None
    constant = parse_constant(item) if isinstance(item, Token) else None
    if constant is not None and constant.kind == "string":
        return str(constant.value.decode("utf-8", "replace"))
    # A character was read as the filter with its number.
    if constant is not None and is_number(constant.kind) and not str(item).startswith("'"):
        return str(constant.value)
    raise ConstantError(f"{name} takes one value", None if item is None else position_of(item))


def storage_of(variable: VariableState, problems: Problems) -> Storage:
    """Combine the special attributes of a variable into its storage hints."""
    special, tokens = variable.special, variable.special_tokens
    if not special:
        return Storage()
    rank = len(variable.dimensions)
    filters = _filters_of(special)
    chunks: _Shape = None
    if "_ChunkSizes" in special:
        with problems.recording(tokens["_ChunkSizes"]):
            chunks = _chunk_shape(variable, special["_ChunkSizes"])
    layout = special.get("_Storage")
    # HDF5 filters chunks only.
    if rank and (chunks is not None or (filters and layout is None)):
        layout = "chunked"
    # HDF5 extends chunked datasets only.
    if layout == "contiguous" and any(variable.unlimited):
        problems.add(
            f"the variable {variable.name!r} has an unlimited dimension, so it cannot be contiguous",
            tokens["_Storage"],
        )
    shards: _Shape = None
    if "_ShardSizes" in special:
        with problems.recording(tokens["_ShardSizes"]):
            shards = _shard_shape(variable, special["_ShardSizes"], chunks)
        if layout in ("contiguous", "compact"):
            problems.add(
                f"the variable {variable.name!r} is {layout}, so it has no shards", tokens["_ShardSizes"]
            )
        layout = "chunked" if rank else layout
    endian = special.get("_Endianness", "native")
    if "_Endianness" in special and variable.type is not None:
        # netCDF-C fails on it, too.
        if variable.type == STRING or variable.type.kind == "vlen":
            problems.add(f"the type {variable.type.name!r} has no byte order", tokens["_Endianness"])
        # netCDF-C ignores the byte order of single bytes.
        elif variable.type.dtype.itemsize == 1:
            endian = "native"
    no_fill, codecs = bool(special.get("_NoFill", False)), special.get("_Codecs")
    # Codecs belong to chunks.
    if codecs and rank and layout is None:
        layout = "chunked"
    return Storage(layout, chunks, filters, endian, no_fill, shards, codecs)


def _filters_of(special: Mapping[str, Any]) -> tuple[Filter, ...]:
    """Return the filters that special attributes name, in the order in which netCDF applies them, each once.

    ncdump writes a filter in its own attribute and in ``_Filter`` too.
    """
    found = []
    if special.get("_Shuffle"):
        found.append(Filter(Filter.SHUFFLE))
    if special.get("_DeflateLevel", 0) > 0:
        found.append(Filter(Filter.DEFLATE, (special["_DeflateLevel"],)))
    known = {f.id for f in found}
    found += [f for f in special.get("_Filter", ()) if f.id not in known]
    # _Filter may name the checksum as well.
    if special.get("_Fletcher32") and Filter.FLETCHER32 not in {f.id for f in found}:
        found.append(Filter(Filter.FLETCHER32))
    return tuple(found)


def _chunk_shape(variable: VariableState, numbers: list[int]) -> _Shape:
    rank = len(variable.dimensions)
    # ncgen takes fewer sizes, and refuses more.
    if len(numbers) > rank:
        raise ConstantError(f"{len(numbers)} chunk sizes for {rank} dimensions")
    shape = []
    for axis, (size, unlimited) in enumerate(zip(variable.sizes, variable.unlimited, strict=True)):
        length = numbers[axis] if axis < len(numbers) else 0
        # netCDF-C refuses chunks that are longer than a fixed dimension.
        if length < 0 or (length > size and not unlimited):
            raise ConstantError(f"the chunk size {length} does not fit a dimension of size {size}")
        shape.append(length or (1 if unlimited else size))
    return tuple(shape) if rank else None


def _shard_shape(variable: VariableState, numbers: list[int] | None, chunks: _Shape) -> _Shape:
    sizes, unlimited = variable.sizes, variable.unlimited
    if numbers is None:
        itemsize = 1 if variable.type is None else value_bytes(variable.type.dtype)
        chosen = chunks or default_chunks(sizes, unlimited, itemsize)
        return default_shards(sizes, unlimited, chosen, itemsize)
    wrong = None
    if len(numbers) != len(sizes) or not sizes:
        wrong = f"{len(numbers)} shard sizes for {len(sizes)} dimensions"
    elif min(numbers) < 1:
        wrong = f"the shard size {min(numbers)} is not positive"
    elif chunks is not None:
        wrong = misfit(numbers, chunks)
    if wrong is not None:
        raise ConstantError(wrong)
    return tuple(numbers)
