"""The page's table of differences to ncgen: an example of each row goes to ncgen and to nczarr."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import random_texts

from nczarr.cdl import DumpOptions, dumps, loads
from nczarr.errors import CDLError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "model-grammar.md"
ENUM = "types: byte enum e {A = 1}; byte enum f {A = 2}; "
DEEP = "".join(f"group: g{i} {{ " for i in range(101)) + "}" * 101

#: By the start of a row: the text, a part of ncgen's result or "" for an error, and a part of nczarr's.
EXAMPLES: dict[str, list[tuple[str, str, str]]] = {
    "a reserved word as a name": [("variables: int string;", "", "int string ;")],
    "`a%b`": [("variables: int a%b;", "", r"int a\%b ;"), ("variables: int שלום;", "", "int שלום ;")],
    "`**/`": [("/* a **/ :a = 1;", "", ":a = 1 ;")],
    "2^63 to": [(":a = 9223372036854775808;", ":a = -9223372036854775808LL", ":a = 9223372036854775808ULL")],
    "`08`": [(":a = 08;", ":a = 0 ;", "begins with 0, so it is octal")],
    "a `u` after": [(":a = 1lu;", "", ":a = 1U ;"), (":a = 1su;", "", ":a = 1US ;")],
    "`0x1Fs`": [(":a = 0x1Fs;", ":a = 31U ;", ":a = 31s ;"), (":a = 0x1FLL;", ":a = 31U ;", ":a = 31LL ;")],
    "a hexadecimal size": [
        ("types: byte enum e {A = 0x1F};", "", "{A = 31}"),
        ("types: int enum e {A = 0xabcL};", "{A = 2748}", "{A = 2748}"),
        ("dimensions: x = 0x10;", "", "x = 16 ;"),
        ("dimensions: x = 3ULL;", "", "x = 3 ;"),
    ],
    "values for a dimension of size 0": [
        ("dimensions: d = 0; variables: int v(d); data: v = 1, 2;", "(0 currently)", "(2 currently)")
    ],
    '`time("2000-01-01")` for text': [
        ('variables: string s; data: s = time("2000-01-01");', "s = ", "for a number")
    ],
    "`_` inside": [("types: int(*) t; t :x = {1, _};", "", "t :x = {1, -2147483647} ;")],
    "storage of a member": [
        (
            "types: byte enum e {A = 1}; variables: int v; A:_DeflateLevel = 5;",
            "int v ;",
            "there is no variable 'A'",
        )
    ],
    r'`"\x41"`': [(r':a = "\x41";', "1", ':a = "A" ;')],
    r'`"\x4"`': [(r':a = "\x4";', ":a = ", "a hexadecimal escape needs two digits")],
    r"`'\0'`": [(r":a = '\7';", ":a = 55b ;", "an octal escape needs three digits")],
    "a negative byte": [
        (":a = -1b, 7s;", ":a = 255s, 7s ;", ":a = -1s, 7s ;"),
        (r"variables: short v; data: v = '\377';", "v = 255 ;", "v = 255 ;"),
        ("variables: short v; data: v = -1b;", "v = 255 ;", "v = -1 ;"),
    ],
    "`char v:_FillValue": [
        (
            "dimensions: x = 2; variables: char v(x); char v:_FillValue = 'q'; data: v = \"a\";",
            'v = "a" ;',
            'v = "aq" ;',
        )
    ],
    "a member that two": [(ENUM + "variables: f v; data: v = A;", "", "v = f.A ;")],
    "a member whose name": [
        ("types: byte enum e {Z.x = 1}; variables: e v; data: v = Z.x;", "", "v = e.Z.x ;")
    ],
    "several records whose": [
        (
            "types: compound c {byte a; uint64 b(2); byte d;}; dimensions: x = 3; variables: c v(x);"
            " data: v = {1, {2, 3}, 4}, {5, {6, 7}, 8}, {9, {10, 11}, 12};",
            "v = {1, {2, 3}, 4}, {0, ",
            "v = {1, {2, 3}, 4}, {5, {6, 7}, 8}, {9, {10, 11}, 12} ;",
        )
    ],
    "a plain integer for": [(ENUM + "variables: e v; data: v = 7;", "", "v = 7 ;")],
    "an attribute of another group": [
        ("variables: int v; group: g { variables: int u; /v:a = 1; }", "u:a = 1 ;", "v:a = 1 ;")
    ],
    "a quoted date": [
        (
            'variables: int t; t:units = "days since 2000-01-01"; data: t = "2000-01-11";',
            "t = 2000 ;",
            "t = 10 ;",
        )
    ],
    "NaN, or a float": [("variables: int v; data: v = NaN;", "v = ", "NaN has no value of the type int")],
    "the name of another enum": [
        ("types: byte enum e {A = 1}; variables: e v; data: v = zz.A;", "v = A ;", "has no member 'zz.A'")
    ],
    "a member or a size": [
        ("types: byte enum e {A = 300};", "{A = 44}", "300 is not a value of the type byte"),
        ("types: opaque(-1) o;", "opaque(-1)", "an opaque type has 1 to"),
    ],
    "more `_ChunkSizes`": [
        ("dimensions: x = 3; variables: int v(x); v:_ChunkSizes = 1, 2;", "x = 3", "2 chunk sizes for 1")
    ],
    "`_DeflateLevel`, `_NoFill`": [
        ("dimensions: x = 3; variables: string v(x); v:_DeflateLevel = 4;", "", "v:_DeflateLevel = 4 ;"),
        ('dimensions: x = 3; variables: string v(x); v:_NoFill = "true";', "", 'v:_NoFill = "true" ;'),
    ],
    "`_NoFill = ": [
        (
            "dimensions: y = 3; x = unlimited; variables: short v(x, y); v:_FillValue = 3s;"
            ' v:_NoFill = "true"; int w(x); data: w = 1, 2;',
            "-32767, -32767",
            "_, _, _",
        )
    ],
    "a special attribute": [('int :_NoFill = "false";', "netcdf a", "takes no type")],
    "`_Filter": [
        (
            'dimensions: x = 3; variables: int v(x); v:_Filter = "1,0x5";',
            "v:_DeflateLevel = 0 ;",
            "v:_DeflateLevel = 5 ;",
        ),
        (
            'dimensions: x = 3; variables: int v(x); v:_Filter = "1,5ub";',
            "v:_DeflateLevel = 5 ;",
            "v:_DeflateLevel = 5 ;",
        ),
    ],
    "`:a = time": [
        (':a = time("2000-01-01");', ":a = 262968. ;", "so a function cannot be its value"),
        ('double :a = time("2000-01-01");', ":a = 262968. ;", ":a = 262968. ;"),
    ],
    "an attribute that occurs": [(":a = 1; :a = 2;", ":a = 2 ;", ":a = 2 ;")],
    r"`\/` in": [(r":a\/b = 1;", "", r":a\/b = 1 ;")],
    "a blank at the end": [(r":a\ = 1;", "", r":a\  = 1 ;")],
    "a type and a variable": [
        ("types: byte enum e {A = 1}; variables: int e;", "", "int e ;"),
        ("types: byte enum e {A = 1}; opaque(3) A;", "", "opaque(3) A ;"),
        ("dimensions: x = 3; group: x { }", "", "group: x {"),
    ],
    "`type :a = ;`": [("int :a = ;", "", "int :a =  ;")],
    "`int v(3)`": [
        ("variables: int v(3);", "", "int v(3) ;"),
        ("variables: int v(3, 0, 3);", "", "int v(3, 0, 3) ;"),
    ],
    "a dimension of another group": [
        (
            "group: g { dimensions: x = 3; } group: h { variables: int v(/g/x); }",
            "int v(/g/x) ;",
            "out of reach",
        )
    ],
    "`x = FIXED(0)`": [("dimensions: x = FIXED(0); variables: int v(x);", "", "x = FIXED(0) ;")],
    "NIL inside": [
        ("types: compound c {string s;}; variables: c v; data: v = {NIL};", "", 'v = {""} ;'),
        ('types: char(*) t; variables: t v; data: v = {"ab"};', "", 'v = {"ab"} ;'),
    ],
    "groups, or types": [(DEEP, "group: g100 {", "more than 100 groups inside each other")],
    "too many numbers": [
        ("dimensions: x = 2; variables: int v(x); data: v = 1, 2, 3;", "v = 1, 2 ;", "v = 1, 2 ;")
    ],
    "`-0`": [("variables: double v; data: v = -0;", "v = 0 ;", "v = -0. ;")],
}


def rows() -> list[str]:
    table = PAGE.read_text("utf-8").split("## Where nczarr differs from ncgen")[1].split("\n## ")[0]
    return [line[2:] for line in table.splitlines() if line.startswith("| ")][1:]


def row_of(start: str) -> int:
    return next(n for n, row in enumerate(rows()) if row.startswith(start))


def test_each_row_has_an_example() -> None:
    assert {row_of(start) for start in random_texts.KNOWN} <= set(range(len(rows())))
    assert sorted(row_of(start) for start in EXAMPLES) == list(range(len(rows())))


def by_ncgen(text: str, folder: Path) -> str:
    """Return ncdump's print of the file that ncgen makes, empty if it makes none."""
    (folder / "a.cdl").write_text(text, "utf-8")
    done = subprocess.run(
        ["ncgen", "-4", "-o", "a.nc", "a.cdl"], cwd=folder, capture_output=True, check=False
    )
    if done.returncode:
        return ""
    shown = subprocess.run(["ncdump", "-s", "a.nc"], cwd=folder, capture_output=True, check=False)
    return shown.stdout.decode("utf-8", "replace")


@pytest.mark.filterwarnings("ignore::nczarr.cdl.syntax.source.CDLWarning")
@pytest.mark.skipif(shutil.which("ncgen") is None, reason="needs ncgen and ncdump")
@pytest.mark.parametrize("start", EXAMPLES)
def test_both_programs_do_as_the_page_says(start: str, tmp_path: Path) -> None:
    for inside, theirs, ours in EXAMPLES[start]:
        text = f"netcdf a {{ {inside} }}"
        found = by_ncgen(text, tmp_path)
        assert theirs in found if theirs else not found, (inside, found)
        try:
            shown = dumps(loads(text), DumpOptions(special=True))
        except CDLError as error:
            shown = str(error)
        assert ours in re.sub(r"\t+", "", shown), inside
