"""List odd calls of netCDF4-python's interface as text, grouped by method, and compare two libraries by them.

Each call is Python text, which runs on a small dataset of its own with the names ``nc`` (the library), ``ds`` and
``v``. The value of its last expression is its result.
"""

# ruff: noqa: E501
from __future__ import annotations

import ast
import copy
import os
import re
import warnings
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from netcdf4_view import builtin_of, content_of, plain

from nczarr.netcdf4.values.changes import ChangedValueWarning

#: The dataset of each call.
START = """
ds.createDimension("t", None); ds.createDimension("x", 3); ds.createDimension("n", 4)
v = ds.createVariable("v", "f4", ("t", "x")); v[:2] = np.arange(6).reshape(2, 3)
ds.title = "kept"
"""

# fmt: off
_PLAIN = ("None", "True", "0", "-1", "2", "1.5", "''", "'a'", "b'a'", "[]", "[1]", "{}", "object()")
_NUMBERS = (
    *_PLAIN, "'2'", "np.int64(2)", "np.array(2)", "np.array([2])", "1 << 31", "1 << 40", "1 << 64", "1 << 70", "-1 << 40", "float('nan')",
    "float('inf')", "1j", "np.ma.masked",
)
_NAMES = (
    "None", "1", "1.5", "True", "''", "' a'", "'a '", "'a b'", "'a/b'", "'/'", "'.'", "'..'", "'-a'", "'a\\n'", "'a\\0b'", "b'a'", "b'\\xff'",
    "'\\ud800'", "'é'", "'e\\u0301'", "'x' * 256", "'x' * 257", "['a']", "()", "np.str_('a')", "object()",
)
_VALUES = (
    *_PLAIN, "[1, 2]", "[1.5, 2]", "()", "[[1, 2], [3, 4]]", "[[]]", "['a', 'b']", "['a', 1]", "[b'a', 'b']", "'é'", "'a\\0b'", "'\\ud800'",
    "['a', '\\ud800']", "b'\\xff'", "1 << 40", "1 << 63", "1 << 64", "-1 << 63", "float('nan')", "1j", "np.float16(1)", "np.longdouble(1)",
    "np.datetime64('2000')", "np.array(['a', 'bc'])", "np.array(['a', 'bc'], 'S')", "np.array(['a', 1], object)", "np.array([], 'i2')",
    "np.array([], 'S1')", "np.array(1, '>i4')", "np.array([1, 2], '>f8')", "np.ma.masked", "np.ma.array([1, 2], mask=[0, 1])", "np.zeros(2, 'i4,f8')",
    "range(3)", "str", "len", "v", "ds", "slice(1)", "{1}",
)
_FLAGS = ("None", "True", "0", "1", "2", "-1", "'a'", "''", "[]", "np.bool_(True)", "1.5")

#: netCDF4-python says nothing of values that change.
_UNCOMPARED = (ResourceWarning, DeprecationWarning, FutureWarning, ChangedValueWarning)


def _filled(template: str, *lists: Iterable[str]) -> list[str]:
    """Return the texts that a template with one or two gaps (``?``) gives."""
    calls = [template]
    for values in lists:
        calls = [call.replace("?", value, 1) for call in calls for value in values]
    return calls


_INDICES = (
    "0", "-1", "3", "-3", "5", "1 << 40", "1 << 70", "True", "False", "None", "...", "()", "[]", "[0]", "[1, 0]", "[0, 0]", "[-1]", "[5]",
    "[True, False]", "[True, False, True]", "[False, False]", "np.array([], int)", "np.array([True, False])", "np.array(1)", "np.array([1.0])",
    "np.array([[0, 1]])", "np.ones((2, 3), bool)", "np.arange(6).reshape(2, 3) > 2", "1.0", "1.5", "'1'", "'a'", "''", "b'1'", "{}", "object()",
    "np.int8(1)", "np.uint64(1)", "np.float32(1)", "np.bool_(True)", "float('nan')", "1j", "slice(None)", "slice(0)", "slice(None, None, -1)",
    "slice(None, None, 0)", "slice(5, 9)", "slice(-9, None)", "slice(1.5, None)", "slice('a')", "slice(None, 1 << 70)",
    "slice(np.int64(1), np.int64(2))", "(0,)", "(0, 0)", "(0, 0, 0)", "(0, 5)", "(0, ...)", "(..., 0)", "(..., ...)", "(0, ..., 0)", "(None, 0)",
    "([0], [1])", "([0, 1], [1, 2])", "([1, 0], slice(None, None, -1))", "(slice(None), [True, False, True])", "(slice(None), [])", "(True, 0)",
    "(0, 'a')", "range(2)", "iter([0])", "np.ma.array([0, 1], mask=[0, 1])", "np.ma.array([0, 1])", "np.datetime64('2000')",
)

_DATA = (
    *_PLAIN, "[1, 2.0]", "[1, 2, 3]", "[[1], [2]]", "[[1, 2, 3]]", "[[1, 2], [3]]", "[[1, 2, 3], [4, 5, 6]]", "np.arange(3)", "np.arange(4)",
    "np.arange(6).reshape(2, 3)", "np.arange(6).reshape(3, 2)", "np.arange(6)", "np.zeros(0)", "np.zeros((2, 0))", "np.array([1, 2, 3], '>i8')",
    "np.array([1, 2, 3], object)", "np.array(['1', '2', '3'])", "np.array(['a', 'b', 'c'])", "np.array([1, 2, 3], 'c8')",
    "np.array([True, False, True])", "np.array(['2000', '2001', '2002'], 'M8')", "np.ma.masked", "np.ma.array([1, 2, 3], mask=[0, 1, 0])",
    "np.ma.array([1, 2, 3], mask=True)", "np.ma.masked_all((2, 3))", "float('nan')", "float('inf')", "1 << 40", "1 << 64", "1e300", "1j", "'1'",
    "'\\ud800'", "range(3)", "iter([1])", "v", "v[0]", "(1, 2, 3)", "{1, 2}", "np.float16(1.5)", "np.zeros(3, 'i4,f8')",
)

