"""Mutated CDL: reading it ends in a dataset or in a CDLError, never in anything else.

``PYTHONPATH=tests/helpers python tests/cdl/fuzz.py [count] [seed]`` runs it by hand; the tests run a
few thousand.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections import Counter

from real_data import CDL_CORPUS

from nczarr.cdl import loads
from nczarr.errors import CDLError

#: The insertions of mutations: every kind of token, and characters that break tokens.
FRAGMENTS = [
    "{", "}", "(", ")", ",", ";", ":", "=", "*", "_", "NIL", "NaN", "-Infinityf", "0x1F", "0xabcL", "017", "08", "1b",
    "300ub", "-1u", "1e400", "1.5f", "99999999999999999999", "1-2", "1..2", "+-", "'a'", "'", '"', '"abc"', '"\\1"',
    '"\\x"', "\\", "\\1a", "/", "/g/v", "//", "/*", "*/", "int", "string", "char", "byte", "enum", "opaque(3)",
    "opaque(99999999999)", "compound c {int a;}", "int(*)", "unlimited", "types:", "dimensions:", "variables:", "data:",
    "group: g {", "netcdf", "time(", 'time("2000-01-01")', "x", "v", "e.A", "a b", "é", "שלום", "\x00", "\t", "\r\n",
    "_FillValue", "_ChunkSizes", "_Storage", "_Filter", "_Format", "_DeflateLevel = 12", "x = 5000000000", "x = 0",
    "{1,{2},{}}", "{{{{", "}}}}", "= 1, 2, 3", ":a = 1 ;", "v:a = {1}, {2} ;", "float f(x) ;", "1, _, 3,", "-",
]  # fmt: skip

SEEDS = [
    """netcdf s {
types: byte enum e {A = 0, B = -1}; opaque(4) o; int(*) l; compound c { int a; float b(2); char s(3); e k; };
  compound d { c c(2); l v; string t; }; string(*) ls;
dimensions: x = 3; u = UNLIMITED; w = UNLIMITED; n = 4;
variables: int i(x); double d(u); char s(u, n); string t(x); e k(x); o p(x); l q(x); c r(u); d z; int m(u, w);
  float time(x); ls y(x); uint64 big(x);
  i:a = 1, 2s; i:_FillValue = 5; c i:rec = {1, {2, 3}, {"abc"}, A}; time:units = "days since 2000-01-01";
  d:_ChunkSizes = 3; d:_DeflateLevel = 5; d:_Shuffle = "true"; :g = "text", "\\n"; string :h = "a", "b";
data: i = 1, _, 017; d = 1, 2.5, NaN, -Infinity, 1e300, .5, 3.f; s = "ab", "c", 'd', "efgh"; t = "a", NIL, "c\\000d";
  k = A, e.B, /e.A; p = 0x01, 0xdeadbeef, 0X0; q = {1, 2}, {}, {3}; r = {1, {2, 3}, {"x"}, B}, {}, _;
  z = {{{1, {1, 2}, {"abc"}, A}, {2}}, {1, 2}, "str"}; m = {1, 2}, {3}, {4, 5, 6}; time = "2000-01-02", 1, 2;
  y = {"a", "b"}, {}, {NIL}; big = 18446744073709551615ull, 1, 2;
group: g { types: ubyte enum e {A = 1}; dimensions: x = 2; variables: e v(x), w(/x); data: v = A, A;
  group: h { variables: int v(x); v:a = 1; data: v = 1, 2; } v:b = 1; }
:last = 1.5;
}""",
]


def mutate(text: str, generator: random.Random) -> str:
    """One to five random changes."""
    for _ in range(generator.randint(1, 5)):
        at = generator.randrange(len(text) + 1)
        end = min(len(text), at + generator.choice([1, 1, 2, 5, 20, 100]))
        kind = generator.randrange(6)
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:at] + generator.choice(FRAGMENTS) + text[at:]
        elif kind == 2:
            text = text[:at] + generator.choice(FRAGMENTS) + text[end:]
        elif kind == 3:
            text = (
                text[:at]
                + chr(generator.choice([0, 7, 9, 10, 34, 39, 92, 123, 0xE9, 0x5D0, 0x1F30A]))
                + text[end:]
            )
        elif kind == 4:
            start = generator.randrange(len(text) + 1)
            text = text[:at] + text[start : start + generator.randint(1, 60)] + text[at:]
        else:
            text = text[:at] + text[at:end] * generator.choice([2, 3]) + text[end:]
    return text


def seeds() -> list[str]:
    """The texts to mutate: our own, and the small ones of the corpus."""
    corpus = CDL_CORPUS / "accepted"
    found = sorted(p for p in corpus.rglob("*") if p.is_file() and p.stat().st_size < 3000)
    return SEEDS * 20 + [p.read_bytes().decode("utf-8", "surrogateescape") for p in found]


def run(count: int, seed: int = 0) -> Counter[str]:
    """Read `count` mutated texts; count how reading ended. Anything but a dataset or a CDLError is raised."""
    generator = random.Random(seed)
    texts = seeds()
    ends: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            text = mutate(generator.choice(texts), generator)
            try:
                loads(text)
            except CDLError as error:
                assert str(error)
                ends["CDLError"] += 1
            except Exception:
                print(text)
                raise
            else:
                ends["dataset"] += 1
    return ends


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    start = time.perf_counter()
    print(dict(run(*(arguments or [100_000]))), f"{time.perf_counter() - start:.0f} s")
