"""Read NCZarr on Zarr v3 with zarr-python, and print the canonical JSON: ``python minimal_reader.py STORE ...``.

It reads the core, and nothing that another program has changed; the first line of a function names its section.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
import struct
import sys
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.buffer.cpu import NDBuffer

Json = Any
#: The name of a primitive type, or the declaration of a user-defined one.
Type = Any
_NAMES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64"
NUMBERS = {name: np.dtype(name).newbyteorder("<") for name in _NAMES.split()}
#: Variables: the data types that hold a type or class of types, besides that of its numbers.
FORMS = "char/null_terminated_bytes char/uint8 string/bytes vlen/bytes opaque/uint8 opaque/bytes int8/bool "
FORMS += (
    "compound/uint8 compound/bytes compound/struct compound/complex64 compound/complex128 float32/float16"
)
DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
KEYS = {f"_nczarr_{key}" for key in ("superblock", "group", "array", "attr", "copy")} | {"zarr_conventions"}
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Refused(ValueError):
    """The store, or a part of it, is beyond a minimal reader."""


class Elements(NDBuffer):
    """A buffer of zarr-python that keeps the zero bytes at the end of a scalar, and tells none from one."""

    def __getitem__(self, key: Any) -> Elements:
        return type(self)(np.asarray(self.as_numpy_array()[key], self.dtype))


# --- Terms and Node names


def join_fqn(names: list[str]) -> str:
    """Terms: the FQN of names."""
    return "".join("/" + re.sub(r"([/\\ ])", r"\\\1", name) for name in names) or "/"


def name_of(node: str, info: dict[str, Json]) -> str:
    """Node names: the name that a key contains, or the node name with its escapes reversed."""
    illegal = r"|.*[\x00-\x1f\x7f].*|.* "
    if "name" in info:
        if re.fullmatch(illegal, info["name"], re.S):
            raise Refused(f"the name {info['name']!r} is not legal")
        return str(info["name"])
    if not re.fullmatch(r"_nc-(?:[A-Za-z0-9_-]|[^\x00-\x7f]|\.[0-9A-F]{2})+", node):
        return node
    raw = re.sub(rb"\.([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), node[4:].encode())
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return node
    return node if re.fullmatch(illegal, name, re.S) else name


# --- Types and Values in JSON


class Types:
    """Types: the declarations of all groups by FQN."""

    def __init__(self) -> None:
        self.declared: dict[str, dict[str, Json]] = {}

    def find(self, name: str) -> Type:
        """Return the name of a primitive type, or a declaration."""
        if name not in NUMBERS and name not in ("char", "string") and name not in self.declared:
            raise Refused(f"the type {name!r} is not declared")
        return self.declared.get(name, name)

    def base(self, type_: Type) -> Type:
        """Return the number type of an enum, and any other type as it is."""
        return self.find(type_["base"]) if isinstance(type_, dict) and type_["class"] == "enum" else type_

    def size(self, type_: Type) -> int:
        """Return the number of bytes of the packed form of a type; a KeyError if it varies."""
        type_ = self.base(type_)
        if isinstance(type_, str):
            return 1 if type_ == "char" else NUMBERS[type_].itemsize
        if type_["class"] != "compound":
            return int(type_["size"])
        return sum(self.size(self.find(f["type"])) * math.prod(f.get("shape", ())) for f in type_["fields"])

    def walk(self, type_: Type) -> None:
        """Types: refuse a type that is not declared, or contains itself (a RecursionError)."""
        if isinstance(type_, dict):
            for name in [type_["base"]] if "base" in type_ else [f["type"] for f in type_.get("fields", [])]:
                self.walk(self.find(name))

    def unpack(self, raw: io.BytesIO, type_: Type) -> Json:
        """Variables (the packed form): read the JSON of one value."""
        type_ = self.base(type_)
        if type_ == "char":
            return text_to_json(raw.read(1))
        if type_ == "string" or (isinstance(type_, dict) and type_["class"] == "vlen"):
            (count,) = struct.unpack("<I", raw.read(4))
            return self.sequence(raw, "char" if type_ == "string" else self.find(type_["base"]), count)
        if isinstance(type_, str):
            return number_to_json(np.frombuffer(raw.read(NUMBERS[type_].itemsize), NUMBERS[type_])[0])
        if type_["class"] == "opaque":
            return base64.b64encode(raw.read(type_["size"])).decode()
        fields = [(f["name"], self.find(f["type"]), f.get("shape", [])) for f in type_["fields"]]
        return {name: self.field(raw, type_, shape) for name, type_, shape in fields}

    def sequence(self, raw: io.BytesIO, base: Type, count: int | None) -> Json:
        """Read the JSON of a sequence; without a count it fills all bytes."""
        if base == "char":
            return text_to_json(raw.read(count))
        found: list[Json] = []
        while raw.tell() < len(raw.getbuffer()) if count is None else len(found) < count:
            found.append(self.unpack(raw, base))
        return found

    def field(self, raw: io.BytesIO, type_: Type, shape: list[int]) -> Json:
        if not shape:
            return self.unpack(raw, type_)
        if type_ == "char" and len(shape) == 1:
            return text_to_json(raw.read(shape[0]).rstrip(b"\0"))
        return [self.field(raw, type_, shape[1:]) for _ in range(shape[0])]

    def whole(self, raw: io.BytesIO, type_: Type) -> Json:
        """Read the JSON of a value that is a whole element."""
        if isinstance(type_, dict) and type_["class"] == "vlen":
            return self.sequence(raw, self.find(type_["base"]), None)
        return self.unpack(raw, type_)

    def plain(self, json_: Json, type_: Type) -> Json:
        """Values in JSON: a value that another program may have written."""
        base = self.base(type_)
        if isinstance(json_, bool):
            return int(json_)
        if str(base) in NUMBERS and not isinstance(json_, str):
            with np.errstate(over="raise"):  # what the type cannot represent is an ArithmeticError
                return "NaN" if json_ is None else number_to_json(NUMBERS[str(base)].type(json_))
        return json_


def number_to_json(value: Any) -> Json:
    """Values in JSON: one number."""
    if value.dtype.kind != "f":
        return int(value)
    if np.isnan(value):
        bits = int(np.asarray(value).view(f"u{value.dtype.itemsize}"))
        plain = {4: 0x7FC00000, 8: 0x7FF8000000000000}[value.dtype.itemsize]
        return "NaN" if bits == plain else f"0x{bits:0{2 * value.dtype.itemsize}x}"
    return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, float(value))


def text_to_json(raw: bytes) -> Json:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def canonical(value: Json) -> Json:
    """Canonical JSON: the only form of each number."""
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) <= 2**53:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else int(value)
    return str(value) if type(value) is int and abs(value) > 2**53 else value


# --- Attributes


def default_type(name: str, plain: Json, variable: Type, types: Types) -> Type:
    """Attributes, step 2: the type of a plain form without annotation; None if there is none."""
    if name == "_FillValue" and str(types.base(variable)) in NUMBERS:
        return variable
    if isinstance(plain, str):
        return "char"
    items = plain if isinstance(plain, list) else [plain]
    kinds = {type(i) for i in items}
    if kinds == {str}:
        return "string"
    if not kinds or kinds - {int, float}:
        return None
    if float in kinds:
        return "float64"
    ranges = {t: np.iinfo(t) for t in ("int64", "uint64")}
    return next((t for t, r in ranges.items() if r.min <= min(items) and max(items) <= r.max), None)


def attributes(plain: Json, info: Json, variable: Type, types: Types, hidden: set[str]) -> list[Json]:
    """Attributes: decode all of a node."""
    annotated, exact, order = info.get("types", {}), info.get("exact", {}), info.get("order", [])
    names = [n for n in plain if n not in hidden] + [n for n in exact if n not in plain or n in hidden]
    names.sort(key=lambda n: order.index(n) if n in order else len(order))
    found = []
    for name in names:
        json_ = plain.get(name)
        given = annotated.get(name)
        type_ = types.find(given) if given else default_type(name, json_, variable, types)
        if name in exact:
            values = raw_of(exact[name]).decode("latin-1") if type_ == "char" else exact[name]
        else:
            type_, values = decoded(name, json_, type_, variable, types)
        shown = type_ if isinstance(type_, str) else type_["fqn"]
        found.append({"name": name, "type": shown, "values": canonical(values)})
    return found


def raw_of(json_: Json) -> bytes:
    return base64.b64decode(json_["base64"]) if isinstance(json_, dict) else str(json_).encode()


def decoded(name: str, json_: Json, type_: Any, variable: Any, types: Types) -> tuple[Any, Json]:
    """Attributes, steps 4 to 6: the type and the values of a plain form."""
    items = json_ if isinstance(json_, list) else [json_]
    if type_ is None:
        real = [WORDS.get(i, i) if isinstance(i, str) else i for i in items]
        if real and {type(i) for i in real} == {bool}:
            return "int8", [int(i) for i in real]
        if real and all(type(i) is float or (type(i) is int and abs(i) <= 2**53) for i in real):
            return "float64", [number_to_json(np.float64(i)) for i in real]
        return "char", json.dumps(json_, ensure_ascii=False, separators=(",", ":")).encode().decode("latin-1")
    if name == "_FillValue" and types.base(variable) in ("float32", "float64"):
        double = np.frombuffer(base64.b64decode(json_), "<f8")
        return type_, [number_to_json(double.astype(NUMBERS[str(types.base(type_))])[0])]
    if type_ == "char":
        return type_, "".join(items).encode().decode("latin-1")
    if isinstance(type_, dict) and type_["class"] == "vlen":
        items = json_
    return type_, [types.plain(item, type_) for item in items]


# --- Carriers, Groups and dimensions, Variables


class Reader:
    """Carriers: the nodes of one dataset."""

    def __init__(self, store: str) -> None:
        self.store = store
        block = self.open_group("").attrs.get("_nczarr_superblock")
        if not isinstance(block, dict):
            raise Refused("the root has no superblock")
        version = str(block.get("version", "3"))
        if version.partition(".")[0] != "3" or version.startswith("3.0"):
            raise Refused(f"version {version} is not read")
        self.dataset = block.get("dataset")
        self.format, self.in_attributes = block.get("format"), block.get("arrays") == "attributes"
        self.hidden = KEYS | {"conventions"} if block.get("nz") or block.get("nzug") else KEYS
        self.below = KEYS | {"conventions"} if block.get("nz") else KEYS
        self.types = Types()
        self.dimensions: dict[str, dict[str, Json]] = {}
        self.lengths: dict[str, list[int]] = {}
        self.root = self.load("", [], set())

    def open_group(self, path: str) -> Any:
        return zarr.open_group(self.store, path=path, mode="r", use_consolidated=False)

    def load(self, path: str, above: list[str], reach: set[str]) -> dict[str, Json]:
        """Read the record of a group, its arrays, and all below it."""
        node = self.open_group(path)
        plain = dict(node.attrs)
        record = plain.get("_nczarr_group", {})
        if path and record.get("dataset") != self.dataset:
            raise Refused(f"the record of {path} is lost, or belongs to another dataset")
        names = [*above, name_of(path.rpartition("/")[2], record)] if path else []
        for declared in record.get("types", []):
            if declared["class"] == "enum" and "int" not in declared["base"]:
                raise Refused(f"the base of {declared['name']} is not an integer type")
            fqn = join_fqn([*names, declared["name"]])
            self.types.declared[fqn] = {**declared, "fqn": fqn}
        for dimension in record.get("dimensions", []):
            fqn = join_fqn([*names, dimension["name"]])
            self.dimensions[fqn] = {"size": 0, "unlimited": False, **dimension}
            reach = reach | {fqn}
        if node.nmembers() != len([*record.get("arrays", []), *record.get("groups", [])]):
            raise Refused(f"{path or '/'} has other nodes than those that it lists")
        prefix = f"{path}/" if path else ""
        arrays = [self.load_array(prefix + node, reach) for node in record.get("arrays", [])]
        groups = [self.load(prefix + node, names, reach) for node in record.get("groups", [])]
        found = {name_of(p.rpartition("/")[2], k.get("_nczarr_array", {})) for p, _, k in arrays}
        if len(found) < len(arrays) or len({g["names"][-1] for g in groups}) < len(groups):
            raise Refused(f"two nodes of {path or '/'} have one name")
        return {"names": names, "plain": plain, "record": record, "arrays": arrays, "groups": groups}

    def load_array(self, path: str, reach: set[str]) -> tuple[str, Any, dict[str, Json]]:
        array = zarr.open_array(self.store, path=path, mode="r")
        instead = dict(array.attrs) if self.in_attributes else {}
        keys = array.metadata.extra_fields.get("nczarr", {}).get("configuration", instead)
        if keys.get("dataset", self.dataset) != self.dataset:
            raise Refused(f"{path} belongs to another dataset")
        references = keys.get("_nczarr_array", {}).get("dimension_references", [])
        for reference, length in zip(references, array.shape, strict=False):
            if isinstance(reference, str):
                if reference not in reach:
                    raise Refused(f"no group above {path} declares {reference}")
                self.lengths.setdefault(reference, []).append(length)
        return path, array, keys

    def read(self) -> Json:
        """Canonical JSON: the whole dataset."""
        for declared in self.types.declared.values():
            self.types.walk(declared)
        for fqn, lengths in self.lengths.items():
            if len(set(lengths)) > 1 and not self.dimensions[fqn]["unlimited"]:
                raise Refused(f"arrays differ along {fqn}")
            self.dimensions[fqn]["size"] = max(lengths)
        return {**self.group(self.root), "format": self.format}

    def group(self, group: dict[str, Json]) -> Json:
        names, plain, record = group["names"], group["plain"], group["record"]
        hidden, info = self.below if names else self.hidden, plain.get("_nczarr_attr", {})
        return {
            "name": names[-1] if names else "",
            "types": canonical(record.get("types", [])),
            "dimensions": [
                self.dimensions[join_fqn([*names, d["name"]])] for d in record.get("dimensions", [])
            ],
            "attributes": attributes(plain, record.get("_nczarr_attr", info), None, self.types, hidden),
            "variables": [self.variable(*array) for array in group["arrays"]],
            "groups": [self.group(child) for child in group["groups"]],
        }

    def variable(self, path: str, array: Any, keys: dict[str, Json]) -> Json:
        """Variables: one array with its type, dimensions, attributes and values."""
        info = keys.get("_nczarr_array", {})
        stored = array.metadata.to_dict()["data_type"]
        stored = stored["name"] if isinstance(stored, dict) else stored.removeprefix("variable_length_")
        type_ = self.types.find(info.get("type", "char" if stored == "null_terminated_bytes" else stored))
        for declared in info.get("types", []):
            self.types.find(declared["name"])
        kind = type_ if isinstance(type_, str) else type_["class"]
        if stored != self.types.base(type_) and f"{kind}/{stored}" not in FORMS.split():
            raise Refused(f"{path} does not hold values of its type")
        in_bytes = isinstance(type_, dict) and type_["class"] in ("opaque", "compound") and stored == "uint8"
        references = info.get("dimension_references", [])
        if len(references) != array.ndim - in_bytes:
            raise Refused(f"{path} has {len(references)} references for {array.ndim - in_bytes} dimensions")
        shape = [self.dimensions[r]["size"] if isinstance(r, str) else r for r in references]
        own = attributes(dict(array.attrs), keys.get("_nczarr_attr", {}), type_, self.types, KEYS)
        return {
            "name": name_of(path.rpartition("/")[2], info),
            "type": type_ if isinstance(type_, str) else type_["fqn"],
            "dimensions": references,
            "shape": shape,
            "attributes": own,
            "values": canonical(self.values(array, type_, stored, shape, in_bytes)),
        }

    def values(self, array: Any, type_: Any, stored: str, shape: list[int], in_bytes: bool) -> Json:
        """Groups and dimensions: elements beyond the shape of an array have its fill value."""
        buffers = default_buffer_prototype()._replace(nd_buffer=Elements)
        read = np.asarray(array.get_basic_selection(prototype=buffers), array.dtype)
        whole = np.full([*shape, *array.shape[len(shape) :]], array.fill_value, read.dtype)
        whole[(*(slice(0, n) for n in array.shape), ...)] = read
        base = self.types.base(type_)
        if stored in ("bool", "float16"):
            whole = whole.astype(NUMBERS[base])
        if base == "char":
            return whole.tobytes().decode("latin-1")
        if stored == "string":
            return [str(value) for value in whole.reshape(-1)]
        if str(base) in NUMBERS:
            return [number_to_json(value) for value in whole.reshape(-1)]
        elements = whole.reshape(-1, self.types.size(type_)) if in_bytes else whole.reshape(-1)
        return [self.types.whole(io.BytesIO(element), type_) for element in elements]


if __name__ == "__main__":
    for place in sys.argv[1:]:
        try:
            print(json.dumps(Reader(place).read(), ensure_ascii=False, allow_nan=False))
        except DAMAGE as refusal:
            print(json.dumps({"error": str(refusal)}))
