"""Compare runs of statements and strings as single tokens with the grammar without runs, error for error."""

from __future__ import annotations

import importlib.util
import random
import warnings
from pathlib import Path

import pytest
from lark import Token
from rotation import examples

from nczarr.cdl import loads
from nczarr.cdl.read import analyzer
from nczarr.cdl.syntax import parser
from nczarr.cdl.syntax.source import SourceText
from nczarr.errors import CDLError
from nczarr.model import Dataset, compare

_SPEC = importlib.util.spec_from_file_location(
    "nczarr_tests_cdl_fuzz_runs", Path(__file__).parent / "fuzz.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
fuzz = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzz)

LINES = """netcdf lines {
types: byte enum e {A = 0}; int(*) l;
dimensions: x = 3; y = 2; float = 2; a_\u00e9 = 2;
variables:
  int v ; float w(x), z , q ( x , y ) ;
  string s(x) ; e k(x) ; l n ; double data ; double a.b-c+d@e(a_\u00e9) ;
  v : units = "m" , "n;" ; v:empty = "" ; v:n=1,2s , 3.f,-4.5e-3 ,1e5,0x1Fs,NaN,-Infinityf,Inff,010,9000000000 ;
  string v:texts = "a\\"b", "c" ; e v:member = A ; int v : typed = 1.9 ; v:quoted = "; : = // /* " ; v:_Fill = _ ;
  :title = "all" ; string :names = "a", "b" ; v:bytes = 1b, 'c' ; e:global = A ; long:x = 1 ; v:\\(odd\\) = 1 ;
  data:_Storage = "contiguous" ; w:_ChunkSizes = 2 ; v:_FillValue = 7 ; z:a = 1 , ; float r(float) ; int g(/x) ;
data:
  v = 1 ; s = "one", "two\\n" , "th\\101ree" ; k = A ; n = {1} ;
group: g { variables: int v ; v:a = 1 ; /v:late = 2 ; data: v = 3 ; }
:last = "x", "y" ;
}
"""


#: The runs that stay one token each in the slow reading.
RUNS = ("NUMBERS", "WORDS")


def outcome(text: str) -> Dataset | str:
    try:
        return loads(text)
    except CDLError as error:
        return str(error)


def differences(text: str, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    fast = outcome(text)
    with monkeypatch.context() as patch:
        patch.setattr(analyzer, "parse", lambda source: parser.parse(source, RUNS))
        plain = outcome(text)
    if isinstance(fast, Dataset) and isinstance(plain, Dataset):
        return list(compare(plain, fast))
    return [] if fast == plain else [plain, fast]


def test_most_lines_are_in_runs() -> None:
    file = parser.parse(SourceText('netcdf a { variables: int v; v:a = 1; v:b = "x"; /**/ v:c = 2; }'))
    kinds = [
        part.type if isinstance(part, Token) else type(part).__name__ for part in file.body.parts[0].parts
    ]
    assert kinds == ["STATEMENTS", "STATEMENTS"]


@pytest.mark.filterwarnings("ignore::nczarr.cdl.syntax.source.CDLWarning")
def test_every_kind_of_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for start, line in enumerate(LINES.splitlines()):
        # Each statement alone too, as each problem may hide others.
        text = "\n".join([*LINES.splitlines()[:start], line, "}"])
        assert differences(text, monkeypatch) == []
    for statement in LINES.split("variables:\n")[1].split("data:\n")[0].split(" ;"):
        head = "netcdf a { types: byte enum e {A = 0}; int(*) l; dimensions: x = 3; variables: int v; float w(x);"
        assert differences(f"{head} {statement} ; }}", monkeypatch) == [], statement


@pytest.mark.slow
def test_mutated_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(5)
    texts = [LINES, *fuzz.seeds()]
    accepted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(examples(1200)):
            text = fuzz.mutate(LINES if number % 3 == 0 else generator.choice(texts), generator)
            assert differences(text, monkeypatch) == [], text
            accepted += isinstance(outcome(text), Dataset)
    assert accepted > examples(1200) // 60


@pytest.mark.parametrize("texts", [["a"] * 60_000, ["\\"] * 3, ["é", "b\0c"], [""] * 2])
def test_runs_of_strings(texts: list[str]) -> None:
    quoted = ", ".join('"' + t.replace("\\", "\\\\") + '"' for t in texts)
    dataset = loads(
        f"netcdf a {{ dimensions: x = {len(texts)}; variables: string v(x); data: v = {quoted}; }}"
    )
    data = dataset.variable_at("/v").data
    assert data is not None
    assert data.read((slice(0, len(texts)),)).tolist() == [t.split("\0")[0] for t in texts]
