"""Make random CDL texts, and judge nczarr's reading of them by ncgen and netCDF4-python."""

from __future__ import annotations

import math
import random
import re
import subprocess
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import netCDF4
import netcdf4_view

from nczarr import copy, netcdf
from nczarr.cdl import loads
from nczarr.errors import CDLError
from nczarr.model import Dataset, OpaqueType, compare

INTEGERS = {
    "byte": "b", "ubyte": "ub", "short": "s", "ushort": "us", "int": "l", "uint": "ul", "int64": "ll", "uint64": "ull",
}  # fmt: skip
PRIMITIVES = [*INTEGERS, "float", "double", "char", "string"]
#: Words of CDL that are no names for ncgen.
RESERVED = {
    *PRIMITIVES,
    *("real", "long", "integer", "ulong", "uinteger", "enum", "opaque", "compound", "struct", "structure"),
    *(
        "unlimited",
        "UNLIMITED",
        "NaN",
        "NIL",
        "Infinity",
        "data",
        "types",
        "dimensions",
        "variables",
        "group",
    ),
}
NAMES = [
    "a",
    "b_1",
    "Lat",
    r"a\ b",
    r"x\(y\)",
    "a.b",
    "a-b",
    "a+b@c",
    "é",
    "海面",
    r"\2m",
    "time",
    "_z",
    "data1",
    "v:".strip(":"),
]
ESCAPES = [
    "a",
    "bc",
    " ",
    r"\n",
    r"\t",
    r"\"",
    r"\\",
    r"\'",
    r"\101",
    "é",
    "//",
    "{}",
    ";",
    ", ",
    "x y",
    r"\q",
]


#: Tokens that a mistake may put into a text.
STRAY = [
    *(
        "NIL",
        "_",
        "NaN",
        "-Infinityf",
        "0x1F",
        "0xabcL",
        "017",
        "08",
        "1b",
        "300ub",
        "-1u",
        "1e400",
        "1.5f",
        "-0",
    ),
    *(
        "99999999999999999999",
        "9223372036854775808",
        "'a'",
        '"abc"',
        r'"\x4"',
        r"'\0'",
        "int",
        "string",
        "char",
    ),
    *(
        "time",
        'time("2000-01-01")',
        "unlimited",
        "data",
        "_FillValue",
        "_ChunkSizes",
        "{}",
        "{1, 2}",
        "{{1}}",
        "-",
    ),
]


#: By the start of a row of the page's table: how the reading ends, and a pattern of the reason or the text.
KNOWN: dict[str, list[tuple[str, str]]] = {
    "a reserved word as a name": [("only nczarr reads it", r"which has the names \[")],
    "`0x1Fs`": [("different", "0x[0-9a-fA-F]+[LUSBlus]")],
    "a hexadecimal size": [("only nczarr reads it", "unexpected OPAQUESTRING|Not a signed integer type")],
    "values for a dimension of size 0": [("different", "dimension: 0 unlimited")],
    '`time("2000-01-01")` for text': [("only ncgen reads it", r"expected time\(.* for a number")],
    "`_` inside": [("only nczarr reads it", "may not contain fill values")],
    "storage of a member": [("only ncgen reads it", "there is no variable .* and no such type")],
    "`type :a = ;`": [("only nczarr reads it", "Empty datalist")],
    "several records": [("different", r"attribute .*: [^|]*\), 0\)|\), 0\)\]")],
    "`-0` for a float": [("different", r"\[0\.\].*\[-0\.\]")],
    "2^63 to": [("different", "9223372036854775808")],
    "`08`": [("only ncgen reads it", "begins with 0, so it is octal")],
    r'`"\x4"`': [("only ncgen reads it", "a hexadecimal escape needs two digits")],
    r"`'\0'`": [("only ncgen reads it", "an octal escape needs three digits")],
    "NaN, or a float": [
        ("only ncgen reads it", "has no value of the type|is out of the range of|are no value of")
    ],
    "the name of another enum": [("only ncgen reads it", "has no member")],
    "a member or a size": [("only ncgen reads it", "is not a value of the type")],
    "more `_ChunkSizes`": [("only ncgen reads it", "chunk sizes for")],
    "`:a = time": [("only ncgen reads it", "so a function cannot be its value")],
    "a blank at the end": [
        ("only nczarr reads it", "Name contains illegal characters"),
        ("different", "attributes: .*"),
    ],
    "a plain integer for": [("only nczarr reads it", "not consistent with the expected type")],
    "a type and a variable": [("only nczarr reads it", "name in use|HDF error|duplicate type declaration")],
    "a special attribute": [("only ncgen reads it", "_[A-Z][A-Za-z0-9]+ (?:is|takes|has) ")],
}


