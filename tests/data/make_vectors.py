"""Writes the test vectors of docs/spec/nczarr-v3.md: small stores, and the CDL that each of them stands for.

The stores are written from the specification alone, with json, struct and base64, and without any part of nczarr, so
that the reader is held against something that is not the writer. Run it to write tests/data/vectors anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
import sys
import zlib
from copy import deepcopy
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "vectors"
#: Version 3.2.0 is 3.1.0 with an identity: :func:`identified` adds it to the documents that the functions below make.
VERSION = "3.1.0"
IDENTIFIED = "3.2.0"
CONVENTION = "4058cf9a-85c0-4aeb-a3e4-72f486c51814"
#: The identity of every vector, and that of the dataset from which nodes were copied in.
IDENTITY = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"
FORMATS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def group(
    attributes: dict[str, Any] | None = None,
    *,
    dimensions: dict[str, Any] | None = None,
    types: dict[str, Any] | None = None,
    attr: dict[str, Any] | None = None,
    **info: Any,
) -> dict[str, Any]:
    """A group; a dimension is its size, or a list of one size where it is unlimited."""
    record: dict[str, Any] = {}
    if "name" in info:
        record["name"] = info.pop("name")
    if dimensions:
        record["dimensions"] = [
            {"name": n, "size": s[0], "unlimited": True} if isinstance(s, list) else {"name": n, "size": s}
            for n, s in dimensions.items()
        ]
    if types:
        record["types"] = [{"name": n, **t} for n, t in types.items()]
    record.update(info)
    keys = {**({"_nczarr_group": record} if record else {}), **({"_nczarr_attr": attr} if attr else {})}
    return {"zarr_format": 3, "node_type": "group", "attributes": {**(attributes or {}), **keys}}


def root(attributes: dict[str, Any] | None = None, **info: Any) -> dict[str, Any]:
    document = group(attributes, **info)
    document["attributes"]["_nczarr_superblock"] = {"version": VERSION}
    return document


def array(
    data_type: Any,
    shape: list[int],
    labels: list[str],
    fill: Any,
    attributes: dict[str, Any] | None = None,
    *,
    chunk: list[int] | None = None,
    codecs: list[Any] | None = None,
    attr: dict[str, Any] | None = None,
    copy: dict[str, Any] | None = None,
    **info: Any,
) -> dict[str, Any]:
    if codecs is None:
        wide = isinstance(data_type, str) and data_type in FORMATS and not data_type.endswith("int8")
        wide = wide or (isinstance(data_type, dict) and data_type["name"] == "struct")
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}} if wide else {"name": "bytes"}]
    if "types" in info:
        info["types"] = [{"name": n, **t} for n, t in info["types"].items()]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": chunk or [max(n, 1) for n in shape]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": attributes or {},
        "dimension_names": labels,
    }
    keys: dict[str, Any] = {
        **({"_nczarr_array": info} if info else {}),
        **({"_nczarr_attr": attr} if attr else {}),
    }
    if copy:
        keys["_nczarr_copy"] = json.dumps(copy, separators=(",", ":"))
    if keys:
        document["nczarr"] = {
            "name": "nczarr",
            "must_understand": False,
            "configuration": {"version": VERSION, **keys},
        }
    return document


def identified(store: Store, identity: str = IDENTITY, above: str = "") -> Store:
    """The same store in version 3.2.0: the root and all nodes name the dataset, groups their FQN, copies the same.

    `above` is the FQN of the root where it is a group of a dataset.
    """

    def named(keys: dict[str, Any], fqn: str) -> None:
        block = keys.get("_nczarr_superblock")
        if isinstance(block, dict):
            if "version" in block:
                block["version"] = IDENTIFIED
            block.update(convention=CONVENTION, dataset=identity)
        if fqn:
            keys["_nczarr_group"] = {"fqn": fqn, "dataset": identity, **keys.get("_nczarr_group", {})}

    def fqn_of(path: str) -> str:
        parts = path.split("/") if path else []
        names = []
        for i, part in enumerate(parts):
            attributes = store["/".join([*parts[: i + 1], "zarr.json"])]["attributes"]
            names.append(attributes.get("_nczarr_group", {}).get("name", part))
        escaped = "".join(
            "/" + n.replace("\\", "\\\\").replace(" ", "\\ ").replace("/", "\\/") for n in names
        )
        return above + escaped

    for key in [k for k in store if k.endswith("zarr.json")]:
        document, path = store[key], key.removesuffix("zarr.json").removesuffix("/")
        if document["node_type"] == "group":
            if not path or document["attributes"] or not _has_copy(store):
                named(document["attributes"], fqn_of(path) if path or above else "")
            continue
        own = document.setdefault("nczarr", {"name": "nczarr", "must_understand": False, "configuration": {}})
        keys = own["configuration"]
        keys.pop("version", None)
        keys = own["configuration"] = {"version": IDENTIFIED, "dataset": identity, **keys}
        if "_nczarr_copy" in keys:
            copy = json.loads(keys["_nczarr_copy"])
            for fqn, record in copy.items():
                named(record, "" if fqn == "/" else fqn)
            keys["_nczarr_copy"] = json.dumps(copy, separators=(",", ":"))
    return store


def _has_copy(store: Store) -> bool:
    return any(
        "_nczarr_copy" in v.get("nczarr", {}).get("configuration", {})
        for k, v in store.items()
        if "json" in k
    )


def numbers(data_type: str, values: list[Any], order: str = "<") -> bytes:
    return struct.pack(f"{order}{len(values)}{FORMATS[data_type]}", *values)


def sequences(items: list[bytes]) -> bytes:
    """A chunk of vlen-utf8 or vlen-bytes."""
    return struct.pack("<I", len(items)) + b"".join(struct.pack("<I", len(i)) + i for i in items)


def char(length: int) -> dict[str, Any]:
    return {"name": "null_terminated_bytes", "configuration": {"length_bytes": length}}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"name": "struct", "configuration": {"fields": [{"name": n, "data_type": t} for n, t in fields]}}


#: netCDF's default fill values, as Zarr writes them.
DEFAULTS = {
    "int8": -127, "uint8": 255, "int16": -32767, "uint16": 65535, "int32": -2147483647, "uint32": 4294967295,
    "int64": -9223372036854775806, "uint64": 18446744073709551614, "float32": 9.969209968386869e36,
    "float64": 9.969209968386869e36,
}  # fmt: skip
INT = DEFAULTS["int32"]
TEXT = [{"name": "vlen-utf8"}]
BYTES = [{"name": "vlen-bytes"}]
Store = dict[str, Any]


def empty() -> tuple[Store, str]:
    return {"zarr.json": root()}, "netcdf empty {\n}\n"


def atomic() -> tuple[Store, str]:
    cdl = {
        "int8": ("byte", "b"), "uint8": ("ubyte", "ub"), "int16": ("short", "s"), "uint16": ("ushort", "us"),
        "int32": ("int", ""), "uint32": ("uint", "u"), "int64": ("int64", "ll"), "uint64": ("uint64", "ull"),
    }  # fmt: skip
    store: Store = {}
    header, data = [], []
    for name, (cdl_name, suffix) in cdl.items():
        bits = 8 * struct.calcsize("<" + FORMATS[name])
        low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        values = [low, 1, high]
        store[f"v_{name}/zarr.json"] = array(name, [3], ["x"], DEFAULTS[name], dimension_references=["/x"])
        store[f"v_{name}/c/0"] = numbers(name, values)
        header.append(f"\t{cdl_name} v_{name}(x) ;")
        data.append(f" v_{name} = {', '.join(f'{v}{suffix}' for v in values)} ;")
    for name, cdl_name, suffix in (("float32", "float", "f"), ("float64", "double", "")):
        store[f"v_{name}/zarr.json"] = array(name, [3], ["x"], DEFAULTS[name], dimension_references=["/x"])
        store[f"v_{name}/c/0"] = numbers(name, [1.5, -0.0, math.inf])
        header.append(f"\t{cdl_name} v_{name}(x) ;")
        data.append(f" v_{name} = 1.5{suffix}, -0.{suffix}, Infinity{suffix} ;")
    store["scalar/zarr.json"] = array("int32", [], [], -2147483647)
    store["scalar/c"] = numbers("int32", [42])
    store["big/zarr.json"] = array(
        "int16",
        [3],
        ["x"],
        -32767,
        codecs=[{"name": "bytes", "configuration": {"endian": "big"}}],
        dimension_references=["/x"],
        endian="big",
    )
    store["big/c/0"] = numbers("int16", [1, 2, 258], ">")
    header += ["\tint scalar ;", "\tshort big(x) ;"]
    data += [" scalar = 42 ;", " big = 1s, 2s, 258s ;"]
    arrays = [k.partition("/")[0] for k in store if k.endswith("zarr.json")]
    store["zarr.json"] = root(dimensions={"x": 3}, arrays=arrays)
    lines = [
        "netcdf atomic {",
        "dimensions:",
        "\tx = 3 ;",
        "variables:",
        *header,
        "data:",
        *data,
        "}",
    ]
    return store, "\n".join(lines) + "\n"


def text() -> tuple[Store, str]:
    store: Store = {
        "zarr.json": root(dimensions={"n": 2, "len": 4}, arrays=["c", "u", "s", "t"]),
        "c/zarr.json": array(char(1), [2, 4], ["n", "len"], "AA==", dimension_references=["/n", "/len"]),
        "c/c/0/0": b"abcdx\0\0\0",
        "u/zarr.json": array("uint8", [4], ["len"], 0, dimension_references=["/len"], type="char"),
        "u/c/0": b"byte",
        "s/zarr.json": array("string", [2], ["n"], "", codecs=TEXT, dimension_references=["/n"]),
        "s/c/0": sequences(["caf\u00e9".encode(), b""]),
        "t/zarr.json": array("string", [], [], "", codecs=TEXT),
        "t/c": sequences([b"one"]),
    }
    return store, (
        "netcdf text {\ndimensions:\n\tn = 2 ;\n\tlen = 4 ;\nvariables:\n\tchar c(n, len) ;\n\tchar u(len) ;\n"
        '\tstring s(n) ;\n\tstring t ;\ndata:\n c = "abcd", "x" ;\n u = "byte" ;\n s = "caf\u00e9", "" ;\n'
        ' t = "one" ;\n}\n'
    )


def attributes() -> tuple[Store, str]:
    plain = {
        "title": "line 1\nline 2",
        "json": '{"a": 1}',
        "empty": "",
        "texts": ["a", "b"],
        "one_text": "a",
        "a_long": 9007199254740993,
        "a_longs": [1, -2],
        "a_short": 7,
        "unsigned": 18446744073709551615,
        "a_real": 0.5,
        "whole": 2.0,
        "single": 0.10000000149011612,
        "special": ["NaN", "-Infinity", 1.0],
    }
    info = {
        "types": {
            "empty": "string",
            "one_text": "string",
            "a_short": "int16",
            "unsigned": "uint64",
            "whole": "float64",
            "single": "float32",
            "special": "float64",
            "_nczarr_array": "char",
        },
        "exact": {"_nczarr_array": "hidden"},
        "order": [*plain, "_nczarr_array"],
    }
    cdl = r"""netcdf attributes {

// global attributes:
		:title = "line 1\nline 2" ;
		:json = "{\"a\": 1}" ;
		string :empty = "" ;
		string :texts = "a", "b" ;
		string :one_text = "a" ;
		:a_long = 9007199254740993ll ;
		:a_longs = 1ll, -2ll ;
		:a_short = 7s ;
		:unsigned = 18446744073709551615ull ;
		:a_real = 0.5 ;
		:whole = 2. ;
		:single = 0.1f ;
		:special = NaN, -Infinity, 1. ;
		:_nczarr_array = "hidden" ;
}
"""
    return {"zarr.json": root(plain, attr=info)}, cdl


def fill_values() -> tuple[Store, str]:
    single = struct.unpack("<f", struct.pack("<f", 1e20))[0]
    store: Store = {
        "zarr.json": root(dimensions={"x": 2}, arrays=["i", "f", "s", "none"]),
        "i/zarr.json": array("int16", [2], ["x"], -9, {"_FillValue": -9}, dimension_references=["/x"]),
        "f/zarr.json": array(
            "float32",
            [2],
            ["x"],
            single,
            {"_FillValue": b64(struct.pack("<d", single))},
            dimension_references=["/x"],
        ),
        "s/zarr.json": array(
            "string",
            [2],
            ["x"],
            "none",
            attr={
                "types": {"_FillValue": "string"},
                "exact": {"_FillValue": ["none"]},
                "order": ["_FillValue"],
            },
            codecs=TEXT,
            dimension_references=["/x"],
        ),
        "none/zarr.json": array("float64", [2], ["x"], 9.969209968386869e36, dimension_references=["/x"]),
    }
    return store, (
        "netcdf fill_values {\ndimensions:\n\tx = 2 ;\nvariables:\n\tshort i(x) ;\n\t\ti:_FillValue = -9s ;\n"
        '\tfloat f(x) ;\n\t\tf:_FillValue = 1.e+20f ;\n\tstring s(x) ;\n\t\tstring s:_FillValue = "none" ;\n'
        "\tdouble none(x) ;\ndata:\n i = _, _ ;\n f = _, _ ;\n s = _, _ ;\n none = _, _ ;\n}\n"
    )


def groups() -> tuple[Store, str]:
    store: Store = {
        "zarr.json": root(dimensions={"t": [2], "x": 2}, arrays=["t"], groups=["zz", "aa"]),
        "t/zarr.json": array(
            "int32",
            [2],
            ["t"],
            INT,
            chunk=[1],
            dimension_references=["/t"],
            unlimited=["/t"],
            storage="chunked",
        ),
        "t/c/0": numbers("int32", [10]),
        "t/c/1": numbers("int32", [20]),
        "zz/zarr.json": group({"where": "zz"}, dimensions={"x": 3}, arrays=["own"], groups=["deep"]),
        "zz/own/zarr.json": array("int32", [3], ["x"], INT, dimension_references=["/zz/x"]),
        "zz/own/c/0": numbers("int32", [1, 2, 3]),
        "zz/deep/zarr.json": group(arrays=["both"]),
        "zz/deep/both/zarr.json": array(
            "int32", [2, 3], ["t", "x"], INT, dimension_references=["/t", "/zz/x"], unlimited=["/t"]
        ),
        "zz/deep/both/c/0/0": numbers("int32", [1, 2, 3, 4, 5, 6]),
        "aa/zarr.json": group(),
    }
    return store, (
        "netcdf groups {\ndimensions:\n\tt = UNLIMITED ; // (2 currently)\n\tx = 2 ;\nvariables:\n\tint t(t) ;\n"
        "data:\n t = 10, 20 ;\n\ngroup: zz {\n  dimensions:\n  \tx = 3 ;\n  variables:\n  \tint own(x) ;\n\n"
        '  // group attributes:\n  \t\t:where = "zz" ;\n  data:\n   own = 1, 2, 3 ;\n\n  group: deep {\n'
        "    variables:\n    \tint both(t, x) ;\n    data:\n     both = 1, 2, 3, 4, 5, 6 ;\n    } // group deep\n"
        "  } // group zz\n\ngroup: aa {\n  } // group aa\n}\n"
    )


def names() -> tuple[Store, str]:
    store: Store = {
        "zarr.json": root(
            arrays=["_nc-__x", "_nc-zarr.2Ejson", "a b", "T", "_nc-t"], groups=["_nc-.5F.5F.78"]
        ),
        "_nc-__x/zarr.json": array("int32", [], [], INT, name="__x"),
        "_nc-__x/c": numbers("int32", [1]),
        "_nc-zarr.2Ejson/zarr.json": array("int32", [], [], INT, name="zarr.json"),
        "_nc-zarr.2Ejson/c": numbers("int32", [2]),
        "a b/zarr.json": array("int32", [], [], INT),
        "a b/c": numbers("int32", [3]),
        # Names that differ only in case, for stores that ignore it.
        "T/zarr.json": array("int32", [], [], INT),
        "T/c": numbers("int32", [4]),
        "_nc-t/zarr.json": array("int32", [], [], INT, name="t"),
        "_nc-t/c": numbers("int32", [5]),
        # A group of the name of an array: every byte is escaped.
        "_nc-.5F.5F.78/zarr.json": group(name="__x"),
    }
    return store, (
        "netcdf names {\nvariables:\n\tint __x ;\n\tint zarr.json ;\n\tint a\\ b ;\n\tint T ;\n\tint t ;\ndata:\n"
        " __x = 1 ;\n zarr.json = 2 ;\n a\\ b = 3 ;\n T = 4 ;\n t = 5 ;\n\ngroup: __x {\n  } // group __x\n}\n"
    )


def slashes() -> tuple[Store, str]:
    """Names that contain a slash, of all nodes, beside the groups and nodes that a reader may take them for."""
    level = {"class": "enum", "base": "uint8", "members": [["low", 0], ["high", 1]]}
    store: Store = {
        "zarr.json": root(
            dimensions={"x/y": 2, "y": 3},
            types={"a/e": level},
            arrays=["_nc-a.2Fb", "_nc-a.5C.2Fb"],
            groups=["a", "_nc-a.2Fx"],
        ),
        "_nc-a.2Fb/zarr.json": array(
            "int32", [2], ["x/y"], INT, name="a/b", dimension_references=["/x\\/y"], storage="contiguous"
        ),
        "_nc-a.2Fb/c/0": numbers("int32", [1, 2]),
        "_nc-a.5C.2Fb/zarr.json": array(
            "uint8",
            [3],
            ["y"],
            255,
            {},
            name="a\\/b",
            type="/a\\/e",
            dimension_references=["/y"],
            storage="contiguous",
        ),
        "_nc-a.5C.2Fb/c/0": bytes([0, 1, 0]),
        "a/zarr.json": group(dimensions={"x": 2}, arrays=["b"]),
        "a/b/zarr.json": array("int32", [2], ["x"], INT, dimension_references=["/a/x"], storage="contiguous"),
        "a/b/c/0": numbers("int32", [3, 4]),
        "_nc-a.2Fx/zarr.json": group(name="a/x", dimensions={"b": 2}, arrays=["v"]),
        "_nc-a.2Fx/v/zarr.json": array(
            "int32", [2], ["b"], INT, dimension_references=["/a\\/x/b"], storage="contiguous"
        ),
        "_nc-a.2Fx/v/c/0": numbers("int32", [5, 6]),
    }
    return store, (
        "netcdf slashes {\ntypes:\n  ubyte enum a\\/e {low = 0, high = 1} ;\n"
        "dimensions:\n\tx\\/y = 2 ;\n\ty = 3 ;\n"
        "variables:\n\tint a\\/b(x\\/y) ;\n\ta\\/e a\\\\\\/b(y) ;\n"
        "data:\n a\\/b = 1, 2 ;\n a\\\\\\/b = low, high, low ;\n\n"
        "group: a {\n  dimensions:\n  \tx = 2 ;\n  variables:\n  \tint b(x) ;\n"
        "  data:\n   b = 3, 4 ;\n  } // group a\n\n"
        "group: a\\/x {\n  dimensions:\n  \tb = 2 ;\n  variables:\n  \tint v(b) ;\n  data:\n   v = 5, 6 ;\n"
        "  } // group a\\/x\n}\n"
    )


def user_types() -> tuple[Store, str]:
    types = {
        "flag": {"class": "enum", "base": "uint8", "members": [["good", 0], ["bad", 255]]},
        "key": {"class": "opaque", "size": 2},
        "row": {"class": "vlen", "base": "int16"},
        "fixed": {
            "class": "compound",
            "fields": [
                {"name": "id", "type": "char", "shape": [3]},
                {"name": "xy", "type": "int16", "shape": [2]},
                {"name": "f", "type": "/flag"},
            ],
        },
        "mixed": {
            "class": "compound",
            "fields": [{"name": "s", "type": "string"}, {"name": "r", "type": "/row"}],
        },
    }
    fixed = record(("id", char(3)), ("xy", record(("0", "int16"), ("1", "int16"))), ("f", "uint8"))
    zero = {"id": "", "xy": {"0": 0, "1": 0}, "f": 0}

    def mixed(s: bytes, r: list[int]) -> bytes:
        return struct.pack("<I", len(s)) + s + struct.pack("<I", len(r)) + numbers("int16", r)

    ref = {"dimension_references": ["/x"]}
    note = {"state": 255, "rows": [[1, 2], []], "both": {"s": "t", "r": [3]}}
    annotated = {
        "types": {"state": "/flag", "rows": "/row", "both": "/mixed"},
        "order": ["state", "rows", "both"],
    }
    own = {name: {"types": {f"/{name}": types[name]}} for name in types}
    store: Store = {
        "zarr.json": root(
            note, dimensions={"x": 2}, types=types, arrays=["e", "o", "v", "c", "p", "m"], attr=annotated
        ),
        "e/zarr.json": array("uint8", [2], ["x"], 255, **ref, type="/flag", **own["flag"]),
        "e/c/0": b"\x00\xff",
        "o/zarr.json": array("uint8", [2, 2], ["x", "bytes_2"], 0, **ref, type="/key"),
        "o/c/0/0": b"\x01\x02\xab\xcd",
        "v/zarr.json": array("bytes", [2], ["x"], "", codecs=BYTES, **ref, type="/row"),
        "v/c/0": sequences([numbers("int16", [1, -2, 3]), b""]),
        "c/zarr.json": array(fixed, [2], ["x"], zero, **ref, type="/fixed"),
        "c/c/0": b"abc"
        + numbers("int16", [1, 2])
        + b"\x00"
        + b"z\0\0"
        + numbers("int16", [-1, -2])
        + b"\xff",
        "p/zarr.json": array("uint8", [2, 8], ["x", "bytes_8"], 0, **ref, type="/fixed"),
        "p/c/0/0": b"abc"
        + numbers("int16", [1, 2])
        + b"\x00"
        + b"z\0\0"
        + numbers("int16", [-1, -2])
        + b"\xff",
        "m/zarr.json": array("bytes", [2], ["x"], b64(mixed(b"", [])), codecs=BYTES, **ref, type="/mixed"),
        "m/c/0": sequences([mixed(b"hi", [7]), mixed(b"", [])]),
    }
    return store, (
        "netcdf user_types {\ntypes:\n  ubyte enum flag {good = 0, bad = 255} ;\n  opaque(2) key ;\n"
        "  short(*) row ;\n  compound fixed {\n    char id(3) ;\n    short xy(2) ;\n    flag f ;\n  }; // fixed\n"
        "  compound mixed {\n    string s ;\n    row r ;\n  }; // mixed\ndimensions:\n\tx = 2 ;\nvariables:\n"
        "\tflag e(x) ;\n\tkey o(x) ;\n\trow v(x) ;\n\tfixed c(x) ;\n\tfixed p(x) ;\n\tmixed m(x) ;\n\n"
        "// global attributes:\n"
        '\t\tflag :state = bad ;\n\t\trow :rows = {1, 2}, {} ;\n\t\tmixed :both = {"t", {3}} ;\ndata:\n'
        " e = good, bad ;\n o = 0X0102, 0XABCD ;\n v = {1, -2, 3}, {} ;\n"
        ' c = {{"abc"}, {1, 2}, good}, {{"z"}, {-1, -2}, bad} ;\n'
        ' p = {{"abc"}, {1, 2}, good}, {{"z"}, {-1, -2}, bad} ;\n m = {"hi", {7}}, {"", {}} ;\n}\n'
    )


def default_fills() -> tuple[Store, str]:
    """Arrays without chunks: every element is the default fill of its type."""
    types = {
        "e": {"class": "enum", "base": "int16", "members": [["one", 1], ["none", -32767]]},
        "o": {"class": "opaque", "size": 2},
        "c": {"class": "compound", "fields": [{"name": "n", "type": "int32"}, {"name": "q", "type": "/e"}]},
        "v": {"class": "vlen", "base": "/e"},
    }
    ref = {"dimension_references": ["/x"]}
    cdl = {
        "int8": "byte", "uint8": "ubyte", "int16": "short", "uint16": "ushort", "int32": "int",
        "uint32": "uint", "int64": "int64", "uint64": "uint64", "float32": "float", "float64": "double",
    }  # fmt: skip
    store: Store = {f"v_{n}/zarr.json": array(n, [2], ["x"], DEFAULTS[n], **ref) for n in cdl}
    store["v_char/zarr.json"] = array(char(1), [2], ["x"], "AA==", **ref)
    store["v_string/zarr.json"] = array("string", [2], ["x"], "", codecs=TEXT, **ref)
    store["v_e/zarr.json"] = array("int16", [2], ["x"], -32767, **ref, type="/e")
    store["v_o/zarr.json"] = array("uint8", [2, 2], ["x", "bytes_2"], 0, **ref, type="/o")
    store["v_c/zarr.json"] = array("uint8", [2, 6], ["x", "bytes_6"], 0, **ref, type="/c")
    store["v_v/zarr.json"] = array("bytes", [2], ["x"], "", codecs=BYTES, **ref, type="/v")
    store["zarr.json"] = root(
        dimensions={"x": 2}, types=types, arrays=[k.partition("/")[0] for k in store if "/" in k]
    )
    names = [*cdl.values(), "char", "string", "e", "o", "c", "v"]
    arrays = [k.partition("/")[0] for k in store if "/" in k]
    header = "".join(f"\t{kind} {name}(x) ;\n" for kind, name in zip(names, arrays, strict=True))
    return store, (
        "netcdf default_fills {\ntypes:\n  short enum e {one = 1, none = -32767} ;\n  opaque(2) o ;\n"
        "  compound c {\n    int n ;\n    e q ;\n  }; // c\n  e(*) v ;\ndimensions:\n\tx = 2 ;\nvariables:\n"
        f"{header}}}\n"
    )


def packed() -> tuple[Store, str]:
    """Values whose fill values no other form could say."""
    types = {"key": {"class": "opaque", "size": 2}}
    ref = {"dimension_references": ["/x"]}

    def fill_of(kind: str, value: Any) -> dict[str, Any]:
        return {"types": {"_FillValue": kind}, "exact": {"_FillValue": [value]}, "order": ["_FillValue"]}

    text = struct.pack("<I", 2) + b"\xffa"
    store: Store = {
        "zarr.json": root(dimensions={"x": 2}, types=types, arrays=["o", "s"]),
        "o/zarr.json": array(
            "bytes", [2], ["x"], b64(b"\x01\x02"), codecs=BYTES, attr=fill_of("/key", b64(b"\x01\x02")), **ref,
            type="/key",
        ),
        "o/c/0": sequences([b"\xab\xcd", b"\x01\x02"]),
        "s/zarr.json": array(
            "bytes", [2], ["x"], b64(text), codecs=BYTES, attr=fill_of("string", {"base64": b64(b"\xffa")}),
            **ref, type="string",
        ),
        "s/c/0": sequences([struct.pack("<I", 3) + b"abc", text]),
    }  # fmt: skip
    return store, (
        "netcdf packed {\ntypes:\n  opaque(2) key ;\ndimensions:\n\tx = 2 ;\nvariables:\n\tkey o(x) ;\n"
        '\t\tkey o:_FillValue = 0X0102 ;\n\tstring s(x) ;\n\t\tstring s:_FillValue = "\\377a" ;\n'
        'data:\n o = 0XABCD, 0X0102 ;\n s = "abc", "\\377a" ;\n}\n'
    )


def gzipped(data: bytes) -> bytes:
    """Compress at level 4. The header of :func:`gzip.compress` depends on the version of Python."""
    packer = zlib.compressobj(4, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def storage() -> tuple[Store, str]:
    """Filters, byte order, chunks and fill mode as netCDF knows them, and the codecs that are really there."""
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    gzip_codec = {"name": "gzip", "configuration": {"level": 4}}
    ref = {"dimension_references": ["/x"]}
    store: Store = {
        "zarr.json": root(dimensions={"x": 4}, arrays=["z", "b", "n", "k"]),
        "z/zarr.json": array(
            "int32", [4], ["x"], INT, codecs=[little, gzip_codec], chunk=[2], **ref, storage="chunked",
            filters=[{"id": 1, "parameters": [4]}],
        ),
        "z/c/0": gzipped(numbers("int32", [1, 2])),
        "z/c/1": gzipped(numbers("int32", [3, 4])),
        "b/zarr.json": array(
            "float64", [4], ["x"], DEFAULTS["float64"], codecs=[{"name": "bytes", "configuration": {"endian": "big"}}],
            **ref, storage="contiguous", endian="big",
        ),
        "b/c/0": numbers("float64", [1.5, 2.5, 3.5, 4.5], ">"),
        "n/zarr.json": array("int16", [4], ["x"], DEFAULTS["int16"], **ref, storage="contiguous", no_fill=True),
        "n/c/0": numbers("int16", [1, 2, 3, 4]),
        "k/zarr.json": array(
            "int16", [4], ["x"], DEFAULTS["int16"], **ref, storage="chunked", chunk_shape=[3]
        ),
        "k/c/0": numbers("int16", [4, 3, 2, 1]),
    }  # fmt: skip
    return store, (
        'netcdf storage {\ndimensions:\n\tx = 4 ;\nvariables:\n\tint z(x) ;\n\t\tz:_Storage = "chunked" ;\n'
        "\t\tz:_ChunkSizes = 2 ;\n\t\tz:_DeflateLevel = 4 ;\n\tdouble b(x) ;\n"
        '\t\tb:_Storage = "contiguous" ;\n\t\tb:_Endianness = "big" ;\n\tshort n(x) ;\n'
        '\t\tn:_Storage = "contiguous" ;\n\t\tn:_NoFill = "true" ;\n\tshort k(x) ;\n'
        '\t\tk:_Storage = "chunked" ;\n\t\tk:_ChunkSizes = 3 ;\ndata:\n z = 1, 2, 3, 4 ;\n'
        " b = 1.5, 2.5, 3.5, 4.5 ;\n n = 1, 2, 3, 4 ;\n k = 4, 3, 2, 1 ;\n}\n"
    )


def labels() -> tuple[Store, str]:
    """One dimension twice, one behind another of its name, names with blanks."""
    store: Store = {
        "zarr.json": root(dimensions={"x": 2, "a b": 1}, arrays=["twice"], groups=["g h"]),
        "twice/zarr.json": array("int8", [2, 2], ["x", "again"], -127, dimension_references=["/x", "/x"]),
        "twice/c/0/0": bytes([1, 2, 3, 4]),
        "g h/zarr.json": group(dimensions={"x": 3}, arrays=["hidden"]),
        "g h/hidden/zarr.json": array(
            "int8",
            [2, 1, 3],
            ["x_hidden1", "a b", "x"],
            -127,
            dimension_references=["/x", "/a\\ b", "/g\\ h/x"],
        ),
        "g h/hidden/c/0/0/0": bytes([1, 2, 3, 4, 5, 6]),
    }
    return store, (
        "netcdf labels {\ndimensions:\n\tx = 2 ;\n\ta\\ b = 1 ;\nvariables:\n\tbyte twice(x, x) ;\ndata:\n"
        " twice = 1, 2, 3, 4 ;\n\ngroup: g\\ h {\n  dimensions:\n  \tx = 3 ;\n  variables:\n"
        "  \tbyte hidden(/x, a\\ b, x) ;\n  data:\n   hidden = 1, 2, 3, 4, 5, 6 ;\n  } // group g h\n}\n"
    )


def cut_names() -> tuple[Store, str]:
    """Names of more than 255 bytes: a beginning, and a digest."""
    name = "n" * 256
    node = "_nc-" + name
    cut = node[: 255 - 66 - 8] + ".." + hashlib.sha256(f"{node}\0{name}".encode()).hexdigest()
    store: Store = {
        "zarr.json": root(arrays=[cut]),
        f"{cut}/zarr.json": array("int8", [], [], -127, name=name),
        f"{cut}/c": bytes([7]),
    }
    return store, f"netcdf cut_names {{\nvariables:\n\tbyte {name} ;\ndata:\n {name} = 7 ;\n}}\n"


def _series(copy: dict[str, Any] | None = None, length: int = 2, **info: Any) -> dict[str, Any]:
    return array(
        "int32", [length], ["t"], INT, chunk=[4], copy=copy, dimension_references=["/t"], unlimited=["/t"],
        storage="chunked", **info,
    )  # fmt: skip


def copies() -> tuple[Store, str]:
    """Another program replaced the attributes of all groups: the copies in the arrays are what is left."""
    record = {
        "dimensions": [{"name": "t", "unlimited": True}, {"name": "unused", "size": 3}],
        "arrays": ["t", "a"],
        "groups": ["g"],
    }
    copy = {
        "/": {"_nczarr_superblock": {"version": VERSION}, "_nczarr_group": record,
              "_nczarr_attr": {"types": {"n": "int16"}}},
        "/g": {"_nczarr_group": {"dimensions": [{"name": "y", "size": 2}]}},
    }  # fmt: skip
    store: Store = {
        "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {"n": 7}},
        "a/zarr.json": _series(),
        "a/c/0": numbers("int32", [3, 4, INT, INT]),
        "g/zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {}},
        "t/zarr.json": _series(copy),
        "t/c/0": numbers("int32", [1, 2, INT, INT]),
    }
    return store, (
        "netcdf copies {\ndimensions:\n\tt = UNLIMITED ; // (2 currently)\n\tunused = 3 ;\nvariables:\n\tint t(t) ;\n"
        "\tint a(t) ;\n\n// global attributes:\n\t\t:n = 7s ;\ndata:\n t = 1, 2 ;\n a = 3, 4 ;\n\n"
        "group: g {\n  dimensions:\n  \ty = 2 ;\n  } // group g\n}\n"
    )


def appended() -> tuple[Store, str]:
    """Another program appended to one array: it decides, and what is shorter reads as fill."""
    store: Store = {
        "zarr.json": root(dimensions={"t": [2]}, arrays=["t", "a"]),
        "t/zarr.json": _series(length=3),
        "t/c/0": numbers("int32", [1, 2, 3, INT]),
        "a/zarr.json": _series(),
        "a/c/0": numbers("int32", [3, 4, INT, INT]),
    }
    return store, (
        "netcdf appended {\ndimensions:\n\tt = UNLIMITED ; // (3 currently)\nvariables:\n\tint t(t) ;\n\tint a(t) ;\n"
        "data:\n t = 1, 2, 3 ;\n a = 3, 4, _ ;\n}\n"
    )


def copied_in() -> tuple[Store, str]:
    """An array of another dataset was copied in, and then another program replaced the attributes of the root."""
    record = {
        "dimensions": [{"name": "t", "unlimited": True}, {"name": "x", "size": 2}],
        "arrays": ["t", "v"],
    }
    foreign = {"dimensions": [{"name": "z", "size": 3}], "arrays": ["aaa"]}
    block = {"_nczarr_superblock": {"version": VERSION}}
    types = {"/flag": {"class": "enum", "base": "int8", "members": [["one", 1]]}}
    aaa = array(
        "int8", [3], ["z"], -127, dimension_references=["/z"], type="/flag", types=types,
        copy={"/": {**block, "_nczarr_group": foreign, "_nczarr_attr": {"types": {"n": "int32"}}}},
    )  # fmt: skip
    store: Store = {
        "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {"n": 7}},
        "t/zarr.json": _series(
            {"/": {**block, "_nczarr_group": record, "_nczarr_attr": {"types": {"n": "int16"}}}}
        ),
        "t/c/0": numbers("int32", [1, 2, INT, INT]),
        "v/zarr.json": array("int8", [2], ["x"], -127, dimension_references=["/x"]),
        "v/c/0": bytes([5, 6]),
    }
    store = identified(store)
    store.update(identified({"aaa/zarr.json": aaa}, OTHER), **{"aaa/c/0": bytes([1, 1, 1])})
    return store, (
        "netcdf copied_in {\ndimensions:\n\tt = UNLIMITED ; // (2 currently)\n\tx = 2 ;\n\tz = 3 ;\nvariables:\n"
        "\tint t(t) ;\n\tbyte v(x) ;\n\tbyte aaa(z) ;\n\n// global attributes:\n\t\t:n = 7s ;\n"
        "data:\n t = 1, 2 ;\n v = 5, 6 ;\n aaa = 1, 1, 1 ;\n}\n"
    )


def copied_group() -> tuple[Store, str]:
    """A group of another dataset was copied in, records and all."""
    store = identified({
        "zarr.json": root(dimensions={"x": 2}, arrays=["v"]),
        "v/zarr.json": array("int8", [2], ["x"], -127, dimension_references=["/x"]),
        "v/c/0": bytes([5, 6]),
    })  # fmt: skip
    other = identified(
        {
            "zarr.json": root(groups=["h"]),
            "h/zarr.json": group(
                {"n": 3}, dimensions={"w": [3]}, arrays=["w"], attr={"types": {"n": "int16"}}
            ),
            "h/w/zarr.json": array(
                "int8", [3], ["w"], -127, dimension_references=["/h/w"], unlimited=["/h/w"]
            ),
            "h/w/c/0": bytes([1, 2, 3]),
        },
        OTHER,
    )
    store.update({k: v for k, v in other.items() if k.startswith("h/")})
    return store, (
        "netcdf copied_group {\ndimensions:\n\tx = 2 ;\nvariables:\n\tbyte v(x) ;\ndata:\n v = 5, 6 ;\n\n"
        "group: h {\n  dimensions:\n  \tw = 3 ;\n  variables:\n  \tbyte w(w) ;\n\n  // group attributes:\n"
        "  \t\t:n = 3ll ;\n  data:\n   w = 1, 2, 3 ;\n  } // group h\n}\n"
    )


def group_alone() -> tuple[Store, str]:
    """A group was copied out of its dataset: dimensions beyond it are declared in it, as its arrays need them."""
    store: Store = {
        "zarr.json": group(
            {"n": 3}, dimensions={"x": 3}, arrays=["own", "far"], attr={"types": {"n": "int16"}}
        ),
        "own/zarr.json": array("int8", [3], ["x"], -127, dimension_references=["/g/x"]),
        "own/c/0": bytes([1, 2, 3]),
        "far/zarr.json": array(
            "int8", [2, 2], ["t", "x_hidden1"], -127, dimension_references=["/t", "/x"], unlimited=["/t"]
        ),
        "far/c/0/0": bytes([4, 5, 6, 7]),
    }
    return identified(store, above="/g"), (
        "netcdf group_alone {\ndimensions:\n\tt = UNLIMITED ; // (2 currently)\n\tx_hidden1 = 2 ;\n\tx = 3 ;\n"
        "variables:\n\tbyte own(x) ;\n\tbyte far(t, x_hidden1) ;\n\n// global attributes:\n\t\t:n = 3s ;\n"
        "data:\n own = 1, 2, 3 ;\n far = 4, 5, 6, 7 ;\n}\n"
    )


def version_3_1() -> tuple[Store, str]:
    """Groups and copies of version 3.1: nothing names the dataset."""
    store, cdl = groups()
    return store, cdl.replace("netcdf groups", "netcdf version_3_1")


def copies_3_1() -> tuple[Store, str]:
    """Another program replaced the attributes of all groups of a dataset of version 3.1."""
    store, cdl = copies()
    return store, cdl.replace("netcdf copies", "netcdf copies_3_1")


def version_3_0() -> tuple[Store, str]:
    """The carriers and the objects of version 3.0."""
    attributes = {
        "_nczarr_superblock": {"version": "3.0.0"},
        "_nczarr_group": {
            "dimensions": {"t": {"size": 2, "unlimited": True}, "x": 2},
            "types": {"flag": {"class": "enum", "base": "uint8", "members": {"good": 1, "bad": 0}}},
            "arrays": ["e"],
        },
        "zarr_conventions": [{"uuid": "4058cf9a-85c0-4aeb-a3e4-72f486c51814", "name": "nczarr"}],
    }
    plain = array("uint8", [2, 2], ["t", "x"], 255, chunk=[1, 2])
    plain["attributes"] = {
        "units": "1",
        "_nczarr_array": {"dimension_references": ["/t", "/x"], "type": "/flag", "storage": "chunked"},
    }
    store: Store = {
        "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": attributes},
        "e/zarr.json": plain,
        "e/c/0/0": bytes([0, 1]),
        "e/c/1/0": bytes([1, 0]),
    }
    return store, (
        "netcdf version_3_0 {\ntypes:\n  ubyte enum flag {good = 1, bad = 0} ;\ndimensions:\n"
        '\tt = UNLIMITED ; // (2 currently)\n\tx = 2 ;\nvariables:\n\tflag e(t, x) ;\n\t\te:units = "1" ;\n'
        "data:\n e = bad, good, good, bad ;\n}\n"
    )


def carriers() -> tuple[Store, str]:
    """Every place of the keys, and which of two counts."""

    def record(**dimensions: int) -> dict[str, Any]:
        listed = [{"name": n, "size": s} for n, s in dimensions.items()]
        return {"_nczarr_group": {"fqn": "/g", "dataset": IDENTITY, "dimensions": listed}}

    def carrier(keys: dict[str, Any]) -> dict[str, Any]:
        configuration = {"version": IDENTIFIED, "dataset": IDENTITY, **keys}
        return {"name": "nczarr", "must_understand": False, "configuration": configuration}

    def number(value: int, labels: list[str], **more: Any) -> dict[str, Any]:
        node = array("int8", [2], labels, -127, {"n": value})
        return {**node, **more}

    def keys(name: str, kind: str) -> dict[str, Any]:
        return {
            "_nczarr_array": {"dimension_references": [f"/{name}"]},
            "_nczarr_attr": {"types": {"n": kind}},
        }

    store = identified({"zarr.json": root(dimensions={"x": 2, "y": 2}, arrays=["a", "b", "c", "d"],
                                          groups=["g", "h", "i"])})  # fmt: skip
    # Attributes come before the object, and the object before the list.
    store["g/zarr.json"] = {**group(record(own=1)), "nczarr": carrier(record(wrong=2))}
    store["h/zarr.json"] = {
        **group(),
        "nczarr": carrier(record(of_object=3)),
        "extensions": [carrier(record(wrong=4))],
    }
    store["i/zarr.json"] = {**group(), "extensions": [carrier(record(of_list=5))]}
    store["h/zarr.json"]["nczarr"]["configuration"]["_nczarr_group"]["fqn"] = "/h"
    store["i/zarr.json"]["extensions"][0]["configuration"]["_nczarr_group"]["fqn"] = "/i"
    store["a/zarr.json"] = number(1, ["x"], nczarr=carrier(keys("x", "int16")),
                                  extensions=[carrier(keys("y", "int32"))])  # fmt: skip
    store["b/zarr.json"] = number(2, ["y"], extensions=[carrier(keys("y", "int32"))])
    # A reader of this convention understands the object, whatever that says of other readers.
    understood = carrier(keys("y", "uint8"))
    del understood["must_understand"]
    store["c/zarr.json"] = number(3, ["y"], nczarr=understood)
    # One key here, another there.
    one, other = keys("x", "float32").items()
    store["d/zarr.json"] = number(4, ["x"], nczarr=carrier(dict([one])), extensions=[carrier(dict([other]))])
    for name in "abcd":
        store[f"{name}/c/0"] = bytes([1, 2])
    return store, (
        "netcdf carriers {\ndimensions:\n\tx = 2 ;\n\ty = 2 ;\nvariables:\n\tbyte a(x) ;\n\t\ta:n = 1s ;\n"
        "\tbyte b(y) ;\n\t\tb:n = 2 ;\n\tbyte c(y) ;\n\t\tc:n = 3UB ;\n\tbyte d(x) ;\n\t\td:n = 4.f ;\n"
        "data:\n a = 1, 2 ;\n b = 1, 2 ;\n c = 1, 2 ;\n d = 1, 2 ;\n\n"
        "group: g {\n  dimensions:\n  \town = 1 ;\n  } // group g\n\n"
        "group: h {\n  dimensions:\n  \tof_object = 3 ;\n  } // group h\n\n"
        "group: i {\n  dimensions:\n  \tof_list = 5 ;\n  } // group i\n}\n"
    )


def listing() -> tuple[Store, str]:
    """Nodes that no record lists have the order of their code points, whatever the consolidated metadata say."""

    def scalar() -> dict[str, Any]:
        return array("int8", [], [], -127, {}, storage="contiguous")

    names = ["b", "\U0001f30a", "\uff41", "a"]
    store = identified({
        "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {}},  # its keys are gone
        "g/zarr.json": group(arrays=["v"]),
        **{f"{path}/zarr.json": scalar() for path in (*names, "g/v", "g/u", "g/t")},
    })  # fmt: skip
    kept = {k: store[f"{k}/zarr.json"] for k in (*names, "g", "g/v", "g/u", "g/t")}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": kept}
    store["zarr.json"]["consolidated_metadata"] = consolidated
    for path in (*names, "g/v", "g/u", "g/t"):
        store[f"{path}/c"] = bytes([7])
    return store, (
        "netcdf listing {\nvariables:\n\tbyte a ;\n\tbyte b ;\n\tbyte \uff41 ;\n\tbyte \U0001f30a ;\n"
        "data:\n a = 7 ;\n b = 7 ;\n \uff41 = 7 ;\n \U0001f30a = 7 ;\n\ngroup: g {\n  variables:\n"
        "  \tbyte v ;\n  \tbyte t ;\n  \tbyte u ;\n  data:\n   v = 7 ;\n   t = 7 ;\n   u = 7 ;\n  } // group g\n}\n"
    )


def conflicts() -> tuple[Store, str]:
    """Fixed dimensions along which arrays differ: which length stays, and what the others are called."""
    dimensions = {"x": 4, "y": 9, "y_2": 7, "z": 8, "z_1": 1}
    store: Store = {
        "zarr.json": root(dimensions=dimensions, arrays=["a", "b", "y", "d", "e", "f"], groups=["g"])
    }

    def add(path: str, length: int, name: str) -> None:
        store[f"{path}/zarr.json"] = array("int8", [length], [name], -127, dimension_references=[f"/{name}"])
        store[f"{path}/c/0"] = bytes(range(length))

    # The recorded size, if an array has it; the name belongs to the group of the array.
    add("a", 4, "x")
    add("b", 5, "x")
    store["g/zarr.json"] = group(arrays=["c"])
    add("g/c", 5, "x")
    # Else the coordinate variable; y_2 is another dimension.
    add("y", 3, "y")
    add("d", 2, "y")
    # Else the longest; z_1 is what an earlier change gave the array.
    add("e", 1, "z")
    add("f", 6, "z")
    return store, (
        "netcdf conflicts {\ndimensions:\n\tx = 4 ;\n\ty = 3 ;\n\ty_2 = 7 ;\n\tz = 6 ;\n\tz_1 = 1 ;\n\tx_5 = 5 ;\n"
        "\ty_2_2 = 2 ;\nvariables:\n\tbyte a(x) ;\n\tbyte b(x_5) ;\n\tbyte y(y) ;\n\tbyte d(y_2_2) ;\n\tbyte e(z_1) ;\n"
        "\tbyte f(z) ;\ndata:\n a = 0, 1, 2, 3 ;\n b = 0, 1, 2, 3, 4 ;\n y = 0, 1, 2 ;\n d = 0, 1 ;\n e = 0 ;\n"
        " f = 0, 1, 2, 3, 4, 5 ;\n\ngroup: g {\n  dimensions:\n  \tx_5 = 5 ;\n  variables:\n  \tbyte c(x_5) ;\n"
        "  data:\n   c = 0, 1, 2, 3, 4 ;\n  } // group g\n}\n"
    )


def recovery() -> tuple[Store, str]:
    """What other programs leave in one dataset, and what it is taken for."""
    unlimited = {"dimension_references": ["/t"], "unlimited": ["/t"]}
    store: Store = {
        "zarr.json": root(
            {"bare": math.nan}, dimensions={"t": 2, "x": 2}, arrays=["v", "w", "s", "n"], groups=["kept"]
        ),
        # A name that is taken: the node name stands for it.
        "v/zarr.json": array("int8", [2], ["x"], -127, dimension_references=["/x"]),
        "w/zarr.json": array("int8", [2], ["x"], -127, name="v", dimension_references=["/x"]),
        # The record decides whether a declared dimension is unlimited, the array where none is declared.
        "s/zarr.json": array("int8", [2], ["t"], -127, **unlimited),
        "n/zarr.json": array(
            "int8", [3, 2], ["u", "anonymous_2"], -127, dimension_references=["/u", 5], unlimited=["/u"]
        ),
        # Without references, the labels count.
        "kept/zarr.json": group({"here": 1}, dimensions={"z": 1}, arrays=["l"]),
        "kept/l/zarr.json": array("int8", [2, 1, 3], ["x", "z", "q"], -127, type="int8"),
        # An array of another program, by its labels.
        "plain/zarr.json": array("float32", [2], ["x"], 0.0),
    }
    store = identified(store)
    # A group without keys, and a group that no record lists.
    store["lost/zarr.json"] = {"zarr_format": 3, "node_type": "group", "attributes": {"here": 1}}
    lost = {"lost/i/zarr.json": array(
        "int8", [2], ["k"], -127, dimension_references=["/lost/k"], type="/lost/flag",
        types={"/lost/flag": {"class": "enum", "base": "int8", "members": [["one", 1]]}},
    )}  # fmt: skip
    store.update(identified(lost))
    del store["plain/zarr.json"]["nczarr"]
    for path, length in (("v", 2), ("w", 2), ("s", 2)):
        store[f"{path}/c/0"] = bytes(range(length))
    store["n/c/0/0"] = bytes(range(6))
    store["kept/l/c/0/0/0"] = bytes(range(6))
    store["lost/i/c/0"] = bytes([1, 5])
    store["plain/c/0"] = numbers("float32", [1.5, 2.5])
    return store, (
        "netcdf recovery {\ndimensions:\n\tt = 2 ;\n\tx = 2 ;\n\tu = UNLIMITED ; // (3 currently)\nvariables:\n"
        "\tbyte v(x) ;\n\tbyte w(x) ;\n\tbyte s(t) ;\n\tbyte n(u, 2) ;\n\tfloat plain(x) ;\n\n// global attributes:\n"
        "\t\t:bare = NaN ;\ndata:\n v = 0, 1 ;\n w = 0, 1 ;\n s = 0, 1 ;\n n = 0, 1, 2, 3, 4, 5 ;\n"
        " plain = 1.5, 2.5 ;\n\n"
        "group: kept {\n  dimensions:\n  \tz = 1 ;\n  \tq = 3 ;\n  variables:\n  \tbyte l(x, z, q) ;\n\n"
        "  // group attributes:\n  \t\t:here = 1ll ;\n  data:\n   l = 0, 1, 2, 3, 4, 5 ;\n"
        "  } // group kept\n\n"
        "group: lost {\n  types:\n    byte enum flag {one = 1} ;\n  dimensions:\n  \tk = 2 ;\n  variables:\n"
        "  \tflag i(k) ;\n\n  // group attributes:\n  \t\t:here = 1ll ;\n  data:\n   i = one, 5 ;\n"
        "  } // group lost\n}\n"
    )


def other_programs() -> tuple[Store, str]:
    """Attributes as other programs write them."""
    plain = {
        "beyond": 2**64,
        "all_beyond": [2**64, 1],
        "beyond_and_real": [2**64, 0.5],
        "words": ["NaN", 1, "-Infinity"],
        "beyond_and_word": [2**53 + 1, "NaN"],
        "flags": [True, False],
        "nothing": None,
        "deep": {"a": [1, None, "\u00e9"]},
        "mixed": ["a", 1],
        "whole": 7.0,
        "rounded": 0.1,
        "lost": [None, 1.0],
    }
    attr = {"types": {"whole": "int16", "rounded": "float32", "lost": "float64"}, "order": list(plain)}
    return {"zarr.json": root(plain, attr=attr)}, (
        'netcdf other_programs {\n\n// global attributes:\n\t\t:beyond = "18446744073709551616" ;\n'
        '\t\t:all_beyond = "[18446744073709551616,1]" ;\n\t\t:beyond_and_real = 1.8446744073709552e+19, 0.5 ;\n'
        '\t\t:words = NaN, 1., -Infinity ;\n\t\t:beyond_and_word = "[9007199254740993,\\"NaN\\"]" ;\n'
        '\t\t:flags = 1b, 0b ;\n\t\t:nothing = "null" ;\n\t\t:deep = "{\\"a\\":[1,null,\\"\u00e9\\"]}" ;\n'
        '\t\t:mixed = "[\\"a\\",1]" ;\n\t\t:whole = 7s ;\n\t\t:rounded = 0.1f ;\n\t\t:lost = NaN, 1. ;\n}\n'
    )


def no_values() -> tuple[Store, str]:
    """Attributes without values, which HDF5 has and CDL has not."""
    plain = {"empty": [], "numbers": [], "text": "", "texts": []}
    attr = {"types": {"empty": "char", "numbers": "int16", "texts": "string"}}
    return {"zarr.json": root(plain, attr=attr)}, (
        "netcdf no_values {\n\n// global attributes:\n\t\tchar :empty =  ;\n\t\tshort :numbers =  ;\n"
        "\t\tchar :text =  ;\n\t\tstring :texts =  ;\n}\n"
    )


def node_names() -> tuple[Store, str]:
    """Node names that no name gives, and a group of a cut name without its keys."""
    listed = ["_nc-a.", "_nc-.FF", "_nc-.0A", "_nc-.20x", "_nc-a.2Fb"]
    scalar = array("int8", [], [], -127, {}, storage="contiguous")
    long_name = "g" * 256
    node = "_nc-" + long_name
    cut = node[: 255 - 66 - 8] + ".." + hashlib.sha256(f"{node}\0{long_name}".encode()).hexdigest()
    record = {"_nczarr_group": {"name": long_name, "dimensions": [{"name": "x", "size": 2}]}}
    first = {**scalar, "nczarr": json.loads(json.dumps(scalar["nczarr"]))}
    first["nczarr"]["configuration"]["_nczarr_copy"] = json.dumps({f"/{long_name}": record})
    store = identified({
        "zarr.json": root(arrays=listed, groups=[cut]),
        **{f"{n}/zarr.json": first if n == listed[0] else json.loads(json.dumps(scalar)) for n in listed},
    })  # fmt: skip
    store[f"{cut}/zarr.json"] = group()
    for name in listed:
        store[f"{name}/c"] = bytes([7])
    return store, (
        "netcdf node_names {\nvariables:\n\tbyte _nc-a. ;\n\tbyte _nc-.FF ;\n\tbyte _nc-.0A ;\n\tbyte \\ x ;\n"
        "\tbyte a\\/b ;\ndata:\n"
        f" _nc-a. = 7 ;\n _nc-.FF = 7 ;\n _nc-.0A = 7 ;\n \\ x = 7 ;\n a\\/b = 7 ;\n\n"
        f"group: {long_name} {{\n  dimensions:\n"
        f"  \tx = 2 ;\n  }} // group {long_name}\n}}\n"
    )


def nzug() -> tuple[Store, str]:
    """The agreement with NZUG-1.0: texts are annotated, and `conventions` of the root is no attribute."""
    plain = {"conventions": "NZUG-1.0 CF-1.12", "title": "t"}
    attr = {
        "types": {"conventions": "char", "title": "char"},
        "exact": {"conventions": "CF-1.12"},
        "order": ["title", "conventions"],
    }
    store = identified(
        {"zarr.json": root(plain, attr=attr, groups=["g"]), "g/zarr.json": group({"conventions": "own"})}
    )
    store["zarr.json"]["attributes"]["_nczarr_superblock"]["nzug"] = True
    return store, (
        'netcdf nzug {\n\n// global attributes:\n\t\t:title = "t" ;\n\t\t:conventions = "CF-1.12" ;\n\n'
        'group: g {\n\n  // group attributes:\n  \t\t:conventions = "own" ;\n  } // group g\n}\n'
    )


def order_twice() -> tuple[Store, str]:
    """A name that `order` has twice has its first place."""
    plain = {"a": 1, "b": 2, "c": 3}
    return {"zarr.json": root(plain, attr={"order": ["c", "a", "b", "c"]})}, (
        "netcdf order_twice {\n\n// global attributes:\n\t\t:c = 3ll ;\n\t\t:a = 1ll ;\n\t\t:b = 2ll ;\n}\n"
    )


def not_utf8() -> tuple[Store, str]:
    """Text that is not UTF-8: one U+FFFD for each maximal subpart, as the Unicode standard recommends."""
    raw = {
        "cut_of_3": b"\xe2\x82a",
        "cut_of_4": b"\xf0\x9f\x92",
        "surrogate": b"\xed\xa0\x80",
        "overlong": b"\xc0\xafb",
        "nul": b"a\0\xff",
    }
    shown = {
        "cut_of_3": "\ufffda",
        "cut_of_4": "\ufffd",
        "surrogate": "\ufffd\ufffd\ufffd",
        "overlong": "\ufffd\ufffdb",
        "nul": "a\ufffd",
    }
    attr = {"exact": {name: {"base64": b64(data)} for name, data in raw.items()}, "order": list(raw)}
    lines = [
        f'\t\t:{name} = "' + "".join(f"\\{b:03o}" if b > 127 or b == 0 else chr(b) for b in data) + '" ;\n'
        for name, data in raw.items()
    ]
    return {"zarr.json": root(shown, attr=attr)}, (
        "netcdf not_utf8 {\n\n// global attributes:\n" + "".join(lines) + "}\n"
    )


def nz() -> tuple[Store, str]:
    """The agreement with NZ-1.0: it is declared in every node, and its readers find the types of numbers."""
    declared = [{"uuid": "d0a980b5-c644-4dcc-85a1-283799a58f40", "name": "NZ-1.0"}]
    plain = {"conventions": "NZ-1.0 CF-1.12", "title": "t", "half": 0.5, "zarr_conventions": declared}
    attr = {
        "types": {"conventions": "char", "half": "float32"},
        "exact": {"conventions": "CF-1.12"},
        "order": ["title", "conventions", "half"],
    }
    scale = {"scale_factor": 0.01, "zarr_conventions": declared}
    numbers_of = {"types": {"scale_factor": "float32"}}
    scale["scale_factor"] = struct.unpack("<f", struct.pack("<f", 0.01))[0]
    numbers_only = {"types": {"half": "float32"}}
    record = {"_nczarr_attr": attr}
    store = identified(
        {
            "zarr.json": root(plain, attr=numbers_only, arrays=["v"], groups=["g"], **record),
            "v/zarr.json": array("int16", [], [], -32767, scale, attr=numbers_of),
            "g/zarr.json": group({"conventions": "NZ-1.0", "zarr_conventions": declared, "own": 1}),
        }
    )
    store["v/zarr.json"]["attributes"]["_nczarr_attr"] = numbers_of
    store["zarr.json"]["attributes"]["_nczarr_superblock"]["nz"] = True
    store["v/c"] = numbers("int16", [7])
    return store, (
        "netcdf nz {\nvariables:\n\tshort v ;\n\t\tv:scale_factor = 0.01f ;\n\n// global attributes:\n"
        '\t\t:title = "t" ;\n\t\t:conventions = "CF-1.12" ;\n\t\t:half = 0.5f ;\ndata:\n v = 7 ;\n\n'
        "group: g {\n\n  // group attributes:\n  \t\t:own = 1ll ;\n  } // group g\n}\n"
    )


VECTORS = (
    empty, atomic, text, attributes, fill_values, default_fills, groups, names, slashes, cut_names, labels, user_types,
    packed, storage, copies, appended, version_3_0, version_3_1, copies_3_1, copied_in, copied_group, group_alone,
    carriers, listing, conflicts, recovery, other_programs, no_values, node_names, nzug,
    order_twice, not_utf8, nz,
)  # fmt: skip
#: The codes that are found in vectors that other programs have worked on.
WORKED_ON = {
    "copies": ["keys-removed"],
    "appended": ["length-differs", "size-stale"],
    "version_3_0": ["version-old"],
    "version_3_1": ["version-old"],
    "copies_3_1": ["keys-removed"],
    "copied_in": ["keys-removed", "node-foreign", "node-unlisted"],
    "copied_group": ["node-foreign", "node-unlisted"],
    "listing": ["node-unlisted", "record-lost"],
    "conflicts": ["size-conflict"],
    "recovery": [
        "bare-nan", "dimension-unlisted", "name-taken", "node-unlisted", "record-lost", "references-missing",
        "size-stale", "unlimited-wrong",
    ],
    "node_names": ["keys-removed", "name-missing"],
    "carriers": ["object-damaged"],
    "order_twice": ["order-duplicate"],
}  # fmt: skip
#: Vectors that are written as they are: of old versions, and those that hold more than one dataset.
AS_THEY_ARE = {
    "version_3_0", "version_3_1", "copies_3_1", "copied_in", "copied_group", "group_alone", "carriers", "listing",
    "recovery", "node_names", "nzug", "nz",
}  # fmt: skip


def invalid() -> dict[str, tuple[Store, list[str]]]:
    """Stores that each break one constraint, and the codes that a validating reader has to print."""

    def good() -> Store:
        types = {"flag": {"class": "enum", "base": "int8", "members": [["one", 1]]}}
        return {
            "zarr.json": root(
                {"n": 1}, dimensions={"x": 2}, types=types, arrays=["v", "e"], attr={"types": {"n": "int16"}}
            ),
            "v/zarr.json": array("int32", [2], ["x"], INT, {"units": "K"}, dimension_references=["/x"]),
            "e/zarr.json": array("int8", [2], ["x"], -127, dimension_references=["/x"], type="/flag"),
        }  # fmt: skip

    def info(store: Store, node: str = "v") -> dict[str, Any]:
        found: dict[str, Any] = store[f"{node}/zarr.json"]["nczarr"]["configuration"]["_nczarr_array"]
        return found

    def record_of(store: Store) -> dict[str, Any]:
        found: dict[str, Any] = store["zarr.json"]["attributes"]["_nczarr_group"]
        return found

    cases: dict[str, tuple[Store, list[str]]] = {}

    def case(name: str, *codes: str) -> Store:
        cases[name] = (identified(good()), list(codes))
        return cases[name][0]

    del case("version_missing", "version-missing")["zarr.json"]["attributes"]["_nczarr_superblock"]["version"]
    del info(case("references_missing", "references-missing"))["dimension_references"]
    info(case("references_no_list", "key-unreadable"))["dimension_references"] = "/x"
    info(case("references_too_many", "rank-mismatch"))["dimension_references"] = ["/x", "/x"]
    info(case("reference_nowhere", "reference-moved"))["dimension_references"] = ["/gone/x"]
    store = case("dimension_undeclared", "dimension-unlisted")
    info(store)["dimension_references"] = ["/y"]
    store["v/zarr.json"]["dimension_names"] = ["y"]
    store = case("dimension_unreachable", "dimension-unreachable")
    record_of(store)["groups"] = ["g"]
    store["g/zarr.json"] = group(fqn="/g", dataset=IDENTITY, dimensions={"y": 2})
    info(store)["dimension_references"] = ["/g/y"]
    store["v/zarr.json"]["dimension_names"] = ["y"]
    info(case("type_nowhere", "type-missing"))["type"] = "/nowhere"
    info(case("type_not_held", "type-mismatch"))["type"] = "float64"
    info(case("storage_unknown", "storage-damaged"))["storage"] = "tape"
    case("fill_value", "fill-value")["v/zarr.json"]["fill_value"] = 0
    case("fill_value_of_enum", "fill-value")["e/zarr.json"]["fill_value"] = 0
    case("labels", "labels")["v/zarr.json"]["dimension_names"] = ["y"]
    store = case("labels_of_another", "labels")  # the label of the second dimension is another dimension
    record_of(store)["dimensions"].append({"name": "y", "size": 2})
    info(store)["dimension_references"] = ["/x", "/x"]
    store["v/zarr.json"].update(shape=[2, 2], dimension_names=["x", "y"])
    store["v/zarr.json"]["chunk_grid"]["configuration"]["chunk_shape"] = [2, 2]
    case("labels_missing", "labels")["v/zarr.json"]["dimension_names"] = [None]
    store = case("sizes", "size-conflict")
    store["v/zarr.json"]["shape"] = [3]
    store = case("size_recorded", "size-stale")
    for node in ("v", "e"):
        store[f"{node}/zarr.json"]["shape"] = [3]
    record_of(case("enum_empty", "enum-empty"))["types"][0]["members"] = []
    record_of(case("enum_duplicate", "enum-duplicate"))["types"][0]["members"] = [["one", 1], ["one", 2]]
    record_of(case("enum_of_float", "type-damaged", "type-missing"))["types"][0]["base"] = "float32"
    record_of(case("type_of_itself", "type-damaged"))["types"].append(
        {"name": "loop", "class": "vlen", "base": "/loop"}
    )
    store = case("type_forward", "type-forward")
    record_of(store)["types"].append({"name": "later", "class": "vlen", "base": "/g/flag"})
    record_of(store)["groups"] = ["g"]
    flag = {"name": "flag", "class": "enum", "base": "int8", "members": [["one", 1]]}
    store["g/zarr.json"] = group(fqn="/g", dataset=IDENTITY, types={"flag": flag})
    record_of(case("node_missing", "node-missing"))["arrays"] = ["v", "e", "gone"]
    record_of(case("node_unlisted", "node-unlisted"))["arrays"] = ["v"]
    record_of(case("record_damaged", "record-damaged"))["dimensions"].append({"size": 3})
    info(case("name_taken", "name-taken"), "e")["name"] = "v"
    info(case("name_illegal", "key-unreadable"), "e")["name"] = "a\tb"
    info(case("name_long", "name-long"), "e")["name"] = "e" * 257
    attr = case("order_twice", "order-duplicate")["zarr.json"]["attributes"]["_nczarr_attr"]
    attr["order"] = ["n", "n"]
    case("annotation", "annotation-stale")["zarr.json"]["attributes"]["n"] = 70000
    case("bare_nan", "bare-nan")["v/zarr.json"]["attributes"]["limit"] = math.nan
    case("object", "key-unreadable")["v/zarr.json"]["nczarr"]["configuration"]["_nczarr_array"] = 7
    case("extension_unknown", "left-out")["e/zarr.json"]["com.example.stretched"] = {"name": "stretched"}
    store = case("record_lost", "record-lost")
    store["zarr.json"]["attributes"] = {}
    info(store, "e")["types"] = [{"name": "/flag", "class": "enum", "base": "int8", "members": [["one", 1]]}]
    # Two datasets of one array each: nothing tells whose the root was.
    store = case("copy_unclear", "copy-unclear", "record-lost")
    store.clear()
    store["zarr.json"] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    for name, identity in (("v", IDENTITY), ("w", OTHER)):
        record = {"dimensions": [{"name": name, "size": 2}], "arrays": [name]}
        copy = {"/": {"_nczarr_superblock": {"version": VERSION}, "_nczarr_group": record}}
        node = array("int8", [2], [name], -127, copy=copy, dimension_references=[f"/{name}"])
        store.update(identified({f"{name}/zarr.json": node}, identity))
    # netCDF-C's draft for Zarr v3 has the same keys, with other members.
    store = case("draft_of_netcdf_c", "metadata")
    store.clear()
    block = {"_nczarr_superblock": {"version": "3.0.0", "format": 3}}
    dimension = {"name": "t", "size": 2, "unlimited": 1}
    record = {"dimensions": [dimension], "arrays": ["v"], "subgroups": []}
    store["zarr.json"] = group({**block, "_nczarr_group": record})
    store["v/zarr.json"] = array("uint8", [2], ["t"], 0)
    store["v/zarr.json"]["attributes"] = {
        "_nczarr_array": {"dimension_references": ["/t"], "type_alias": "char"}
    }
    later = case("draft_of_netcdf_c_later", "metadata")
    later.clear()
    later.update(deepcopy(store))
    later["zarr.json"]["attributes"]["_nczarr_superblock"]["version"] = "3.1.0"

    # The members with which nodes say what they are.
    def object_of(store: Store, node: str = "v") -> dict[str, Any]:
        found: dict[str, Any] = store[f"{node}/zarr.json"]["nczarr"]
        return found

    def with_group(store: Store, **members: Any) -> Store:
        record_of(store)["groups"] = ["g"]
        store["g/zarr.json"] = group(**{"fqn": "/g", "dataset": IDENTITY, **members})
        return store

    def superblock_of(store: Store) -> dict[str, Any]:
        found: dict[str, Any] = store["zarr.json"]["attributes"]["_nczarr_superblock"]
        return found

    def dataset_of(store: Store, node: str, **record: Any) -> None:
        """Add a scalar array with an object of its own."""
        record_of(store)["arrays"].append(node)
        store.update(identified({f"{node}/zarr.json": array("int8", [], [], -127, **record)}))

    del superblock_of(case("convention_missing", "convention-missing"))["convention"]
    superblock_of(case("convention_of_another", "convention-missing"))["convention"] = OTHER
    del superblock_of(case("dataset_missing", "dataset-missing"))["dataset"]
    del object_of(case("dataset_missing_of_array", "dataset-missing"))["configuration"]["dataset"]
    store = with_group(case("dataset_missing_of_group", "dataset-missing"))
    del store["g/zarr.json"]["attributes"]["_nczarr_group"]["dataset"]
    store = with_group(case("fqn_missing", "fqn-wrong"))
    del store["g/zarr.json"]["attributes"]["_nczarr_group"]["fqn"]
    with_group(case("fqn_of_another", "fqn-wrong"), fqn="/h")
    del case("object_missing", "object-missing")["v/zarr.json"]["nczarr"]
    del object_of(case("object_without_name", "object-damaged"))["name"]
    object_of(case("object_required", "object-damaged"))["must_understand"] = True
    del object_of(case("object_unmarked", "object-damaged"))["must_understand"]
    del object_of(case("object_without_version", "object-damaged"))["configuration"]["version"]
    dataset_of(case("name_missing", "name-missing"), "_nc-a.20b")
    dataset_of(case("node_name", "node-name"), ".nczvar")
    record_of(case("name_not_nfc", "name-not-nfc"))["dimensions"].append({"name": "e\u0301", "size": 1})
    del record_of(case("size_missing", "size-missing"))["dimensions"][0]["size"]
    record_of(case("size_missing_unlimited", "size-missing"))["dimensions"].append(
        {"name": "t", "unlimited": True}
    )
    store = case("unlimited_missing", "unlimited-wrong")
    record_of(store)["dimensions"][0]["unlimited"] = True
    info(store, "e")["unlimited"] = ["/x"]
    info(case("unlimited_of_fixed", "unlimited-wrong"))["unlimited"] = ["/x"]
    store = case("type_implied_by_none", "type-missing")
    store["v/zarr.json"].update(data_type="bytes", fill_value="", codecs=BYTES)
    attributes = case("annotation_too_large", "annotation-stale")["zarr.json"]["attributes"]
    attributes["n"] = 1e300
    attributes["_nczarr_attr"]["types"]["n"] = "float32"
    superblock_of(case("source_unnamed", "record-damaged"))["sources"] = [{"size": 1}]
    superblock_of(case("source_twice", "record-damaged"))["sources"] = [{"name": "a.nc"}, {"name": "a.nc"}]
    store = case("consolidated", "consolidated-stale")
    store["zarr.json"]["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": {}}
    type_ = {"name": "/other", "class": "enum", "base": "int8", "members": [["one", 1]]}
    info(case("type_unlisted", "type-unlisted"))["types"] = [type_]
    store = case("keys_removed", "keys-removed")
    attributes = store["zarr.json"]["attributes"]
    del attributes["n"], attributes["_nczarr_attr"]
    copied = {key: attributes[key] for key in ("_nczarr_superblock", "_nczarr_group")}
    object_of(store)["configuration"]["_nczarr_copy"] = json.dumps({"/": copied}, separators=(",", ":"))
    attributes.clear()
    store = case("lengths", "length-differs")
    record_of(store)["dimensions"][0]["unlimited"] = True
    for node in ("v", "e"):
        info(store, node)["unlimited"] = ["/x"]
    store["e/zarr.json"]["shape"] = [1]
    object_of(case("array_of_another", "node-foreign"))["configuration"]["dataset"] = OTHER
    store = case("keys_of_an_old_place", "version-old")
    for node in ("v", "e"):
        store[f"{node}/zarr.json"]["attributes"]["_nczarr_array"] = info(store, node)
        del store[f"{node}/zarr.json"]["nczarr"]
    store = case("version_4", "metadata")
    store["zarr.json"]["attributes"]["_nczarr_superblock"]["version"] = "4.0.0"
    return cases


def main(folder: Path) -> None:
    """Write all vectors below a folder."""
    for make in VECTORS:
        store, cdl = make()
        if make.__name__ not in AS_THEY_ARE:
            store = identified(store)
        _write(folder / f"{make.__name__}.zarr", store)
        (folder / f"{make.__name__}.cdl").write_text(cdl, encoding="utf-8")
        if make is group_alone:
            continue  # a part of a dataset is read, and not checked
        codes = WORKED_ON.get(make.__name__, [])
        (folder / f"{make.__name__}.findings").write_text("".join(f"{c}\n" for c in codes), encoding="utf-8")
    for name, (store, codes) in invalid().items():
        _write(folder / "invalid" / f"{name}.zarr", store)
        (folder / "invalid" / f"{name}.findings").write_text(
            "".join(f"{c}\n" for c in codes), encoding="utf-8"
        )


def write_json(folder: Path) -> None:
    """Write the canonical JSON of each vector, from its CDL: what a reader of the store has to give."""
    from nczarr import cdl
    from nczarr.convert.verify.check import canonical

    for path in folder.glob("*.cdl"):
        text = json.dumps(canonical(cdl.load(path)), indent=1, ensure_ascii=False, allow_nan=False)
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def _write(folder: Path, store: Store) -> None:
    for key, value in store.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, bytes):
            path.write_bytes(value)
        else:
            path.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    main(target)
    write_json(target)
