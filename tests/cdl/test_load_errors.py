"""Test the errors of CDL texts: place, line, caret, message, suggestions, all in one report."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pytest

from nczarr.cdl import load, loads
from nczarr.cdl.syntax.source import CDLWarning
from nczarr.errors import CDLError, NCZarrError


def error_of(text: str) -> CDLError:
    with pytest.raises(CDLError) as caught:
        loads(text, path="a.cdl")
    return caught.value


def body(text: str) -> str:
    return "netcdf a {\n" + text + "\n}\n"


def test_place_line_and_caret() -> None:
    error = error_of(body("dimensions: x = 3;\nvariables: int v(y);"))
    assert (error.line, error.column) == (3, 18)
    assert str(error).splitlines() == [
        "a.cdl:3:18: there is no dimension 'y'",
        "  variables: int v(y);",
        "                   ^",
    ]


def test_columns_count_characters_not_bytes() -> None:
    error = error_of(body('variables: int v; :a = "déjà vu"; v:b = °;'))
    assert error.column == 41
    assert error.source == 'variables: int v; :a = "déjà vu"; v:b = °;'


def test_all_problems_are_reported_together() -> None:
    error = error_of(
        body("dimensions: lat = 3;\nvariables: int v(lta); flot w; byte b; w2:a = 1;\ndata: q = 1; b = x;")
    )
    assert [p.message for p in error.problems] == [
        "there is no dimension 'lta'",
        "there is no type 'flot'",
        "there is no variable 'w2' in the group '/', and no such type",
        "there is no variable 'q' in the group '/'",
        "'x' is not a value of the type byte",
    ]
    assert [p.line for p in error.problems] == [3, 3, 3, 4, 4]
    assert str(error).count("^") == 5


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("dimensions: latitude = 3; variables: int v(lattitude);", "did you mean 'latitude'?"),
        ("variables: flaot v;", "did you mean 'float'?"),
        ("variables: int temp; data: tmp = 1;", "did you mean 'temp'?"),
        ("types: byte enum e {Red = 1}; variables: e v; data: v = red;", "did you mean 'Red'?"),
        ("variables: int v; data: v = 1f;", "a floating-point number needs a '.' or an exponent: 1.f"),
        ("variables: int v\n float w;", "is a ';' missing at the end of the line before?"),
        ("data: v = 1; dimensions: x = 3;", "the sections come in the order"),
        ("dimensions x = 3;", "is the ':' after 'dimensions' missing?"),
        ("dimensions: x = 3;\nvariables\nint v;", "is the ':' after 'variables' missing?"),
        (':a = time("2000-01-01");', "so a function cannot be its value; write the type"),
    ],
)
def test_hints(text: str, hint: str) -> None:
    assert hint in str(error_of(body(text)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dimensions: x = ;", "expected a size or 'unlimited', not ';'"),
        ("dimensions: x = 3; variables: int v(;", "expected a dimension name or a size, not ';'"),
        ("group: {}", "expected a group name, not '{'"),
        ("variables: int v; v: = 1;", "expected an attribute name, not '='"),
        ("variables: int v; data: v = 1,, 2;", "expected a value or '{', not ','"),
        ('variables: int v; v:a = "abc;', "the string has no end"),
        ("/* no end", "the comment has no end"),
        ("dimensions: x = 3; x = 4;", "the dimension 'x' is declared twice"),
        ("dimensions: x = -1;", "the size -1 of the dimension is negative"),
        ("variables: int v, v;", "the variable 'v' is declared twice"),
        ("types: opaque(0) o;", "an opaque type has 1 to"),
        ("types: compound c {int a(0);};", "has a dimension of size 0"),
        ("types: float enum e {A = 1};", "an enum needs an integer type, not float"),
        ('variables: int v; v:a = "x", 1;', "has both text and numbers"),
        ("variables: int v; v:a = {1};", "has no type, so a value in braces"),
        ("variables: int v; v:_FillValue = 1, 2;", "_FillValue takes one value"),
        (":_FillValue = 1;", "_FillValue is an attribute of variables only"),
        ('variables: int v; v:_Storage = "round";', '_Storage is "contiguous" or "compact" or "chunked"'),
        ("variables: int v; v:_DeflateLevel = 11;", "_DeflateLevel is one integer from 0 to 9"),
        ('variables: int v; v:_Filter = "-1,5";', "_Filter is"),
        ('variables: int v; v:_Filter = "32015,-2147483649";', "_Filter is"),
        ('variables: int v; v:_Filter = "1,-1";', "one level from 0 to 9"),
        (':_Format = "netCDF-9";', "there is no format 'netCDF-9'"),
        ("variables: int v; data: v = 1, 2;", "2 values for the 1 elements of 'v'"),
        ("variables: int v; data: v = ;", "the data of 'v' have no values"),
        ("variables: int v; data: v = 08;", "08 begins with 0, so it is octal"),
        ("variables: int v; data: v = -1u;", "-1u is out of the range of uint"),
        ("variables: int v; data: v = 18446744073709551616;", "is too large: no integer type holds it"),
        ("variables: int v; data: v = 3e9;", "3e9 is out of the range of int"),
        ("variables: int v; data: v = {1};", "expected a value of the type int, not '{'"),
        ("dimensions: x = 2; variables: int v(x); data: v = 1-2, 3;", "1-2 is not a number"),
        ("variables: char c; data: c = 'ab';", "a character constant is one byte; 'ab' has 2"),
        ('variables: char c; data: c = "ab";', "2 characters for the 1 elements of 'c'"),
        ("types: int(*) l; variables: l v; data: v = 1;", "a value of the vlen type 'l' stands in braces"),
        ("types: compound c {int a;}; variables: c v; data: v = {1, 2};", "2 values for the 1 fields"),
        ("types: opaque(2) o; variables: o v; data: v = 1;", "1 is not a value of the opaque type 'o'"),
        ("dimensions: x = 2; u = unlimited; variables: int v(x, u); data: v = 1, 2;", "stand in braces"),
        (r'variables: char c; c:a = "\1";', "an octal escape needs three digits"),
        (r'variables: int t; string t:units = "\1"; data: t = 1;', "an octal escape needs three digits"),
        (
            r'variables: string s; string s:_FillValue = "\1"; data: s = _;',
            "an octal escape needs three digits",
        ),
    ],
)
def test_messages(text: str, message: str) -> None:
    assert message in str(error_of(body(text)))


def test_text_that_is_no_cdl() -> None:
    assert "expected 'netcdf NAME {', not the end of the text" in str(error_of(""))
    assert "expected 'netcdf NAME {', not 'hello'" in str(error_of("hello"))
    assert "expected the end of the text, not 'x'" in str(error_of("netcdf a {} x"))


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.cdl"
    path.write_bytes('netcdf a { :t = "°"; }'.encode("utf-16"))
    with pytest.raises(CDLError, match="is it UTF-16 or UTF-32"):
        load(path)
    path.write_bytes(b"\xef\xbb\xbf" + 'netcdf a {\r\n :t = "°" ;\r\n}'.encode())
    assert load(path).attribute["t"].text == "°"
    path.write_bytes(b'netcdf a { :t = "\xe9"; }')
    assert load(path).attribute["t"].values.tobytes() == b"\xe9"


@pytest.mark.skipif(os.name == "nt", reason="devices and pipes of POSIX")
def test_text_comes_from_files_and_pipes_not_from_devices(tmp_path: Path) -> None:
    with pytest.raises(CDLError, match="this is a device, not a CDL file"):
        load("/dev/zero")
    pipe = tmp_path / "a.cdl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("netcdf a { :t = 3; }",))
    writer.start()
    assert load(pipe).attribute["t"].values.tolist() == [3]
    writer.join()


def test_half_a_surrogate_pair() -> None:
    error = error_of('netcdf a {\n :t = "\ud800"; }')
    assert (error.line, error.column) == (2, 8)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CDLError, match="cannot be read"):
        load(tmp_path / "none.cdl")


def test_a_very_long_line_is_cut() -> None:
    error = error_of(body("dimensions: x = 9000; variables: int v(x); data: v = " + "1, " * 5000 + "q;"))
    assert len(str(error)) < 500
    assert error.column is not None
    assert error.column > 15000


def test_too_many_problems_end_the_list() -> None:
    error = error_of(body("variables:" + "int v(x);" * 500))
    assert len(error.problems) == 100


def test_errors_cross_a_process_boundary() -> None:
    error = error_of(body("variables: int v(x), w(y);"))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("text", ["{" * 5000, "group: g {" * 5000 + "}" * 5000, "types: int(*) t0;"])
def test_deep_nesting_is_an_error_or_fine(text: str) -> None:
    deep = "".join(f"t{n}(*) t{n + 1};" for n in range(500)) if text.startswith("types") else ""
    if deep:
        assert "types inside each other" in str(error_of(body(text + deep)))
    elif text.startswith("group"):
        assert "groups inside each other" in str(error_of(body(text)))
    else:
        error_of(body("variables: int v; data: v = " + text + "}" * 5000 + ";"))


def test_sizes_beyond_any_memory() -> None:
    huge = body("dimensions: x = 1000000000000; variables: int v(x), w(x); data: v = 1, 2;")
    dataset = loads(huge)
    data = dataset.variables[0].data
    assert data is not None
    assert data.read((slice(0, 4),)).tolist() == [1, 2, -2147483647, -2147483647]
    error_of(body("types: compound c {double d(1000000000000);};"))
    error_of(body('dimensions: x = 100000; variables: char c(x, x); data: c = "a";'))


def test_a_member_out_of_range_is_one_problem_however_often_it_is_used() -> None:
    text = "netcdf d { types: byte enum t {a = 1127} ; variables: t v ; v:_FillValue = a ; t :b = a ; data: v = a ; }"
    with pytest.raises(CDLError, match="1127 is not a value of the type byte") as error:
        loads(text)
    assert "more" not in str(error.value)


def test_a_date_out_of_range() -> None:
    with pytest.raises(CDLError, match="262968 hours are no value of the type ubyte"):
        loads('netcdf d { variables: ubyte v ; data: v = time("2000-01-01") ; }')


def test_a_missing_brace_at_the_end() -> None:
    error = error_of("netcdf a {\nvariables: int v;\n // the end\n")
    assert (error.line, error.hint) == (3, "'}' is missing")
    assert "not the end of the text" in error.message


def test_an_empty_brace_has_a_place() -> None:
    error = error_of(body("variables: int v;\ndata: v = {};"))
    assert (error.line, error.column) == (3, 11)


def test_an_attribute_that_occurs_twice_is_a_warning_with_both_places() -> None:
    with pytest.warns(CDLWarning, match=r"a.cdl:3:3: the attribute 'a' of /v replaces the one in line 2"):
        dataset = loads("netcdf a { variables: int v;\nv:a = 1;\nv:a = 2; :a = 3; }", path="a.cdl")
    assert dataset.variables[0].attribute["a"].values.tolist() == [2]


def test_a_mark_of_utf8_is_no_column() -> None:
    error = error_of("\ufeffnetcdf a { int }")
    assert (error.line, error.column) == (1, 16)
    assert error_of("netcdf a { \ufeff }").column == 14


def test_the_depth_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "netcdf a { " + "".join(f"group: g{i} {{ " for i in range(200)) + "}" * 201
    monkeypatch.setenv("NCZARR_MAX_DEPTH", "200")
    assert len(loads(text).all_groups) == 201
    monkeypatch.setenv("NCZARR_MAX_DEPTH", "3000")
    with pytest.raises(NCZarrError, match="NCZARR_MAX_DEPTH must be at most 200, not 3000"):
        loads(text)