def known(end: str, why: str) -> bool:
    """Return True if the page lists a difference."""
    return any(end == kind and re.search(pattern, why) for pairs in KNOWN.values() for kind, pattern in pairs)


class Text:
    """One random text: types, dimensions, variables, attributes and data of groups."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.types: dict[str, tuple[str, object]] = {}
        self.count = 0

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def fresh(self) -> str:
        self.count += 1
        return f"{self.pick(*NAMES)}{self.count}"

    def string(self) -> str:
        return '"' + "".join(self.random.choices(ESCAPES, k=self.random.randrange(1, 5))) + '"'

    def number(self, type_: str) -> str:
        if type_ in ("float", "double"):
            real = self.pick(
                "1.5", "-2.", ".25", "1e10", "-1.e-5", "0.1", "3", "NaN", "Infinity", "-Infinity"
            )
            return real + (self.pick("", "f") if "." in real else "")
        small = self.random.randrange(100)
        text = self.pick("0", str(small), f"0{small % 8}", str(small + 20), f"+{small}")
        if type_ in ("byte", "short", "int", "int64"):
            text = self.pick(text, f"-{small}")
        if text[0] == "-" and type_ == "byte":  # ncgen reads -1b as 255 for a wider type
            return text
        return text + self.pick("", "", INTEGERS[type_], INTEGERS[type_].upper()) * (
            text[:2] != f"0{small % 8}"
        )

    def value(self, type_: str) -> str:
        if type_ == "string":
            return self.pick("NIL", *[self.string()] * 8)
        if type_ == "char":
            return self.pick("'a'", '"b"', r"'\101'", r"'\n'")
        if type_ in PRIMITIVES:
            return self.number(type_)
        kind, inside = self.types[type_]
        if kind == "enum":
            return self.pick(*inside)  # type: ignore[misc]
        if kind == "opaque":
            return "0x" + "".join(self.random.choices("0123456789abcdefABCDEF", k=2 * inside))  # type: ignore[operator]
        if kind == "vlen":
            return "{" + self.several(inside, self.random.randrange(1, 4)) + "}"  # type: ignore[arg-type]
        parts = [self.value(t) if not n else "{" + self.several(t, n) + "}" for t, n in inside]  # type: ignore[attr-defined]
        return "{" + ", ".join(parts) + "}"

    def data(self, type_: str, sizes: Sequence[int], free: Sequence[bool]) -> str:
        """The values of a variable; those of an unlimited dimension that is not the first are in braces."""
        if not sizes:
            return self.value(type_)
        if True not in free[1:]:
            return self.several(type_, math.prod(sizes))
        parts = []
        for _ in range(sizes[0]):
            part = self.data(type_, sizes[1:], free[1:])
            parts.append(f"{{{part}}}" if free[1] else part)
        return ", ".join(parts)

    def several(self, type_: str, count: int) -> str:
        gap = self.pick(", ", ",", ",\n    ", " , ")
        return gap.join([self.value(type_) for _ in range(count)])

    def type_section(self) -> str:
        out = []
        for _ in range(self.random.randrange(4)):
            name = self.fresh()
            usable = [t for t in PRIMITIVES if t not in ("char", "string")]
            kind = self.pick("enum", "opaque", "vlen", "compound")
            base = self.pick(*usable)
            if kind == "enum":
                members = [
                    f"{self.pick('A', 'm_', 'Zx')}{self.count}{i}" for i in range(self.random.randrange(1, 5))
                ]
                base = self.pick(*INTEGERS)
                out.append(
                    f"{base} enum {name} {{{', '.join(f'{m} = {i}' for i, m in enumerate(members))}}};"
                )
                self.types[name] = ("enum", members)
            elif kind == "opaque":
                self.types[name] = (
                    "opaque",
                    self.count,
                )  # no two types are equal: the library mixes these up
                out.append(f"opaque({self.types[name][1]}) {name};")
            elif kind == "vlen":
                if ("vlen", base) in self.types.values():
                    continue
                self.types[name] = ("vlen", base)
                out.append(f"{base}(*) {name};")
            else:
                # Without padding between the fields, in which ncgen damages all records after the first.
                fields = [(base, self.random.choice([0, 0, 2])) for _ in range(self.random.randrange(1, 4))]
                declared = " ".join(
                    f"{t} f{self.count}{i}{f'({n})' if n else ''};" for i, (t, n) in enumerate(fields)
                )
                out.append(f"compound {name} {{ {declared} }};")
                self.types[name] = ("compound", fields)
        return "types: " + "\n  ".join(out) if out else ""

    def attribute(self, owner: str) -> str:
        name, type_ = self.fresh(), self.pick(*PRIMITIVES, *self.types)
        if type_ == "char":
            return f"{owner}:{name} = {self.string()};"
        typed = type_ in ("string", *self.types) or self.random.random() < 0.5
        count = self.random.randrange(1, 4)
        head = f"{type_} {owner}" if typed else owner
        return f"{head}:{name} = {self.several(type_, count)};"

    def special(self, type_: str, sizes: Sequence[int]) -> str:
        """An attribute that chooses the storage of a variable with dimensions."""
        level, words = self.random.randrange(10), self.pick("true", "false")
        chunks = f"_ChunkSizes = {', '.join(str(self.random.randrange(1, n + 1)) for n in sizes)}"
        options = [chunks, '_Storage = "chunked"']
        if type_ != "string":
            options += [f'_Shuffle = "{words}"', f'_Fletcher32 = "{words}"', f"_DeflateLevel = {level}"]
            options += ['_NoFill = "false"']
        if type_ not in (
            "byte",
            "ubyte",
            "char",
            "string",
        ):  # a byte has no order; netCDF4-python gives it one
            options += [f'_Endianness = "{self.pick("little", "big")}"', f'_Filter = "1,{level}"']
        return self.pick(*options)

    def characters(self, sizes: Sequence[int]) -> str:
        """The data of a variable of characters: one string for each row, which may be shorter."""
        if not sizes:
            return self.value("char")
        rows = ["".join(self.random.choices("abz ", k=sizes[-1])) for _ in range(math.prod(sizes[:-1]))]
        return ", ".join([f'"{row[: self.random.randrange(1, 1 + len(row))]}"' for row in rows])

    def body(self, depth: int, above: dict[str, int]) -> str:
        random_ = self.random
        out = [self.type_section()]
        own = {self.fresh(): random_.randrange(1, 4) for _ in range(random_.randrange(3))}
        free = self.fresh() if random_.random() < 0.5 else None
        if own or free:
            sizes = [f"{n} = {s};" for n, s in own.items()] + ([f"{free} = UNLIMITED;"] if free else [])
            out.append("dimensions: " + " ".join(sizes))
        visible = above | own
        variables, data = [], []
        for _ in range(random_.randrange(4)):
            name, type_ = self.fresh(), self.pick(*PRIMITIVES, *self.types)
            shape = random_.sample(sorted(visible), min(len(visible), random_.randrange(3)))
            sizes = [visible[n] for n in shape]
            if free and random_.random() < 0.4:
                at = random_.choice([0, 0, len(shape)])
                shape.insert(at, free)
                sizes.insert(at, 2)
            dimensions = f"({', '.join(shape)})" if shape else ""
            variables.append(f"{type_} {name}{dimensions};")
            variables += [self.attribute(name) for _ in range(random_.randrange(3))]
            if type_ in INTEGERS and random_.random() < 0.3:
                variables.append(f"{name}:_FillValue = {self.number(type_)};")
            if shape and type_ in PRIMITIVES:
                variables += [f"{name}:{self.special(type_, sizes)};" for _ in range(random_.randrange(3))]
            if random_.random() < 0.8 and not (type_ == "char" and free in shape):
                given = self.data(type_, sizes, [n == free for n in shape])
                data.append(f"{name} = {given if type_ != 'char' else self.characters(sizes)};")
        variables += [self.attribute("") for _ in range(random_.randrange(3))]
        out += ["variables: " + "\n  ".join(variables) if variables else ""]
        out += ["data: " + "\n  ".join(data) if data else ""]
        for _ in range(random_.randrange(3) if depth else 0):
            out.append(f"group: {self.fresh()} {{ {self.body(depth - 1, visible)} }}")
        return "\n".join(filter(None, out))


def make(seed: int) -> str:
    """Return the text of a seed."""
    return f"netcdf a {{\n{Text(seed).body(2, {})}\n}}\n"


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.+\\-]+|[{}(),;:=*]')


def slip(text: str, seed: int) -> str:
    """Return the text with one token exchanged for another of its kind, or now and then left out, or doubled."""
    chance = random.Random(seed)
    tokens = [t for t in _TOKEN.finditer(text) if t.start() > len("netcdf a {")]
    if len(tokens) < 2:
        return text
    structural = chance.random() < 0.2
    here = chance.choice([t for t in tokens if structural or t[0] not in "{}(),;:=*"])
    if structural:
        return text[: here.start()] + here[0] * chance.choice([0, 2]) + text[here.end() :]
    constant = here[0][0] in "\"0123456789+-.'"
    same = [t[0] for t in tokens if (t[0][0] in "\"0123456789+-.'") == constant and t[0] not in "{}(),;:=*"]
    new = chance.choice([*(STRAY * 3 if constant else ()), *same])
    return text[: here.start()] + new + text[here.end() :]


def names_in(dataset: Dataset) -> set[str]:
    """Return all names of a dataset."""
    found: set[str] = set()
    for _, group in dataset.walk():
        owners = [group, *group.variables]
        found.update(node.name for part in (group.types, group.dimensions, owners) for node in part)
        found.update(a.name for owner in owners for a in owner.attributes)
        for type_ in group.types:
            parts = getattr(type_, "members", None) or [(f.name,) for f in getattr(type_, "fields", ())]
            found.update(part[0] for part in parts)
    return found


def judge(text: str, folder: Path) -> tuple[str, str]:
    """Return how the reading of nczarr compares with that of ncgen, and an explanation."""
    (folder / "a.cdl").write_text(text, "utf-8", "surrogateescape")
    for name in ("a.nc", "b.nc"):
        (folder / name).unlink(missing_ok=True)
    done = subprocess.run(
        ["ncgen", "-4", "-o", "a.nc", "a.cdl"], cwd=folder, capture_output=True, check=False, timeout=60
    )
    refused = done.returncode != 0 or not (folder / "a.nc").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ours = loads(text)
        except CDLError as error:
            return ("both refuse it", "") if refused else ("only ncgen reads it", str(error))
        if refused:
            words = sorted(name for name in names_in(ours) if name in RESERVED or name.startswith("_"))
            why = done.stderr.decode("utf-8", "replace")
            return "only nczarr reads it", f"{why}, which has the names {words}" if words else why
        with netcdf.open_dataset(folder / "a.nc") as file:
            theirs = replace(file.dataset, name=ours.name, format=ours.format)
            found = [str(d) for d in compare(theirs, ours, nan_payloads=False, order=False)]
        if not found and not any(isinstance(t, OpaqueType) for t in ours.all_types.values()):
            # netCDF4-python crashes on opaque types.
            copy(ours, folder / "b.nc")
            with netCDF4.Dataset(folder / "a.nc") as a, netCDF4.Dataset(folder / "b.nc") as b:
                with suppress(KeyError):  # netCDF4-python reads no attributes of some types
                    found = list(netcdf4_view.differences(a, b))
    return ("different", found[0]) if found else ("equal", "")