_CLOSED = (
    "ds.name", "ds.path", "ds.parent", "ds.data_model", "ds.file_format", "ds.disk_format", "ds.keepweakref",
    "ds.dimensions.keys() == {'t', 'x', 'n'}", "list(ds.variables)", "list(ds.groups)", "ds.cmptypes", "ds['v'].name", "ds['w']", "ds.title",
    "ds.title = 'a'", "ds.new = 1", "del ds.title", "ds.nothing", "ds.ncattrs()", "ds.getncattr('title')", "ds.setncattr('a', 1)",
    "ds.setncatts({'a': 1})", "ds.setncatts({})", "ds.setncattr_string('a', 'b')", "ds.delncattr('title')", "ds.renameAttribute('title', 'b')",
    "ds.renameVariable('v', 'w')", "ds.renameVariable('nothing', 'w')", "ds.renameDimension('x', 'y')", "ds.renameGroup('g', 'h')",
    "ds.createDimension('y', 1)", "ds.createVariable('w', 'i4', ())", "ds.createGroup('g')", "ds.createVLType('i4', 'k')",
    "ds.createEnumType('i4', 'k', {'a': 1})", "ds.createCompoundType(np.dtype('i4,f8'), 'k')", "ds.set_auto_mask(False)",
    "ds.set_ncstring_attrs(True)", "ds.set_fill_on()", "ds.set_fill_off()", "ds.isopen()", "ds.sync()", "ds.close()", "ds.filepath()",
    "ds.get_variables_by_attributes(a=1)", "ds.__enter__() is ds", "vars(ds)", "repr(ds)[-22:]", "ds.name = 'a'", "v.name", "v.name = 'a'", "v.shape",
    "v.size", "v.ndim", "v.dtype", "v.datatype", "v.dimensions", "v.mask", "v.units", "v.units = 'K'", "v.valid_min = 1", "v.ncattrs()",
    "v.getncattr('a')", "v.setncattr('a', 1)", "v.setncatts({'a': 1})", "v.delncattr('a')", "v.renameAttribute('a', 'b')", "v[:]", "v[0]", "v[0] = 1",
    "v[9, 9, 9]", "len(v)", "np.asarray(v)", "v.filters()", "v.chunking()", "v.endian()", "v.quantization()", "v.get_fill_value()", "v.get_dims()",
    "v.group() is ds", "v.get_var_chunk_cache()", "v.set_var_chunk_cache(100)", "v.set_auto_mask(False)", "v.set_auto_scale(False)",
    "v.set_always_mask(False)", "v.set_auto_chartostring(False)", "v.set_ncstring_attrs(True)", "v.use_nc_get_vars(True)", "v.assignValue(1)",
    "v.getValue()", "vars(v)", "repr(v)[-22:]", "ds.dimensions['x'].name", "ds.dimensions['x'].size", "len(ds.dimensions['x'])",
    "ds.dimensions['x'].isunlimited()", "ds.dimensions['x'].group() is ds", "repr(ds.dimensions['x'])[-22:]",
)
_UNCHANGED = (
    "ds.a = 1", "ds.setncattr('a', 1)", "ds.setncatts({'a': 1})", "ds.setncatts({})", "ds.setncattr_string('a', 'b')", "del ds.title",
    "ds.delncattr('title')", "ds.delncattr('none')", "ds.renameAttribute('title', 'b')", "ds.renameAttribute('none', 'b')",
    "ds.renameVariable('v', 'w')", "ds.renameVariable('none', 'w')", "ds.renameDimension('x', 'y')", "ds.renameDimension('none', 'y')",
    "ds.renameGroup('g', 'h')", "ds.createDimension('y', 1)", "ds.createDimension('x', 1)", "ds.createVariable('w', 'i4', ())",
    "ds.createVariable('w', 'i4', ('none',))", "ds.createGroup('g')", "ds.createVLType('i4', 'k')", "ds.createEnumType('i4', 'k', {'a': 1})",
    "ds.createCompoundType(np.dtype('i4,f8'), 'k')", "ds.set_fill_on()", "ds.set_fill_off()", "ds.set_auto_mask(False)", "ds.sync()",
    "v = ds['v']; v[0] = 1", "v = ds['v']; v[9] = 1", "v = ds['v']; v[0:0] = []", "v = ds['v']; v[0, 0, 0] = 1", "v = ds['v']; v.units = 'K'",
    "v = ds['v']; v.valid_min = 'K'", "v = ds['v']; del v.units", "v = ds['v']; v._FillValue = 1", "v = ds['v']; v.setncatts({'_FillValue': 1})",
    "v = ds['v']; v.renameAttribute('a', 'b')", "v = ds['v']; v.shape = (1,)", "v = ds['v']; v.set_var_chunk_cache(100)",
)
_TYPES = (
    *(
        "None", "True", "1", "''", "'a'", "b'i4'", "'nothing'", "[]", "{}", "object()", "object", "int", "float", "bool", "str", "bytes", "complex",
    ),
    *(
        "'f2'", "'f4'", "'>f8'", "'f16'", "'c8'", "'c16'", "'M8'", "'M8[s]'", "'m8[s]'", "'O'", "'V3'", "'S'", "'S1'", "'S5'", "'U'", "'U1'", "'U5'",
    ),
    *(
        "'c'", "'b'", "'B'", "'h'", "'l'", "'q'", "'d'", "'i4,f8'", "('i4', 2)", "'(2,)i4'", "np.int8", "np.float32", "np.dtype('>i2')", "np.str_",
        "np.bytes_",
    ),
    *(
        "np.dtype('S1')", "np.dtype('f4')", "v.dtype", "v", "v.datatype", "'NC_FLOAT'", "'string'", "'char'", "'double'", "'float'", "'int'",
        "'byte'", "'short'", "'ubyte'",
    ),
)
_DIMENSIONS = (
    *(
        "None", "()", "[]", "''", "'x'", "b'x'", "('x', 'x')", "('x', 't')", "['x', 'n']", "'tx'", "('none',)", "'none'", "(3,)", "3", "(None,)",
        "('/x',)", "('x/',)",
    ),
    *(
        "('../x',)", "ds.dimensions['x']", "(ds.dimensions['x'], 'n')", "ds.dimensions", "ds.dimensions.values()", "{'x': 1}", "{'x'}",
        "(np.str_('x'),)", "np.array(['x'])",
    ),
    *(
        "np.array(['x', 'n'])", "('\\ud800',)", "(b'\\xff',)", "((),)", "(('x',),)", "iter(['x'])", "('x',) * 33", "(v,)", "ds", "object()", "'x n'",
        "(1.5,)", "('X',)",
    ),
)
_OPTIONS = {
    "compression": (
        "None", "False", "True", "''", "'zlib'", "'ZLIB'", "'lzf'", "'szip'", "'zstd'", "'bzip2'", "'blosc'", "b'zlib'", "1", "0",
        "[]", "['zlib']", "object()",
    ),
    "zlib": _FLAGS, "shuffle": _FLAGS, "fletcher32": _FLAGS, "contiguous": _FLAGS,
    "chunksizes": (
        *(
            "None", "()", "[]", "False", "True", "0", "1", "3", "'3'", "'333'", "(3,)", "[3]", "(4,)", "(0,)", "(-1,)", "(1, 1)", "(None,)", "('2',)",
            "(2.0,)", "(2.5,)",
        ),
        *(
            "(1 << 31,)", "(1 << 64,)", "np.array([2])", "np.array(2)", "(np.int64(2),)", "(True,)", "{2}", "iter([2])", "object()",
            "(float('nan'),)", "'auto'",
        ),
    ),
    "endian": (
        "None", "'native'", "'little'", "'big'", "'Big'", "''", "'>'", "1", "True", "b'big'", "[]", "object()",
    ),
    "least_significant_digit": (
        "None", "0", "1", "-1", "1.5", "400", "'a'", "'1'", "True", "[]", "[1]", "[1, 2]", "float('nan')", "object()", "1j", "1 << 40",
    ),
    "significant_digits": (
        "None", "0", "1", "7", "8", "-1", "1.5", "'a'", "'1'", "True", "[]", "object()", "1 << 40",
    ),
    "fill_value": (
        *(
            "None", "False", "True", "0", "1.5", "-1", "300", "1 << 40", "1 << 70", "float('nan')", "'a'", "''", "'1'", "b'1'", "'default'",
            "b'default'", "[]", "[1]", "[1, 2]", "()", "{}", "object()", "1j",
        ),
        *(
            "np.int8(1)", "np.float64(1.5)", "np.array(1)", "np.array([1])", "np.ma.masked", "np.bool_(False)", "np.datetime64('2000')",
            "nc.default_fillvals['f4']",
        ),
    ),
    "chunk_cache": ("None", "0", "1", "-1", "1.5", "'a'", "True", "[]", "1 << 70"),
    "quantize_mode": ("None", "'BitGroom'", "'bitgroom'", "''", "1", "[]"), "blosc_shuffle": ("3", "-1", "'a'", "1 << 40"),
    "szip_coding": ("None", "'nn'", "'ec'", "'xx'", "''", "1"),
    "complevel": ("None", "0", "1", "9", "10", "-1", "1.5", "'4'", "'a'", "True", "[]", "1 << 40"),
}
_WITH = {
    "quantize_mode": "significant_digits=2, ", "blosc_shuffle": "compression='blosc_lz4', chunksizes=(1,), ",
    "szip_coding": "compression='szip', szip_pixels_per_block=2, ", "complevel": "zlib=True, ",
}

_TYPED = """
i = ds.createVariable("i", "i1", ("x",)); u = ds.createVariable("u", "u1", ("x",)); c = ds.createVariable("c", "S1", ("x", "n"))
s = ds.createVariable("s", str, ("x",)); k = ds.createVariable("k", "i4", ()); d = ds.createVariable("d", "f8", ("x",))
record = ds.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "record"); r = ds.createVariable("r", record, ("x",))
many = ds.createVLType("i4", "many"); q = ds.createVariable("q", many, ("x",))
colour = ds.createEnumType("u1", "colour", {"red": 0, "blue": 5}); e = ds.createVariable("e", colour, ("x",), fill_value=0)
"""
_LIMITS = (
    "None", "'a'", "''", "b'a'", "1", "1.5", "300", "-1", "1 << 40", "float('nan')", "[0, 1]", "[1]", "[]", "['a', 'b']", "True", "np.float32(1.5)",
    "np.int64(1)", "np.int64(300)", "1j", "np.array([0, 300])", "object()",
)

