"""Turn attributes of the model into Python values, and Python values into attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczarr.errors import ArgumentError, ArgumentTypeError, NodeAttributeError, RangeError, StoreError
from nczarr.model import CHAR, STRING, Attribute, primitive_for_dtype
from nczarr.netcdf4.compatibility import CLASSIC_FORMATS, SUPPORTED_TYPES
from nczarr.netcdf4.values.numbers import Lookup
from nczarr.netcdf4.values.types import converted_records, find_compound, view_dtype
from nczarr.session import GroupNode, VariableNode, kept_name
from nczarr.session.errors import check_unicode


def lookup_in(node: VariableNode) -> Lookup:
    """Return a function from names to the values of a variable's attributes; None for missing ones."""
    attributes = node.attributes

    def lookup(name: str) -> Any:
        attribute = attributes.get(name)
        return None if attribute is None else attribute_value(attribute)

    return lookup


def attribute_value(attribute: Attribute, encoding: str = "utf-8") -> Any:
    """Return the Python value of an attribute: text, a scalar, or an array of several or no numbers.

    Bytes that are invalid in the encoding are replaced.

    Examples
    --------
    >>> attribute_value(Attribute.of("units", "K")), attribute_value(Attribute.of("n", 3))
    ('K', np.int64(3))
    """
    values = attribute.values
    if attribute.type == CHAR:
        raw = values.tobytes()
        if attribute.name == "_FillValue":  # a fill value is a byte, not text
            return raw
        # netCDF4-python drops NULs and replaces bytes that are no text.
        return raw.decode(encoding, "replace").replace("\0", "")
    if attribute.type == STRING:
        texts = [_recode(text, encoding) for text in values]
        return texts[0] if len(texts) == 1 else texts
    if attribute.type.kind == "compound":
        values = converted_records(values, view_dtype(attribute.type))
    return values[0] if len(values) == 1 else values.copy()


def _recode(text: str, encoding: str) -> str:
    # netCDF4-python drops NULs of a text.
    if encoding == "utf-8" and text.isascii():
        return text.replace("\0", "")
    raw = text.encode("utf-8", "surrogateescape")
    return raw.decode(encoding, "replace").replace("\0", "")


def make_attribute(
    name: str, value: object, *, group: GroupNode | None, data_model: str = "NETCDF4", as_string: bool = False
) -> Attribute:
    """Return the attribute that netCDF4-python writes for a Python value.

    Parameters
    ----------
    name : str
    value
        Text, bytes, a number, or a one-dimensional sequence of one of these kinds.
    group : GroupNode, optional
        The group in which, and above which, types of structured values are looked up.
    data_model : str
        The classic models have no string attributes and no 64-bit integers.
    as_string : bool
        Write text as netCDF strings, even ASCII text.

    Raises
    ------
    ArgumentTypeError
        If netCDF lacks a type for the value.
    ArgumentError
        If the value has more than one dimension.
    StoreError
        For several strings in a classic model.
    TextError
        For text with half a surrogate pair.
    NodeAttributeError
        For unsigned numbers in a classic model.
    RangeError
        If a number exceeds the ``int`` of a classic model.

    Examples
    --------
    >>> make_attribute("a", [1.5, 2], group=None).type
    DOUBLE
    """
    name = kept_name(name)
    # Most attributes are such texts, and numpy costs more than they do.
    if type(value) is str and not as_string and value.isascii() and value and "\0" not in value:
        return Attribute(name, CHAR, np.frombuffer(value.encode("ascii"), "S1"))
    try:
        array = np.array(value)
    except ValueError as error:
        raise ArgumentError(f"the value of the attribute {name!r} is not a vector: {error}") from error
    if array.ndim > 1:
        raise ArgumentError(
            f"the attribute {name!r} has {array.ndim} dimensions", hint="at most one is possible"
        )
    classic = data_model in CLASSIC_FORMATS
    if array.dtype.kind in "SU":
        return _text(name, array, classic=classic, as_string=as_string)
    if array.dtype.kind == "V" and array.dtype.names and group is not None:
        model_type = find_compound(group, array.dtype)
        return Attribute(name, model_type, converted_records(np.atleast_1d(array), model_type.dtype))
    code = array.dtype.str[1:]
    if code not in SUPPORTED_TYPES:
        raise ArgumentTypeError(
            f"illegal data type for attribute {name!r}, must be one of {', '.join(SUPPORTED_TYPES)}, got {code}"
        )
    # netCDF4-python stores Python's integers as int in classic formats, if they fit.
    if classic and data_model != "NETCDF3_64BIT_DATA":
        if code == "i8":
            if array.size and (array.min() < -(2**31) or array.max() >= 2**31):
                raise RangeError(f"the value of the attribute {name!r} does not fit into an int")
            array = array.astype("i4")
        elif array.dtype.kind == "u":
            raise NodeAttributeError(
                f"NetCDF: Attempting netcdf-4 operation: the attribute {name!r} is unsigned, and {data_model} "
                "has no such type"
            )
    type_ = primitive_for_dtype(array.dtype)
    assert type_ is not None
    return Attribute(name, type_, np.atleast_1d(array).astype(type_.dtype))


def _text(name: str, array: np.ndarray, *, classic: bool, as_string: bool) -> Attribute:
    texts = []
    for text in array.ravel().tolist():
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        else:
            check_unicode(text, f"the attribute {name!r}")
        texts.append(text)
    # Only NETCDF4 has attributes of several strings.
    if len(texts) > 1:
        if classic:
            raise StoreError(f"the attribute {name!r} has several strings; only NETCDF4 has room for them")
        return Attribute.of(name, texts, STRING)
    text = "".join(texts)
    wants_string = as_string or (array.dtype.kind == "U" and not text.isascii())
    if wants_string and not classic:
        return Attribute.of(name, text, STRING)
    return Attribute.of(name, text, CHAR)
