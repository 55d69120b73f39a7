"""Writes the test vectors of docs/spec/nczarr-v3.md: small stores, and the CDL that each of them stands for.

Written from the specification alone, with json, struct and base64, and without any part of nczarr, so that the
reader is held against something that is not the writer. Run it to write tests/data/vectors anew.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "vectors"
CONVENTION = {
    "uuid": "4058cf9a-85c0-4aeb-a3e4-72f486c51814",
    "name": "nczarr",
    "description": "The netCDF-4 data model on Zarr v3",
}
FORMATS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def group(attributes: dict[str, Any] | None = None, **info: Any) -> dict[str, Any]:
    own = {"_nczarr_group": info} if info else {}
    return {"zarr_format": 3, "node_type": "group", "attributes": {**(attributes or {}), **own}}


def root(attributes: dict[str, Any] | None = None, **info: Any) -> dict[str, Any]:
    document = group(attributes, **info)
    document["attributes"]["_nczarr_superblock"] = {"version": "3.0.0"}
    document["attributes"]["zarr_conventions"] = [CONVENTION]
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
    **info: Any,
) -> dict[str, Any]:
    if codecs is None:
        wide = isinstance(data_type, str) and data_type in FORMATS and not data_type.endswith("int8")
        wide = wide or (isinstance(data_type, dict) and data_type["name"] == "struct")
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}} if wide else {"name": "bytes"}]
    own = {"_nczarr_array": info} if info else {}
    return {
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
        "attributes": {**(attributes or {}), **own},
        "dimension_names": labels,
    }


def numbers(data_type: str, values: list[Any], order: str = "<") -> bytes:
    return struct.pack(f"{order}{len(values)}{FORMATS[data_type]}", *values)


def sequences(items: list[bytes]) -> bytes:
    """A chunk of vlen-utf8 or vlen-bytes."""
    return struct.pack("<I", len(items)) + b"".join(struct.pack("<I", len(i)) + i for i in items)


def char(length: int) -> dict[str, Any]:
    return {"name": "null_terminated_bytes", "configuration": {"length_bytes": length}}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"name": "struct", "configuration": {"fields": [{"name": n, "data_type": t} for n, t in fields]}}


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
        store[f"v_{name}/zarr.json"] = array(name, [3], ["x"], 0, dimension_references=["/x"])
        store[f"v_{name}/c/0"] = numbers(name, values)
        header.append(f"\t{cdl_name} v_{name}(x) ;")
        data.append(f" v_{name} = {', '.join(f'{v}{suffix}' for v in values)} ;")
    for name, cdl_name, suffix in (("float32", "float", "f"), ("float64", "double", "")):
        store[f"v_{name}/zarr.json"] = array(name, [3], ["x"], 0.0, dimension_references=["/x"])
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
        "c/zarr.json": array(char(1), [2, 4], ["n", "len"], "", dimension_references=["/n", "/len"]),
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
    return {"zarr.json": root({**plain, "_nczarr_attr": info})}, cdl


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
            {
                "_nczarr_attr": {
                    "types": {"_FillValue": "string"},
                    "exact": {"_FillValue": ["none"]},
                    "order": ["_FillValue"],
                }
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
        "zarr.json": root(
            dimensions={"t": {"size": 2, "unlimited": True}, "x": 2}, arrays=["t"], groups=["zz", "aa"]
        ),
        "t/zarr.json": array(
            "int32", [2], ["t"], 0, chunk=[1], dimension_references=["/t"], storage="chunked"
        ),
        "t/c/0": numbers("int32", [10]),
        "t/c/1": numbers("int32", [20]),
        "zz/zarr.json": group({"where": "zz"}, dimensions={"x": 3}, arrays=["own"], groups=["deep"]),
        "zz/own/zarr.json": array("int32", [3], ["x"], 0, dimension_references=["/zz/x"]),
        "zz/own/c/0": numbers("int32", [1, 2, 3]),
        "zz/deep/zarr.json": group(arrays=["both"]),
        "zz/deep/both/zarr.json": array("int32", [2, 3], ["t", "x"], 0, dimension_references=["/t", "/zz/x"]),
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
        "zarr.json": root(arrays=["_nc-__x", "_nc-zarr.2Ejson", "a b"], groups=["_nc-__x_1"]),
        "_nc-__x/zarr.json": array("int32", [], [], 0, name="__x"),
        "_nc-__x/c": numbers("int32", [1]),
        "_nc-zarr.2Ejson/zarr.json": array("int32", [], [], 0, name="zarr.json"),
        "_nc-zarr.2Ejson/c": numbers("int32", [2]),
        "a b/zarr.json": array("int32", [], [], 0),
        "a b/c": numbers("int32", [3]),
        # The name that is recorded counts, whatever the node is called.
        "_nc-__x_1/zarr.json": group(name="__x"),
    }
    return store, (
        "netcdf names {\nvariables:\n\tint __x ;\n\tint zarr.json ;\n\tint a\\ b ;\ndata:\n __x = 1 ;\n"
        " zarr.json = 2 ;\n a\\ b = 3 ;\n\ngroup: __x {\n  } // group __x\n}\n"
    )


def user_types() -> tuple[Store, str]:
    types = {
        "flag": {"class": "enum", "base": "uint8", "members": {"good": 0, "bad": 255}},
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
    note = {
        "state": 255,
        "rows": [[1, 2], []],
        "both": {"s": "t", "r": [3]},
        "_nczarr_attr": {"types": {"state": "/flag", "rows": "/row", "both": "/mixed"}},
    }
    store: Store = {
        "zarr.json": root(note, dimensions={"x": 2}, types=types, arrays=["e", "o", "v", "c", "m"]),
        "e/zarr.json": array("uint8", [2], ["x"], 0, **ref, type="/flag"),
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
        "m/zarr.json": array("bytes", [2], ["x"], b64(mixed(b"", [])), codecs=BYTES, **ref, type="/mixed"),
        "m/c/0": sequences([mixed(b"hi", [7]), mixed(b"", [])]),
    }
    return store, (
        "netcdf user_types {\ntypes:\n  ubyte enum flag {good = 0, bad = 255} ;\n  opaque(2) key ;\n"
        "  short(*) row ;\n  compound fixed {\n    char id(3) ;\n    short xy(2) ;\n    flag f ;\n  }; // fixed\n"
        "  compound mixed {\n    string s ;\n    row r ;\n  }; // mixed\ndimensions:\n\tx = 2 ;\nvariables:\n"
        "\tflag e(x) ;\n\tkey o(x) ;\n\trow v(x) ;\n\tfixed c(x) ;\n\tmixed m(x) ;\n\n// global attributes:\n"
        '\t\tflag :state = bad ;\n\t\trow :rows = {1, 2}, {} ;\n\t\tmixed :both = {"t", {3}} ;\ndata:\n'
        " e = good, bad ;\n o = 0X0102, 0XABCD ;\n v = {1, -2, 3}, {} ;\n"
        ' c = {{"abc"}, {1, 2}, good}, {{"z"}, {-1, -2}, bad} ;\n m = {"hi", {7}}, {"", {}} ;\n}\n'
    )


VECTORS = (empty, atomic, text, attributes, fill_values, groups, names, user_types)


def main(folder: Path) -> None:
    """Write all vectors below a folder."""
    for make in VECTORS:
        store, cdl = make()
        for key, value in store.items():
            path = folder / f"{make.__name__}.zarr" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(value, bytes):
                path.write_bytes(value)
            else:
                path.write_text(
                    json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8"
                )
        (folder / f"{make.__name__}.cdl").write_text(cdl, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