#: Calls by method. The texts of the first lines, which make more variables, come before the calls.
GROUPS: dict[str, tuple[str, list[str]]] = {
    "Dataset(…)": (
        "",
        [
            *_filled(
                "nc.Dataset(?)",
                (
                    "None", "5", "1.5", "b'no.nc'", "''", "[]", "object()", "ds", "'no.nc'", "'\\ud800'", "'a\\0b'", "True", "()", "'.'", "'/'",
                    "'no/no.nc'", "path",
                ),
            ),
            *_filled(
                "nc.Dataset(?, 'w').close()", ("None", "5", "''", "[]", "object()", "'.'", "'/'", "'/no/no.nc'", "'a\\0b'"),
            ),
            *_filled(
                "nc.Dataset(path, ?).close()",
                (
                    "None", "5", "''", "'R'", "'rw'", "'wb'", "'w+'", "'r'", "'rs'", "'r+'", "'r+s'", "'as'", "'xs'", "'ws'", "'x'", "'a'", "b'r'",
                    "['r']", "True", "object()",
                ),
            ),
            *_filled("nc.Dataset(path + 'n', 'w', clobber=?).isopen()", _FLAGS),
            *_filled("nc.Dataset(path, 'w', clobber=?).isopen()", ("None", "True", "0", "'a'", "''")),
            *_filled(
                "nc.Dataset(path + 'n', 'w', format=?).data_model",
                (
                    "None", "5", "''", "'netcdf4'", "'NETCDF4'", "'NETCDF4_CLASSIC'", "'NETCDF3'", "'NETCDF3_CLASSIC'", "'NETCDF3_64BIT'",
                    "'NETCDF3_64BIT_OFFSET'", "'NETCDF3_64BIT_DATA'", "b'NETCDF4'", "['NETCDF4']", "object()", "'HDF5'",
                ),
            ),
            *_filled(
                "nc.Dataset(path, format=?).data_model", ("None", "5", "'a'", "'NETCDF3_CLASSIC'", "object()")
            ),
            *_filled("nc.Dataset(path + 'n', 'w', diskless=?).isopen()", _FLAGS),
            *_filled("nc.Dataset(path + 'n', 'w', diskless=True, persist=?).isopen()", _FLAGS),
            *_filled("nc.Dataset(path, keepweakref=?).keepweakref", _FLAGS),
            *_filled(
                "nc.Dataset('m.nc', memory=?)",
                (
                    "False", "0", "5", "-1", "'a'", "b''", "b'a'", "b'CDF\\x01'", "b'a' * 99", "[]", "bytearray(b'a')", "object()", "1.5",
                ),
            ),
            *_filled(
                "nc.Dataset('m.nc', 'w', memory=?).isopen()", ("0", "5", "-1", "'a'", "b'a'", "[]", "object()", "1.5", "True", "1 << 40", "1 << 70"),
            ),
            *_filled("nc.Dataset('m.nc', ?, memory=10)", ("'a'", "'x'", "'r+'", "None")),
            *_filled(
                "nc.Dataset(path, encoding=?).isopen()", ("None", "'utf-8'", "'bogus'", "''", "'ascii'", "5", "b'utf-8'", "[]", "object()"),
            ),
            *_filled("nc.Dataset(path, parallel=?).isopen()", ("None", "False", "True", "'a'", "0")),
            *_filled("nc.Dataset(path, auto_complex=?).auto_complex", _FLAGS), "ds.tocdl(outfile=5)", "nc.Dataset()",
            "nc.Dataset(path, nothing=1).isopen()", "nc.Dataset(path, 'r', True, 'NETCDF4', False, False).isopen()",
            "nc.Dataset(filename=path).filepath() == path", "nc.Dataset.__new__(nc.Dataset).isopen()", "nc.Dataset.__new__(nc.Dataset).close()",
            "nc.Dataset.__new__(nc.Dataset).variables", "nc.Dataset.__new__(nc.Dataset).a", "repr(nc.Dataset.__new__(nc.Dataset))[:9]",
        ],
    ),
    "after close()": ("ds.createGroup('g'); v.a = 1; ds.close()", list(_CLOSED)),
    "read-only": ("ds.createGroup('g'); v.a = 1; ds.close(); ds = reopened('r')", list(_UNCHANGED)),
    "createDimension": (
        "",
        [
            *_filled("len(ds.createDimension('d', ?))", _NUMBERS), *_filled("ds.createDimension(?, 1).name", _NAMES), "ds.createDimension('x', 1)",
            "ds.createDimension('t')", "ds.createDimension('v', 2).size", "ds.createDimension()", "len(ds.createDimension('d', size=False))",
            "ds.createDimension('d', 2).isunlimited()", "ds.createDimension('d').isunlimited()", "nc.Dimension(ds, 'd', 2).size",
            "nc.Dimension(None, 'd', 2)", "nc.Dimension(v, 'd', 2)",
            *_filled("ds.renameDimension('x', ?); list(ds.dimensions), v.dimensions", _NAMES),
            *_filled("ds.renameDimension(?, 'y'); list(ds.dimensions)", _NAMES[:16]), "ds.renameDimension('x', 'x')", "ds.renameDimension('x', 't')",
            "ds.renameDimension('x', 'v'); v.dimensions",
            *_filled(
                "x = ds.dimensions['x']; ?",
                (
                    "x.name = 'y'", "x.size = 5", "x.a = 1", "del x.name", "x.group() is ds", "x.isunlimited()", "len(x)", "bool(x)", "x == x",
                    "x == 3", "x.nothing", "hash(x) == hash(x)", "list(x)", "x[0]", "int(x)", "x + 1", "x.size + 1", "x.__class__.__name__",
                    "'d' in x",
                ),
            ),
        ],
    ),
    "createGroup": (
        "",
        [
            *_filled("ds.createGroup(?).path", _NAMES),
            *_filled(
                "ds.createGroup(?).path", ("'a//b'", "'/a'", "'a/'", "'a/../b'", "'./a'", "'v'", "'x'", "'v/a'", "'a/b/c'"),
            ),
            "ds.createGroup()", "ds.createGroup('g') is ds.createGroup('g')", "g = ds.createGroup('g'); g.close()",
            "g = ds.createGroup('g'); g.isopen()", "g = ds.createGroup('g'); g.sync()", "g = ds.createGroup('g'); g.filepath() == ds.filepath()",
            "g = ds.createGroup('g'); g.parent is ds", "g = ds.createGroup('g'); g.name = 'a'", "g = ds.createGroup('g'); g.path = 'a'",
            "g = ds.createGroup('g'); del g", "del ds.groups", "nc.Group(ds, 'g').path", "nc.Group(None, 'g')", "nc.Group(ds, None)",
            "g = ds.createGroup('g')\nwith g: pass", "ds.createGroup('g').createVariable('v', 'i4', ('x',)).shape",
            "ds.createGroup('g').createDimension('x', 9).size", "ds.createGroup('g')['v']", "ds.createGroup('g')['../v']",
            "ds.createGroup('g')['/v']",
            *_filled(
                "ds.createGroup('g'); ds.createGroup('h'); ds.renameGroup('g', ?); list(ds.groups)", _NAMES
            ),
            *_filled("ds.createGroup('g'); ds.renameGroup(?, 'k'); list(ds.groups)", _NAMES[:8]), "ds.createGroup('g'); ds.renameGroup('g', 'g')",
            "ds.createGroup('g'); ds.createGroup('h'); ds.renameGroup('g', 'h')", "ds.createGroup('g'); ds.renameGroup('g', 'v')",
            "ds.renameGroup('none', 'h')",
        ],
    ),
    "ds[…]": (
        "ds.createGroup('g/h').createVariable('w', 'i4', ())",
        [
            *_filled(
                "ds[?].name",
                (
                    *_NAMES, "'v'", "'/v'", "'g'", "'g/h'", "'/g/h/'", "'g/h/w'", "'g//h'", "'g/../v'", "'../v'", "'./v'", "'g/none'", "'none/v'",
                    "'v/v'", "'V'", "0", "...", "slice(None)", "'x'", "'title'", "('v',)", "b'v'",
                ),
            ),
            "ds['v'] = 1", "del ds['v']", "'v' in ds", "list(ds)", "len(ds)", "bool(ds)", "iter(ds)", "ds == ds", "hash(ds) == hash(ds)", "ds()",
            "ds.variables['none']", "ds.variables[None]", "ds.groups['none']", "ds.dimensions['none']", "ds.variables.get('none')",
            "ds.dimensions[0]", "next(ds)",
        ],
    ),
    "createVariable: name, type, dimensions": (
        "",
        [
            *_filled("ds.createVariable(?, 'i4', ()).name", _NAMES),
            *_filled(
                "ds.createVariable(?, 'i4', ()).name", ("'v'", "'x'", "'x2'", "'g/v'", "'/v2'", "'../v2'", "'g/h/v'", "'g/../w'", "'v/w'"),
            ),
            *_filled("str(ds.createVariable('w', ?, ('x',)).dtype)", _TYPES), *_filled("ds.createVariable('w', 'i4', ?).shape", _DIMENSIONS),
            "ds.createVariable()", "ds.createVariable('w')", "ds.createVariable('w', 'i4').shape", "ds.createVariable('w', 'i4', nothing=1)",
            "ds.createVariable('w', 'i4', 'x', 'zlib').filters()", "nc.Variable(ds, 'w', 'i4', (ds.dimensions['x'],)).shape",
            "nc.Variable(ds, 'w', 'i4', ('x',)).shape", "nc.Variable(None, 'w', 'i4')",
            "w = ds.createVariable('w', v.dtype, v.dimensions); w[:] = v[:]; w[:]",
        ],
    ),
    "createVariable: options": (
        "",
        [
            *(
                call
                for option, values in _OPTIONS.items()
                for call in _filled(
                    f"w = ds.createVariable('w', 'f4', ('x',), {_WITH.get(option, '')}{option}=?); w[:] = [1.26, 2, 3]; w[:], w.filters(), w.endian(), w.quantization(), w.get_fill_value()",
                    values,
                )
            ),
            *_filled(
                "w = ds.createVariable('w', 'i1', ('x',), fill_value=?); w[:1] = 1; w[:], w.get_fill_value()",
                _OPTIONS["fill_value"],
            ),
            *_filled(
                "w = ds.createVariable('w', 'S1', ('x',), fill_value=?); w[:1] = b'b'; w[:], w.get_fill_value()",
                (
                    "None", "False", "0", "1", "'a'", "''", "b''", "'ab'", "b'a'", "'é'", "b'\\xff'", "'default'", "[]", "['a']", "'\\0'",
                    "'\\ud800'",
                ),
            ),
            *_filled(
                "w = ds.createVariable('w', str, ('x',), fill_value=?); w[0] = 'b'; w[:], w.get_fill_value()",
                (
                    "None", "False", "0", "1.5", "'a'", "''", "b'a'", "'é'", "'default'", "[]", "['a', 'b']", "'a\\0b'", "'\\ud800'", "object",
                    "np.str_('a')",
                ),
            ),
            *_filled(
                "w = ds.createVariable('w', ?, ('x',), endian='big'); w.endian(), str(w.dtype)",
                ("'i1'", "'u1'", "'i2'", "'S1'", "str", "'f8'", "'>i2'", "'<i2'", "'=i2'", "'S5'"),
            ),
            *_filled(
                "w = ds.createVariable('w', ?, ('x',), zlib=True, fletcher32=True); w.filters()", ("'i1'", "'S1'", "str", "'f8'"),
            ),
            *_filled(
                "w = ds.createVariable('w', 'i4', (), ?); w.filters(), w.chunking()",
                (
                    "zlib=True", "chunksizes=()", "chunksizes=(1,)", "contiguous=True", "fletcher32=True", "shuffle=True", "compression='zstd'",
                    "chunksizes=1", "endian='big'", "fill_value=3",
                ),
            ),
            *_filled(
                "w = ds.createVariable('w', 'i4', ('t',), ?); w.filters(), w.chunking()",
                (
                    "contiguous=True", "chunksizes=(5,)", "chunksizes=(1 << 40,)", "contiguous=True, zlib=True", "chunksizes=(3,), contiguous=True",
                    "fletcher32=True, chunksizes=(9,)",
                ),
            ),
            *_filled(
                "w = ds.createVariable('w', 'i4', ('x',), ?); w.filters(), w.quantization()",
                (
                    "significant_digits=3", "least_significant_digit=1", "contiguous=True, zlib=True", "contiguous=True, chunksizes=(3,)",
                    "zlib=True, compression='zstd'", "zlib=True, complevel=0", "compression='zlib', shuffle=False",
                    "significant_digits=3, quantize_mode='BitRound'", "chunksizes=(1,), fill_value=False",
                ),
            ),
        ],
    ),
    "types": (
        "",
        [
            *_filled("ds.createVLType('i4', ?).name", _NAMES), *_filled("str(ds.createVLType(?, 'k').dtype)", _TYPES),
            *_filled("ds.createEnumType('u1', ?, {'a': 1}).name", _NAMES), *_filled("str(ds.createEnumType(?, 'k', {'a': 1}).dtype)", _TYPES),
            *_filled(
                "ds.createEnumType('i1', 'k', ?).enum_dict",
                (
                    "None", "{}", "[]", "'a'", "{'a': 1, 'b': 1}", "{'': 1}", "{' a': 1}", "{'a/b': 1}", "{1: 1}", "{None: 1}", "{b'a': 1}",
                    "{'é': 1}", "{'\\ud800': 1}", "{'a': None}", "{'a': '1'}", "{'a': 1.5}", "{'a': 300}", "{'a': -200}", "{'a': True}",
                    "{'a': np.int64(1)}", "{'a': 1 << 70}", "{'a': [1]}", "{'a b': 1}", "{'x' * 300: 1}", "[('a', 1)]",
                ),
            ),
            *_filled("ds.createCompoundType(np.dtype('i4,f8'), ?).name", _NAMES),
            *_filled(
                "str(ds.createCompoundType(?, 'k').dtype)",
                (
                    *_TYPES, "np.dtype([])", "[('a', 'i4'), ('b', 'S3')]", "[('a', 'U3')]", "[('a', 'O')]", "[('a', 'f2')]", "[('a', 'c8')]",
                    "[('a', '?')]", "[('a', 'i4', 3)]", "[('a', 'i4', (2, 3))]", "[('a', 'i4', 0)]", "[('a', 'S0')]", "[('a', [('b', 'i4')])]",
                    "[('a', '>i4')]", "[(' a', 'i4')]", "[('a/b', 'i4')]", "[('é', 'i4')]",
                    "{'names': ['a', 'b'], 'formats': ['i4', 'f8'], 'offsets': [8, 0]}",
                    "{'names': ['a'], 'formats': ['i4'], 'offsets': [4], 'itemsize': 16}", "np.dtype('i1,f8', align=True)",
                ),
            ),
            "ds.createVLType('i4', 'k'); ds.createVLType('i4', 'k')", "ds.createVLType('i4', 'v')", "ds.createVLType('i4', 'x')",
            "ds.createVLType(ds.createVLType('i4', 'k'), 'l')", "k = ds.createEnumType('u1', 'k', {'a': 1}); ds.createVLType(k, 'l')",
            *_filled(
                "k = ds.createVLType('i4', 'k'); ?",
                (
                    "k.name = 'a'", "k.dtype = 'i8'", "k.a = 1", "del k.name", "repr(k)[-9:]", "k == k", "ds.vltypes['k'] is k", "ds.vltypes['none']",
                    "ds.createVariable('w', k, ('x',), fill_value=1)", "ds.createVariable('w', k, ('x',), fill_value='default').ncattrs()",
                    "ds.createVariable('w', k, ('x',), fill_value=False).ncattrs()", "ds.createVariable('w', k, ('x',), zlib=True).filters()",
                    "ds.createVariable('w', k, ('x',), endian='big')", "ds.createVariable('w', k, ('x',), chunksizes=(2,)).chunking()",
                    "ds.createVariable('w', k, ('x',), least_significant_digit=1).ncattrs()",
                    "ds.createVariable('w', k, ('x',), significant_digits=1)",
                ),
            ),
            *_filled(
                "k = ds.createEnumType('u1', 'k', {'a': 1}); ?",
                (
                    "k.name = 'a'", "k.enum_dict = {}", "k.enum_dict['b'] = 2; ds.enumtypes['k'].enum_dict",
                    "ds.createVariable('w', k, ('x',), fill_value=1)[:]", "ds.createVariable('w', k, ('x',), fill_value=2)[:]",
                    "ds.createVariable('w', k, ('x',), fill_value='a')", "ds.createVariable('w', k, ('x',), fill_value='default').ncattrs()",
                    "ds.createVariable('w', k, ('x',))[:]", "ds.createVariable('w', k, ('x',), zlib=True).filters()",
                    "ds.createVariable('w', k, ('x',), endian='big')",
                ),
            ),
            *_filled(
                "k = ds.createCompoundType(np.dtype([('a', 'i4'), ('b', 'f8')]), 'k'); ?",
                (
                    "k.name = 'a'", "ds.createVariable('w', k, ('x',), fill_value=1)",
                    "ds.createVariable('w', k, ('x',), fill_value='default').ncattrs()", "ds.createVariable('w', k, ('x',), zlib=True).filters()",
                    "ds.createVariable('w', k, ('x',), endian='big')", "ds.createVariable('w', k.dtype, ('x',))",
                    "ds.a = np.array((1, 2), k.dtype); ds.a", "ds.a = np.zeros(2, k.dtype); ds.a", "ds.a = np.zeros(2, 'i4,f8'); ds.a",
                ),
            ),
        ],
    ),
    "attributes of a dataset": (
        "",
        [
            *_filled("ds.setncattr('a', ?); ds.a", _VALUES), *_filled("ds.setncattr(?, 1); ds.ncattrs()", _NAMES),
            *_filled("ds.setncattr_string('a', ?); ds.a", _VALUES), *_filled("ds.getncattr(?)", _NAMES), *_filled("ds.delncattr(?)", _NAMES),
            *_filled("ds.renameAttribute('title', ?); ds.ncattrs()", _NAMES), *_filled("ds.renameAttribute(?, 'b'); ds.ncattrs()", _NAMES[:18]),
            *_filled(
                "ds.title = ?; ds.title", ("''", "'longer than before'", "1", "[1, 2]", "['a', 'b']", "'é'", "b'x'"),
            ),
            *_filled(
                "ds.getncattr('title', ?)", ("None", "'utf-8'", "'ascii'", "'bogus'", "5", "''", "b'utf-8'", "[]"),
            ),
            *_filled(
                "ds.a = 'é'; ds.getncattr('a', ?)", ("'ascii'", "'latin-1'", "'utf-16'", "encoding='cp1252'")
            ),
            *_filled(
                "ds.setncatts(?); ds.ncattrs()",
                (
                    "None", "{}", "[]", "[('a', 1)]", "'a'", "{'a': 1, 'b': None}", "{1: 1}", "{'': 1}", "5", "v", "{'a': 1, 'b': 'c'}",
                    "{'_FillValue': 1}", "{'dimensions': 1}", "vars(v)",
                ),
            ),
            *(
                f"ds.{name} = 1"
                for name in (
                    "dimensions", "variables", "groups", "path", "parent", "name", "data_model", "file_format", "disk_format", "keepweakref",
                    "cmptypes", "vltypes", "enumtypes", "_grpid", "_varid", "_ncstring_attrs__", "auto_complex", "ndim", "mask", "scale", "dtype",
                    "_buffer", "__orthogonal_indexing__", "close", "sync", "isopen", "createVariable", "_isopen", "__doc__", "__class__",
                    "_FillValue", "_NCProperties", "_nc3_strict", "_Format", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates",
                    "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS", "_SuperblockVersion", "_IsNetcdf4", "_nc_x", "units2", "a_b",
                )
            ),
            *(
                f"ds.setncattr('{name}', 1); ds.ncattrs()"
                for name in (
                    "dimensions", "name", "_FillValue", "_NCProperties", "_nc3_strict", "_Format", "CLASS", "NAME", "_Netcdf4Dimid",
                    "_Netcdf4Coordinates", "REFERENCE_LIST", "DIMENSION_LIST", "_SuperblockVersion", "_IsNetcdf4", "__class__", "close", "a.b", "a-b",
                    "a:b", "@a", "1a", "_",
                )
            ),
            *_filled("del ds.?", ("title", "none", "dimensions", "path", "close", "_grpid", "__doc__")),
            *_filled(
                "ds.?",
                (
                    "none", "_none", "__none__", "title", "__dict__", "__doc__ is None", "_isopen", "ncattrs().append",
                ),
            ),
            "ds.set_ncstring_attrs(True); ds.a = 'b'; ds.a", "ds.renameAttribute('title', 'title')", "ds.a = 1; ds.renameAttribute('title', 'a')",
            "delattr(ds, 'title'); ds.ncattrs()", "setattr(ds, 'a b', 1); ds.ncattrs()", "getattr(ds, 'none', 5)", "hasattr(ds, 'none')",
            "setattr(ds, '', 1)", "ds.ncattrs(1)", "ds.getncattr()", "ds.setncattr('a')", "ds.a = [np.nan, 1]; ds.a",
            "ds.a = 1; ds.a = 'b'; ds.a = [1.5]; ds.a, ds.ncattrs()",
        ],
    ),
    "attributes of a variable": (
        _TYPED,
        [
            *(
                call
                for name in ("valid_min", "valid_range", "missing_value")
                for one in ("i", "d", "c")
                for call in _filled(f"{one}.{name} = ?; {one}.{name}, {one}[:]", _LIMITS)
            ),
            *_filled("u.missing_value = ?; u.missing_value, u[:]", _LIMITS), *_filled("?.valid_min = 1; 'done'", ("s", "r", "q", "e", "k")),
            *_filled("v.setncattr('a', ?); v.a", _VALUES),
            *_filled(
                "v.?",
                (
                    "_FillValue = 1", "setncattr('_FillValue', 1)", "setncattr_string('_FillValue', 'a')", "setncatts({'_FillValue': 1})",
                    "setncatts({'_FillValue': 'a'})", "_Encoding = 'bogus'", "_Unsigned = 1", "scale_factor = 'a'", "add_offset = [1, 2]",
                    "scale_factor = 0", "units = None", "renameAttribute('none', 'a')", "delncattr('none')", "getncattr('none')", "none",
                    "_FillValue", "ncattrs()",
                ),
            ),
            *_filled(
                "i.setncatts({'_FillValue': ?}); i[:], i.ncattrs()",
                (
                    "1", "1.5", "300", "'a'", "None", "[1]", "[1, 2]", "float('nan')", "np.int8(3)", "False", "'default'",
                ),
            ),
            *_filled("v.renameAttribute(?, ?)", ("'none'", "None", "1", "''"), ("'b'", "None", "''")),
            *(
                f"v.{name} = 1"
                for name in (
                    "shape", "dimensions", "dtype", "datatype", "name", "size", "ndim", "mask", "scale", "always_mask", "chartostring", "_varid",
                    "_grp", "_has_lsd", "_isvlen", "_use_get_vars", "filters", "group", "T", "units2", "__doc__",
                )
            ),
            *_filled("del v.?", ("units", "shape", "dtype", "name", "mask")),
            *_filled(
                "i.scale_factor = ?; i[:] = [1, 2, 3]; i[:]",
                (
                    "0.5", "0", "1", "-1", "'a'", "'0.5'", "[0.5]", "[0.5, 1]", "[1, 2, 3]", "float('nan')", "np.float32(0.5)", "''", "[]",
                ),
            ),
            *_filled(
                "i.add_offset = ?; i[:] = [1, 2, 3]; i[:]", ("0.5", "0", "100", "1000", "'a'", "[0.5]", "float('nan')", "np.int8(1)"),
            ),
            *_filled(
                "i._Unsigned = ?; i[:] = [1, 2, 200]; i[:]", ("'true'", "'True'", "'TRUE'", "'false'", "1", "True", "''"),
            ),
            *_filled(
                "c._Encoding = ?; c[0] = 'ab'; c[:]", ("'utf-8'", "'ascii'", "'latin-1'", "'utf-16'", "'bogus'", "''", "1", "'none'", "'bytes'"),
            ),
            "s._Encoding = 'latin-1'; s[0] = 'é'; s[0]", "s._Encoding = 'bogus'; s[0] = 'é'", "v.missing_value = 1; v[:]",
            "v.missing_value = [1, 2]; v[:]", "v.valid_max = 3; v[:]", "v.valid_range = [1, 3]; v[:]", "v.valid_range = [3, 1]; v[:]",
            "v.valid_min = 1; v.valid_range = [0, 2]; v[:]",
        ],
    ),
    "set_…": (
        "",
        [
            *(
                call
                for name in ("mask", "scale", "maskandscale", "chartostring")
                for owner in ("ds", "v")
                for call in _filled(f"{owner}.set_auto_{name}(?); v.mask, v.scale, v.chartostring", _FLAGS)
            ),
            *_filled("v.set_always_mask(?); v[:]", _FLAGS), *_filled("ds.set_ncstring_attrs(?); ds.a = 'b'", _FLAGS),
            *_filled("v.use_nc_get_vars(?)", _FLAGS), *_filled("v.set_collective(?)", _FLAGS), "v.set_auto_mask()", "v.set_auto_mask(mask=False)",
            "ds.set_fill_off(); w = ds.createVariable('w', 'f4', ('x',)); w.get_fill_value()", "ds.set_fill_on()", "ds.set_fill_off(1)",
            *_filled("v.set_var_chunk_cache(?); len(v.get_var_chunk_cache())", _NUMBERS),
            *_filled(
                "v.set_var_chunk_cache(None, ?); len(v.get_var_chunk_cache())",
                [number for number in _NUMBERS if "<<" not in number],
            ),
            *_filled("v.set_var_chunk_cache(100, 100, ?); len(v.get_var_chunk_cache())", _NUMBERS),
            *_filled(
                "ds.get_variables_by_attributes(?)", ("", "a=1", "a=None", "units=lambda u: u is None", "a=len", "1", "a=[1]", "name='v'"),
            ),
        ],
    ),
    "v[…]": (
        _TYPED,
        [
            *_filled("v[?]", _INDICES), *_filled("d[?]", _INDICES), *_filled("k[?]", _INDICES), *_filled("c[?]", _INDICES[:60:2]),
            *_filled("s[?]", _INDICES[::3]), *_filled("q[?]", ("0", "...", "[0]", "5", "'a'", "1:1")),
            *_filled("r[?]", ("0", "...", "[0]", "5", "'a'", "1:1", "'nothing'")), *_filled("e[?]", ("0", "...", "[0]", "5", "'a'", "1:1")),
        ],
    ),
    "v[…] = 1": (
        _TYPED,
        [
            *_filled("v[?] = 1; v[:]", [index for index in _INDICES if "40" not in index]), *_filled("d[?] = 1; d[:]", _INDICES),
            *_filled("k[?] = 1; k[:]", _INDICES), *_filled("v[?] = [7, 8, 9]; v[:]", [index for index in _INDICES[::2] if "40" not in index]),
            *_filled(
                "v[?] = np.ones((2, 3)); v[:]", [index for index in _INDICES[1::2] if "40" not in index]
            ),
        ],
    ),
    "v[…] = data": (
        _TYPED,
        [
            *_filled("v[:] = ?; v[:]", _DATA), *_filled("v[0] = ?; v[:]", _DATA), *_filled("v[1, 1] = ?; v[:]", _DATA[::2]),
            *_filled("v[2:] = ?; v[:]", _DATA[1::2]), *_filled("d[:] = ?; d[:]", _DATA), *_filled("i[:] = ?; i[:]", _DATA),
            *_filled("i[1] = ?; i[:]", _DATA[::2]), *_filled("k[:] = ?; k[:]", _DATA), *_filled("k[...] = ?; k[:]", _DATA[::3]),
            *_filled("c[:] = ?; c[:]", _DATA[::2]),
            *_filled(
                "c[0] = ?; c[:]",
                (
                    *_DATA[1::2], "'ab'", "'abcd'", "'abcde'", "b'ab'", "['a', 'b', 'c', 'd']", "np.array(list('abcd'), 'S1')", "'é'",
                    "np.array('ab', 'S2')",
                ),
            ),
            *_filled(
                "c._Encoding = 'utf-8'; c[:] = ?; c[:]",
                (
                    "'ab'", "['ab', 'c', '']", "np.array(['ab', 'c', 'defgh'])", "np.array(['ab', 'c', 'd'], object)", "b'ab'",
                    "np.array(['é', 'c', 'd'])", "1", "None", "[1, 2, 3]", "np.array([b'a', b'b', b'c'])",
                ),
            ),
            *_filled(
                "s[0] = ?; s[:]",
                (
                    *_PLAIN, "'é'", "'\\ud800'", "['a']", "np.array(['a'])", "np.str_('a')", "np.array('a')", "np.ma.masked", "1j", "'a' * 9",
                ),
            ),
            *_filled(
                "s[:] = ?; s[:]",
                (
                    *_PLAIN, "['a', 'b', 'c']", "np.array(['a', 'b', 'c'])", "np.array(['a', 'b', 'c'], object)", "np.array([b'a', b'b', b'c'])",
                    "np.array(['a', 1, None], object)", "np.array(['a', 'b'])", "np.arange(3)", "np.ma.array(['a', 'b', 'c'], mask=[0, 1, 0])",
                    "('a', 'b', 'c')",
                ),
            ),
            "s[:2] = 'a'", "s[[0, 1]] = np.array(['a', 'b'], object); s[:]", "s[...] = 'a'",
            *_filled(
                "q[0] = ?; q[:]",
                (
                    *_PLAIN, "[1, 2]", "[1.0, 2.0]", "np.arange(3, dtype='i4')", "np.arange(3)", "np.arange(3.0)", "np.zeros((2, 2), 'i4')",
                    "np.array([], 'i4')", "np.ma.array([1, 2], 'i4', mask=[0, 1])", "range(3)", "'ab'",
                ),
            ),
            *_filled(
                "q[:] = ?; q[:]",
                (
                    *_PLAIN, "[[1], [2], [3]]", "np.arange(3, dtype='i4')",
                    "np.array([np.arange(2, dtype='i4'), np.arange(1, dtype='i4'), np.arange(3, dtype='i4')], object)",
                    "np.array([[1], [2, 3], [4]], object)", "np.array([None, None, None], object)", "np.array([1, 2, 3], object)",
                ),
            ),
            *_filled(
                "r[0] = ?; r[:]",
                (
                    *_PLAIN, "(1, 2.5)", "(1,)", "(1, 2, 3)", "[1, 2]", "np.array((1, 2), record.dtype)", "np.zeros(1, record.dtype)",
                    "np.array((1, 2), 'i4,f8')", "np.array((2.5, 1), [('b', 'f8'), ('a', 'i4')])", "np.array((1, 2), [('a', 'i8'), ('b', 'f4')])",
                    "np.array((1, 2), [('c', 'i4'), ('b', 'f8')])", "np.array((1, 2, 3), 'i4,f8,f8')", "np.array((1,), [('a', 'i4')])",
                    "{'a': 1, 'b': 2}",
                ),
            ),
            *_filled(
                "r[:] = ?; r[:]",
                (
                    "0", "None", "(1, 2.5)", "[(1, 2.5)] * 3", "[(1, 2.5)] * 2", "np.zeros(3, record.dtype)", "np.zeros(2, record.dtype)",
                    "np.ones(3)", "np.ma.zeros(3, record.dtype)",
                ),
            ),
            *_filled(
                "e[:] = ?; e[:]",
                (
                    *_PLAIN, "5", "6", "[0, 5, 0]", "[0, 5, 1]", "['red', 'blue', 'red']", "'red'", "5.0", "5.5",
                    "np.ma.array([0, 5, 0], mask=[0, 1, 0])", "np.array([0, 5, 5], 'i8')", "np.array([0, 5, 256], 'i8')", "300",
                ),
            ),
            *_filled("k.assignValue(?); k.getValue()", _PLAIN), "v.assignValue(1)", "v.getValue()", "k.getValue()", "k.assignValue()",
            "s.assignValue('a')",
        ],
    ),
    "other members": (
        _TYPED,
        [
            *_filled(
                "?",
                (
                    "len(v)", "len(k)", "iter(k)", "list(d)", "bool(v)", "v == v", "v == 1", "hash(v) == hash(v)", "v + 1", "v < 1", "float(k)",
                    "int(k)", "k + 1", "np.asarray(v)", "np.array(v, dtype='i8')", "np.array(s)", "np.mean(v)", "np.ma.asarray(v)", "1 in d",
                    "d in [d]", "v.T", "v.astype('i4')", "v.tolist()", "v.item()", "v()", "v.get_dims()[0].name", "v.get_fill_value()",
                    "s.get_fill_value()", "r.get_fill_value()", "q.get_fill_value()", "e.get_fill_value()", "c.get_fill_value()",
                    "k.get_fill_value()", "v.endian()", "s.endian()", "c.endian()", "r.endian()", "i.endian()", "e.endian()", "k.chunking()",
                    "s.chunking()", "d.chunking()", "v.filters()", "s.filters()", "v.quantization()", "s.size", "k.size", "k.shape", "k.ndim",
                    "str(r.dtype)", "s.dtype", "q.dtype", "e.dtype", "r.datatype.name", "q.datatype.name", "s.datatype", "v.nothing", "v.__array__()",
                    "v.group().path", "v.name", "v.__orthogonal_indexing__", "ds.__orthogonal_indexing__", "copy.copy(v)", "copy.deepcopy(v)",
                    "weakref.ref(v)() is v", "ds.filepath('bogus')", "ds.filepath(5)", "ds.filepath(None) == path", "ds.fromcdl('none.cdl')",
                    "ds.fromcdl(None)", "ds.fromcdl(path, format='bogus')", "ds.has_zstd_filter()", "ds.has_szip_filter()", "ds.sync()",
                    "ds.renameVariable('v', 'x')", "v.del_('a')",
                ),
            ),
            *_filled("ds.renameVariable('v', ?); list(ds.variables)", _NAMES), *_filled("ds.renameVariable(?, 'w'); list(ds.variables)", _NAMES[:16]),
            "ds.renameVariable('v', 'v')", "ds.renameVariable('v', 'i')", "ds.renameVariable('v', 'g')",
        ],
    ),
    "module": (
        "",
        [
            *_filled(
                "nc.set_chunk_cache(?); old = None", ("None", "-1", "'a'", "1.5", "1 << 70", "[]", "object()")
            ),
            *_filled("nc.set_chunk_cache(None, ?)", ("None", "-1", "'a'", "1 << 70")),
            *_filled("nc.set_chunk_cache(None, None, ?)", ("None", "-1", "'a'", "1.5", "[]")),
            *_filled("nc.set_alignment(?, 1)", ("0", "-1", "'a'", "None", "1.5", "1 << 70", "[]")),
            *_filled("nc.rc_get(?)", ("'none'", "5", "None", "b'a'", "[]")), *_filled("nc.rc_set(?, 'b')", ("'A'", "5", "None", "[]")),
            *_filled("nc.rc_set('A', ?)", ("5", "None", "[]")),
            *_filled(
                "nc.stringtochar(?)",
                (
                    "np.array(['ab', 'c'])", "np.array(['ab', 'c'], 'S2')", "np.array([['ab', 'c']])", "np.array('ab')", "np.array('ab', 'S2')",
                    "np.array(['é'])", "np.array([1])", "'ab'", "['ab']", "None", "np.array([], 'S3')", "np.array(['', ''])",
                    "np.array(['ab', 'c'], object)", "np.array(['ab'], '>U2')",
                ),
            ),
            *_filled(
                "nc.stringtochar(np.array(['ab', 'é']), ?)",
                (
                    "'utf-8'", "'ascii'", "'latin-1'", "'bogus'", "'none'", "5", "n_strlen=1", "n_strlen=0", "n_strlen=-1", "n_strlen='a'",
                    "n_strlen=None", "n_strlen=9",
                ),
            ),
            *_filled(
                "nc.chartostring(?)",
                (
                    "np.array([[b'a', b'b']])", "np.array([['a', 'b']])", "np.array([b'a'])", "np.array(b'a')", "np.array([1])", "'ab'", "[b'a']",
                    "None", "np.zeros((2, 0), 'S1')", "np.array([[b'\\xff']])", "np.array([[b'ab', b'c']])", "np.array([[b'', b'b']])",
                ),
            ),
            *_filled(
                "nc.chartostring(np.array([[b'\\xc3', b'\\xa9']]), ?)",
                ("'utf-8'", "'ascii'", "'latin-1'", "'bogus'", "'none'", "'bytes'", "5", "None"),
            ),
            *_filled(
                "nc.stringtoarr(?)",
                (
                    "'ab', 4", "'ab', 2", "'ab', 1", "'', 2", "'ab', -1", "'ab', 4, 'U'", "'ab', 4, 'X'", "b'ab', 4", "5, 4", "None, 4", "'ab', 'a'",
                    "'é', 3", "'é', 3, 'U'", "'ab', 2.0", "['a', 'b'], 3",
                ),
            ),
            *_filled(
                "nc.dtype_is_complex(?)", ("'c8'", "'f8'", "'bogus'", "None", "5", "complex", "np.dtype('c16')"),
            ),
            *_filled(
                "nc.MFDataset(?)", ("None", "[]", "5", "'none*.nc'", "['none.nc']", "[path]", "path", "''")
            ),
            "nc.MFTime(v)", "nc.MFTime(None)", "type(nc.getlibversion())", "nc.VLType(ds, 'i4', 'k').name", "nc.VLType(ds, str, None).name",
            "nc.VLType(None, 'i4', 'k')", "nc.EnumType(ds, 'i4', 'k', {'a': 1}).name", "nc.CompoundType(ds, 'i4,f8', 'k').name",
            "nc.CompoundType(ds, np.dtype('i4,f8'), 'k').name", "nc.NetCDF4MissingFeatureException('a', '1').args != ()",
        ],
    ),
}

