"""Compare the ncdump style of CDL output with the installed ncdump, byte for byte."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from real_data import DATA, NETCDF_FILES

import nczarr
from nczarr import copy
from nczarr.cdl import DumpOptions, dump, dumps, loads
from nczarr.cli import main
from nczarr.model import Attribute, Dataset
from nczarr.netcdf import open_dataset

pytestmark = pytest.mark.skipif(
    not (shutil.which("ncdump") and shutil.which("ncgen")), reason="needs ncdump and ncgen"
)

_FLAGS: dict[str, dict[str, Any]] = {
    "": {},
    "-h": {"header_only": True},
    "-c": {"coordinates": True},
    "-s": {"special": True},
    "-h -s -F": {"special": True, "filters": True, "header_only": True},
    "-p 9,17": {"float_digits": 9, "double_digits": 17},
    "-p 4": {"float_digits": 4},
    "-n another": {"name": "another"},
    "-t": {"times": True},
    "-i": {"iso_times": True},
    "-l 40": {"line_length": 40},
    "-b c": {"brief": "c"},
    "-b f": {"brief": "f"},
    "-f c": {"full": "c"},
    "-f f": {"full": "f"},
    "-k": {"kind": True},
    "-x": {"ncml": True},
    "-x -h": {"ncml": True, "header_only": True},
}
_LARGE = 60_000
_FILES = [path.stem for path in NETCDF_FILES]


def _ncdump(path: Path, *flags: str) -> str | None:
    run = subprocess.run(["ncdump", *flags, str(path)], capture_output=True)
    return run.stdout.decode("utf-8", "surrogateescape") if run.returncode == 0 else None


@lru_cache(maxsize=1)
def _hidden(path: Path, changed: int) -> tuple[Attribute, ...]:
    """The attributes of a file that only the netCDF library returns."""
    text = _ncdump(path, "-h", "-s") or ""
    found = re.findall(r"^\t\t:(_NCProperties|_SuperblockVersion|_IsNetcdf4) = (.*) ;$", text, re.MULTILINE)
    return tuple(Attribute.of(n, v.strip('"') if v[0] == '"' else int(v)) for n, v in found)


def _print(dataset: Dataset, path: Path, **options: Any) -> str:
    file = io.StringIO()
    given = {
        "name": path.name.rpartition(".")[0],
        "location": str(path),
        "hidden": _hidden(path, path.stat().st_mtime_ns),
    } | options
    dump(dataset, file, DumpOptions(ncdump=True, **given))
    return file.getvalue()


def _same(dataset: Dataset, path: Path, flags: str) -> None:
    expected = _ncdump(path, *flags.split())
    if expected is None and ("-x" in flags or dataset.format == "cdf5"):
        return  # ncdump has NcML for the classic model only, and fails for -s of a CDF-5 file
    assert expected is not None
    got = _print(dataset, path, **_FLAGS[flags])
    if flags == "-f f":
        # ncdump reads outside of its array for the index of a scalar.
        expected = re.sub(r"(?<=  // )([^(\n]*)\((33|34)\)$", r"\1(1)", expected, flags=re.MULTILINE)
        got = re.sub(r"(?<=  // )([^(\n]*)\((33|34)\)$", r"\1(1)", got, flags=re.MULTILINE)
    assert got == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", _FILES)
def test_real_files(name: str) -> None:
    path = DATA / "netcdf" / f"{name}.nc"
    large = path.stat().st_size > _LARGE
    with open_dataset(path) as source:
        for flags in ["", "-h -s -F", "-c"] if large else _FLAGS:
            _same(source.dataset, path, flags)


def test_chosen_variables_and_groups(tmp_path: Path) -> None:
    path = _generate(tmp_path, _EVERYTHING)
    with open_dataset(path) as source:
        for flag, name, options in [
            ("-v", "f,d", {"variables": ("f", "d")}),
            ("-v", "/g/x", {"variables": ("/g/x",)}),
            ("-v", "x", {"variables": ("x",)}),
            ("-g", "g", {"groups": ("g",)}),
            ("-g", "/g/h", {"groups": ("/g/h",)}),
            ("-g", "/", {"groups": ("/",)}),
        ]:
            assert _print(source.dataset, path, **options) == _ncdump(path, flag, name)


def _generate(folder: Path, text: str, kind: str = "-4") -> Path:
    cdl, path = folder / "x.cdl", folder / "x.nc"
    cdl.write_text(text, encoding="utf-8")
    subprocess.run(["ncgen", kind, "-o", str(path), str(cdl)], check=True)
    return path


_EVERYTHING = r"""netcdf x {
types:
  ubyte enum sky {clear = 0, a\ few = 1, overcast = 8, unknown_because_nobody_looked = 255} ;
  opaque(5) raw ;
  int(*) ints ;
  float(*) floats ;
  compound point { float lat ; double lon(2) ; char tag(4) ; } ;
  compound record { point at ; sky seen(2) ; ints more ; string note ; raw bits ; int pad ; } ;
  record(*) records ;
dimensions:
  n = 3 ; m = 2 ; t = UNLIMITED ; u = UNLIMITED ; many = 40 ; \2x = 1 ; a\ b = 2 ;
variables:
  float f(n) ; f:_FillValue = -1.f ; f:odd = NaNf, -Infinityf, 1.5f ;
  double d(t, m) ; d:units = "days since 2000-01-01" ; d:bounds = "db" ; d:range = 1., 2., 3. ;
  double db(t, m) ;
  byte i1(n) ; ubyte u1(n) ; u1:_FillValue = 7UB ; short i2(n) ; ushort u2(n) ; int i4(many) ; uint u4(n) ;
  int64 i8(n) ; uint64 u8(n) ; char c(m, n) ; char c1(n) ; char c0 ; string s(n) ; string s0 ;
  int wide(m, many) ; int tall(many, m) ; int ragged(t, u) ; char letters(t, u) ; short three(m, u, n) ;
  sky e(n) ; sky e:_FillValue = unknown_because_nobody_looked ; raw o(m) ; ints v(n) ; floats vf(m) ;
  point p(m) ; record r ; records rs(m) ; sky filled(n) ; int scalar ; int \2x(\2x) ;
  int a+b\ c(a\ b) ; int fmt(n) ; fmt:C_format = "%05d" ; float ffmt(n) ; ffmt:C_format = "<%.2f>" ;
  int data(n) ; data :x = 1 ; int odd\(1\)(n) ;
  :text = "a\tb\n\"c\" \\ \'d\' \001 é" ; :none = "" ; string :names = "a\nb", "é", "" ; :n = 1b, -2b ;
  :big = 18446744073709551615ULL ; :f = 1.e-20f, 123456.7f ; point :pa = {1, {2, 3}, {"abcd"}} ;
  raw :ra = 0X0102030405, 0XFFFEFDFCFB ; sky :sa = a\ few, clear ; ints :va = {1, 2}, {}, {3} ;
data:
  f = 1, -1, 1e20 ; d = 1, 2.5, 3, 40000.123456 ; db = 0, 1, 2, _ ; i1 = -127, -128, 5 ; u1 = 7, 255, 0 ;
  i2 = -32767, 1, 2 ; u2 = 65535, 1, 2 ; u4 = 4294967295, 1, 2 ; i8 = -9223372036854775806, 1, -1 ;
  u8 = 18446744073709551614, 1, 18446744073709551615 ; c = "ab", "d\ne" ; c1 = "\000b\377" ; c0 = "\\" ;
  i4 = 1, 22, 333, 4444, 55555, 666666, 7777777, 88888888, 999999999, 1, 22, 333, 4444, 55555, 666666, 7777777 ;
  s = "one", "t\two\v", "" ; s0 = "drei" ; ragged = {1, 2}, {3} ; letters = {"ab"}, {"cd"} ;
  three = {1, 2, 3, 4, 5, 6}, {7} ;
  tall = 1, 2, 3, 4 ; e = clear, unknown_because_nobody_looked, overcast ; o = 0X0102030405, 0XAA ;
  v = {1, 2, 3}, {}, {-4} ; vf = {0.1, NaNf}, {1e10} ; scalar = 5 ; fmt = 1, -2, 33333333 ;
  r = {{1.5, {2, 3}, {"ab\000d"}}, {clear, overcast}, {1, 2}, "a\"b", 0X0102030405, 5} ;
  ffmt = 1, 2.555, NaNf ; data = 1, 2, 3 ;
group: g {
  dimensions: n = 4 ; k = 2 ;
  variables: int x(n) ; int y(/n, k) ; raw z ; :here = "g" ;
  data: x = 1, 2, 3, 4 ; y = 1, 2, 3, 4, 5, 6 ;
  group: h { types: opaque(2) raw ; variables: int x ; short long_enough_to_fold(many) ; raw w ; }
}
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("flags", [f for f in _FLAGS if "-x" not in f])
def test_everything_that_a_netcdf4_file_holds(tmp_path: Path, flags: str) -> None:
    path = _generate(tmp_path, _EVERYTHING)
    with open_dataset(path) as source:
        _same(source.dataset, path, flags)


def test_every_line_length_folds_the_same(tmp_path: Path) -> None:
    path = _generate(
        tmp_path,
        """netcdf x { types: ubyte enum sky { clear = 0, overcast = 8, unknown = 255 } ; byte enum one { alone = 1 } ;
        dimensions: n = 9 ; variables: int v(n) ; string s(n) ; v:numbers = 1, 22, 333, 4444, 55555 ;
        data: v = 1, 22, 333, 4444, 55555, 666666, 7777777, 88888888, 999999999 ; s = "a", "bc", "def" ; }""",
    )
    with open_dataset(path) as source:
        for length in range(12, 60):
            printed = _print(source.dataset, path, line_length=length)
            assert printed == _ncdump(path, "-l", str(length)), length


def test_types_of_one_form_go_by_the_first_name_as_in_the_netcdf_library(tmp_path: Path) -> None:
    text = """netcdf x {
      group: g { types: opaque(4) first ;
        group: h { types: opaque(4) second ; variables: first v ; second w ; } } }"""
    path = _generate(tmp_path, text)
    with open_dataset(path) as source:
        assert source.dataset.variable_at("/g/h/w").type.fqn == "/g/first"
        _same(source.dataset, path, "")


_CLASSIC = r"""netcdf x {
dimensions: t = UNLIMITED ; n = 3 ;
variables: float f(t, n) ; f:note = "one\ntwo\n" ; int i ; char c(t, n) ; short empty(n) ; double none(t) ;
  byte b(n) ; b:valid_range = -1b, 5b ;
  :title = "first\nsecond \"<&>\"" ; :number = 1.5, 2.e30 ; :f = 0.1f ; :i = -3 ;
data: f = 1, 2, 3, 4.25, _, NaNf ; i = _ ; c = "ab", "c\nd" ; b = 1, 2, 3 ;
}
"""


@pytest.mark.parametrize("kind", ["-3", "-6", "-5", "-7"])
def test_classic_kinds(tmp_path: Path, kind: str) -> None:
    path = _generate(tmp_path, _CLASSIC, kind)
    with open_dataset(path) as source:
        for flags in _FLAGS:
            _same(source.dataset, path, flags)


def test_empty_file(tmp_path: Path) -> None:
    for kind in ("-3", "-4"):
        path = _generate(tmp_path, "netcdf x { dimensions: t = UNLIMITED ; variables: int v(t) ; }", kind)
        with open_dataset(path) as source:
            for flags in ("", "-s", "-h"):
                _same(source.dataset, path, flags)


_NULLS = """netcdf x { dimensions: n = 3 ;
  variables: string v(n) ; string w(n) ; w:_FillValue = "q" ; string u(n) ; u:_FillValue = NIL ; string s ;
  string :a = "x", NIL, "" ;
  data: v = "a", NIL, "" ; w = "q", NIL, "" ; u = "", NIL ; s = NIL ; }"""


def test_null_pointers(tmp_path: Path) -> None:
    path = _generate(tmp_path, _NULLS)
    with open_dataset(path) as source:
        for flags in ("", "-c", "-f c"):
            _same(source.dataset, path, flags)
        assert "NIL" not in dumps(source.dataset)
        assert dumps(loads(_NULLS)) == dumps(source.dataset)
        copy(path, tmp_path / "x.zarr", verify=True)
        with nczarr.Dataset(tmp_path / "x.zarr") as ds:
            assert ds["v"][:].tolist() == ["a", "", ""]
    copy(tmp_path / "x.cdl", tmp_path / "again.nc", overwrite=True)
    expected = _ncdump(path, "-n", "x")
    assert expected is not None
    assert "NIL" in expected
    assert _ncdump(tmp_path / "again.nc", "-n", "x") == expected


_TIMES = [
    "days since 1-1-1",
    "hours since 1582-10-04 12:30",
    "months since 1999-11-30",
    "sec since 1970-01-01T06:00:00Z",
    # The zone has a T, which does not separate this date from its time.
    "days since 2000-01-01 12:00:00 UTC",
    "hours since 2000-01-01T18:30",
]
_CALENDARS = [
    "standard",
    "noleap",
    "360_day",
    "all_leap",
    "julian",
    "proleptic_gregorian",
    "Gregorian",
    "bad",
]


def test_dates(tmp_path: Path) -> None:
    variables, data = [], []
    for i, units in enumerate(_TIMES):
        for j, calendar in enumerate(_CALENDARS):
            name = f"v{i}_{j}"
            variables.append(
                f'double {name}(n) ; {name}:units = "{units}" ; {name}:calendar = "{calendar}" ;'
            )
            variables.append(f"{name}:valid_range = 0., 1. ; {name}:marks = 1, 2, 1000 ;")
            data.append(f"{name} = 0, 59.999999, 31.5, -1.25, 1e6, 0.1, _, 365.2425, -70000.123456 ;")
    head = f"netcdf x {{ dimensions: n = 9 ; variables: {' '.join(variables)}"
    path = _generate(tmp_path, f"{head} data: {' '.join(data)} }}")
    with open_dataset(path) as source:
        for flags in ("-t", "-i"):
            _same(source.dataset, path, flags)


def test_dates_of_bounds(tmp_path: Path) -> None:
    """ncdump remembers the last bounds variable only."""
    head = "netcdf x { dimensions: t = 1 ; n = 2 ; variables: "
    for name in "abc":
        head += f'double {name}(t) ; {name}:units = "days since 2000-01-01" ; {name}:bounds = "{name}b" ;'
        head += f"double {name}b(t, n) ; "
    path = _generate(tmp_path, f"{head} data: ab = 1, 2 ; bb = 1, 2 ; cb = 1, 2 ; }}")
    with open_dataset(path) as source:
        for flags in ("-t", "-i"):
            _same(source.dataset, path, flags)


@pytest.mark.parametrize("name", _FILES)
def test_the_command_line_knows_what_the_library_says_of_a_file(tmp_path: Path, name: str) -> None:
    path = DATA / "netcdf" / f"{name}.nc"
    out = tmp_path / "out.cdl"
    flags = ["-s"] if path.stat().st_size <= _LARGE else ["-h", "-s"]
    assert main(["dump", *flags, "--ncdump", str(path), "-o", str(out)]) == 0
    assert out.read_bytes().decode("utf-8", "surrogateescape") == _ncdump(path, *flags)