# fmt: on
#: Groups whose calls need a file.
ON_DISK = ("Dataset(…)", "read-only", "module")


class Outcome:
    """The result of a call with a library.

    Attributes
    ----------
    error : BaseException or None
    result : object
        The value of the call's last expression, in a form that compares by ``==``.
    content : object
        The content of the dataset after it was closed, read by `reader`.
    """

    def __init__(self, library: Any, reader: Any, group: str, call: str, folder: Path, file: str) -> None:
        self.error: BaseException | None = None
        self.result: Any = None
        self.content: Any = None
        path = str(folder / file) if group in ON_DISK else file
        names: dict[str, Any] = {
            "nc": library,
            "np": np,
            "path": path,
            "reopened": lambda mode: library.Dataset(path, mode),
            "copy": copy,
            "weakref": weakref,
        }
        store: dict[str, bytes] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if group in ON_DISK:
                ds = library.Dataset(path, "w")
            elif file.endswith(".zarr"):
                ds = library.Dataset(store, "w")
            else:
                ds = library.Dataset(path, "w", memory=1)
            names["ds"] = ds
            exec(_compiled(START + GROUPS[group][0] + "\npass")[0], names)
            if group in ("Dataset(…)", "module"):
                ds.sync()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            body, last = _compiled(call)
            try:
                if body is not None:
                    exec(body, names)
                if last is not None:
                    self.result = _shown(eval(last, names))
            except Exception as error:
                self.error = error.with_traceback(None)
        self.warnings = sorted(
            {w.category.__name__ for w in caught if not issubclass(w.category, _UNCOMPARED)}
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not ds.isopen():
                return
            try:
                content = ds.close()
            except Exception as error:
                self.content = repr(error)
                return
            if group in ON_DISK:
                return
            try:
                with (
                    reader.Dataset(store)
                    if file.endswith(".zarr")
                    else reader.Dataset("read.nc", memory=bytes(content)) as ds
                ):
                    self.content = content_of(ds)
            except Exception as error:
                self.content = repr(error)

    @property
    def shown(self) -> str:
        """The result, or the class of the error, as text."""
        return builtin_of(self.error).__name__ if self.error is not None else repr(self.result)


def _shown(value: Any) -> Any:
    """Return a result as something that compares by ``==``; objects of the libraries as their class."""
    if isinstance(value, list | tuple):
        return type(value).__name__, [_shown(item) for item in value]
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    known = isinstance(
        value, np.ndarray | np.generic | np.dtype | str | bytes | int | float | complex | type | None
    )
    return plain(value) if known else type(value).__name__


@cache
def _compiled(text: str) -> tuple[Any, Any]:
    """Return the code of the statements, and of the last expression or None."""
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    body = compile(tree, "<call>", "exec") if tree.body else None
    return body, compile(ast.Expression(last.value), "<call>", "eval") if isinstance(last, ast.Expr) else None


def agree(theirs: Outcome, mine: Outcome) -> bool:
    """Return True if the outcomes are equal for a program: class of error, result, warnings and content."""
    if theirs.error is not None:
        return mine.error is not None and isinstance(mine.error, builtin_of(theirs.error))
    return mine.error is None and (theirs.result, theirs.warnings, theirs.content) == (
        mine.result,
        mine.warnings,
        mine.content,
    )


@dataclass(frozen=True)
class Difference:
    """Calls that differ from netCDF4-python, and why.

    Attributes
    ----------
    pattern : str
        A regular expression, which occurs in the text of each call.
    reason : str
    files : tuple of str
        The kinds of files.
    may_agree : bool
        True if the outcome depends on more than the call, such as memory without a value.
    """

    pattern: str
    reason: str
    files: tuple[str, ...] = ("a.nc", "a.zarr")
    may_agree: bool = False


# fmt: off
_ACCIDENT = "the error has the class of the fault; netCDF4-python's error comes from an accident in its code (`'int' object has no attribute 'dtype'`)"
_ONE = "one element takes one value: `IndexError` or `ValueError`; netCDF4-python keeps the last of several"
_NUL = "a name, path or netCDF string with a NUL is refused; netCDF4-python cuts it there"
_LONG = "a name may have 256 bytes; netCDF-C creates it, and cannot open the file"
_NO_GROUP = "the argument is not a group; each library has its own message"

#: The calls that differ, by group: all others have the same outcome.
DIFFERENCES: dict[str, list[Difference]] = {
    "Dataset(…)": [
        Difference(r"Dataset\((None|5|\[\]|object\(\)), 'w'\)", "an argument that is not a path is refused; netCDF4-python creates a file with the name `None`"),
        Difference(r"'a\\0b', 'w'", _NUL),
        Difference(r"path, '(r\+s?|as?)'", "a second writer is refused"),
        Difference(r"memory=1\.5|None, memory=10|'\\ud800'\)|Dataset\(ds\)", "the error names a fault that netCDF4-python does not see, or another one of two faults", may_agree=True),
        Difference(r"\.auto_complex$", "the property is a truth value", may_agree=True),
        Difference(r"tocdl", "the error is a `TypeError`; netCDF4-python runs `ncdump`, and its error is a `CalledProcessError`"),
        Difference(r"__new__.*variables", "the access raises an error; netCDF4-python returns None before `__init__`"),
    ],
    "after close()": [
        Difference(r"^repr", "the call returns text in place of an error"),
        Difference(r"disk_format", "`ZARR`", ("a.zarr",)),
    ],
    "read-only": [],
    "createDimension": [
        Difference(r"'x' \* 256", _LONG, may_agree=True),
        Difference(r"a\\0b(?!', 'y')", _NUL),
        Difference(r"'v'(, 2|\); v)", "a dimension may have the name of a variable of other dimensions; netCDF-C writes a file that it cannot read"),
        Difference(r"Dimension\(v", _NO_GROUP),
        Difference(r"renameDimension\('x', (b'a'|'e\\u0301'|np\.str_)", "the dictionaries contain the names of the file: text in NFC"),
        Difference(r"del x\.name", _ACCIDENT),
    ],
    "createGroup": [
        Difference(r"a\\0b(?!', 'y')", _NUL),
        Difference(r"createGroup\('e\\u0301'\)|renameGroup\('g', (b'a'|'e\\u0301'|np\.str_)", "the dictionaries contain the names of the file: text in NFC"),
        Difference(r"'x' \* 256", _LONG, may_agree=True),
        Difference(r"createGroup\('x'\)", "HDF5 has one name space: netCDF-C cannot open its own file; nczarr refuses the name in netCDF files, and accepts it in Zarr"),
    ],
    "ds[…]": [],
    "createVariable: name, type, dimensions": [
        Difference(r"a\\0b(?!', 'y')", _NUL),
        Difference(r"'x' \* 256", _LONG, may_agree=True),
        Difference(r"'i4', b'x'\)", "a single name may also be bytes"),
        Difference(r"\* 33\)", "Zarr has no limit of 32 dimensions", ("a.zarr",)),
    ],
    "createVariable: options": [
        Difference(r"'f4'.*fill_value='default'", "the fill value is the default of the type; netCDF4-python stores 0 for floats of 32 bits"),
        Difference(r"'i1'.*fill_value=False", "elements without a value are undefined"),
        Difference(r"'S1'.*fill_value=\['a'\]", "a list of one character means that character"),
        Difference(r"fill_value='a\\0b'", _NUL),
        Difference(r"str, .*fletcher32=True", "HDF5's checksum would cover the references and not the strings; nczarr omits it with a warning", ("a.nc",)),
    ],
    "types": [
        Difference(r"'x' \* 256", _LONG, may_agree=True),
        Difference(r"a\\0b(?!', 'y')", _NUL),
        Difference(r"(b'a'|'e\\u0301'|np\.str_\('a'\))(, \{'a': 1\})?\)\.name", "the name is that of the file: text in NFC"),
        Difference(r"VLType\(('>f8'|np\.dtype\('>i2)|EnumType\(np\.dtype\('>i2|'>i4'", "the dtypes of user types have the machine's byte order, as after reopening"),
        Difference(r"'i1', 'k', (\{\}|\[\]|\{'a': 1, 'b': 1\}|\{'a': 1\.5\}|\{'a': \[1\]\})", "the enum is refused; netCDF-C cannot read it back, or stores other values than those given"),
        Difference(r"'i1', 'k', \{(b'a'|'a': '1'|'a': np\.int64\(1\))", "`enum_dict` has text and whole numbers, as after reopening"),
        Difference(r"createVLType\('i4', 'v'\)", "in Zarr, types have their own name space", ("a.zarr",)),
        Difference(r"createVLType\('i4', 'x'\)", "HDF5 has one name space: netCDF-C cannot open its own file; nczarr refuses the name in netCDF files, and accepts it in Zarr"),
        Difference(r"ds\.a = np\.zeros\(2, 'i4,f8'\)", "a record whose fields have other names than those of each type is refused; netCDF4-python stores bytes of its padding"),
    ],
    "attributes of a dataset": [
        Difference(r"(setncattr\(|'title', )'a\\0b'|setncattr_string\('a', 'a\\0b'\)", _NUL, ("a.nc",)),
        Difference(r"(setncattr\(|'title', )'a\\0b'|setncattr_string\('a', 'a\\0b'\)", _NUL, ("a.zarr",)),
        Difference(r"^ds\.(_varid|_ncstring_attrs__|ndim|mask|scale|dtype|_buffer) = 1", "reserved names raise `AttributeError`, also for datasets, where netCDF4-python raises `KeyError`"),
        Difference(
            r"\b(_NCProperties|_nc3_strict|_Format|CLASS|NAME|_Netcdf4Dimid|_Netcdf4Coordinates|REFERENCE_LIST|DIMENSION_LIST|_SuperblockVersion|_IsNetcdf4)\b",
            "the names of netCDF-4 files' own attributes are free in Zarr", ("a.zarr",),
        ),
        Difference(r"ds\._isopen$", "the name is internal to netCDF4-python"),
    ],
    "attributes of a variable": [
        Difference(r"np\.zeros\(2, 'i4,f8'\)", "a record whose fields have other names than those of each type is refused; netCDF4-python stores bytes of its padding"),
        Difference(r"renameAttribute\((None|1), ''\)", "the error names another one of two faults"),
        Difference(r"scale_factor = \[(0\.5, 1|1, 2, 3)?\]", "packing by several numbers is refused: see [](#random-programs)"),
        Difference(r"_Encoding = 'utf-16'", "text that does not fit is refused; netCDF4-python cuts it"),
        Difference(r"_Encoding = '(none|bytes)'", "the text is stored as its bytes"),
    ],
    "set_…": [
        Difference(r"set_fill_off", "the result is None; netCDF4-python reads memory without a value", may_agree=True),
        Difference(r"set_var_chunk_cache", "the arguments are numbers of Python and numpy, not arrays; the number of slots and the preemption have no effect", may_agree=True),
        Difference(r"a=\[1\]", "values of all kinds can be searched for"),
    ],
    "v[…]": [],
    "v[…] = 1": [
        Difference(r"v\[\(\[1, 0\], slice\(None, None, -1\)\)\]|v\[\[1, 0\]\] = \[7", "the values are written; netCDF4-python raises `IndexError`"),
    ],
    "v[…] = data": [
        Difference(r"v\[(:|2:)\] = np\.ma\.array\(\[1, 2, 3\], mask", "masked elements stay masked when one record fills several; netCDF4-python stores what is under the mask"),
        Difference(r"^[a-z]\[[^]]*\] = v;", "a variable stands for its values; netCDF4-python's `__array__` lacks the argument `dtype`, which numpy 2 passes"),
        Difference(r"i\[1\] = |k\[:\] = np\.(array\(\['(a|2000)'|zeros)|r\[0\] = \[1, 2\]", _ONE, may_agree=True),
        Difference(r"c\._Encoding = 'utf-8'; c\[:\] = (1|None|\[1, 2, 3\]);", _ACCIDENT),
        Difference(r"c\._Encoding = 'utf-8'; c\[:\] = (\['ab'|np\.array\(\['ab', 'c', 'd'\], object)", "lists of text are also split into characters"),
        Difference(r"defgh", "text that does not fit is refused; netCDF4-python cuts it"),
        Difference(r"s\[0\] = np\.array\(", "an array with one string means that string"),
        Difference(r"q\[0\] = (True|0|-1|2|1\.5|\[.*\]|range\(3\));", "a list or a number is also a sequence"),
        Difference(r"q\[(0|:)\] = ", _ACCIDENT, may_agree=True),
    ],
    "other members": [
        Difference(r"np\.array\(v, dtype|copy\.copy|weakref", "the call works"),
        Difference(r"filepath\(None\)", "the dataset of these calls is a mapping, which has no path", ("a.zarr",)),
        Difference(r"renameVariable\('v', ", "the object is renamed; netCDF-C fails to rename an object that was just created", may_agree=True),
    ],
    "module": [
        Difference(r"stringtochar|chartostring", "arrays of any rank, of Unicode characters and of raw bytes work; a negative length is refused", may_agree=True),
        Difference(r"dtype_is_complex\(complex\)", "Python's `complex` is a complex type"),
        Difference(r"MFDataset\(\[?path", "datasets of the data model NETCDF4 can be joined"),
    ],
}

# fmt: on


def documented(group: str, call: str, file: str) -> Difference | None:
    """Return the difference to which a call belongs, or None."""
    return next((d for d in DIFFERENCES[group] if file in d.files and re.search(d.pattern, call)), None)


def judge(group: str, calls: Iterable[str], file: str, folder: Path, theirs: Any, ours: Any) -> list[str]:
    """Run calls with both libraries, and return what differs without a reason, or agrees in spite of one."""
    found = []
    for number, call in enumerate(calls):
        outcomes = []
        for library, name in ((theirs, "a.nc"), (ours, file)):
            place = folder / f"{number}{library.__name__}"
            place.mkdir()
            os.chdir(place)
            reader = ours if name.endswith(".zarr") else theirs
            outcomes.append(Outcome(library, reader, group, call, place, name))
        same, difference = agree(*outcomes), documented(group, call, file)
        if same == (difference is not None) and not (difference is not None and difference.may_agree):
            found.append(
                f"{call}: {outcomes[0].shown[:200]} {outcomes[0].error!r}; {outcomes[1].shown[:200]} {outcomes[1].error!r}"
            )
    return found
