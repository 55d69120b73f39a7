"""Compare runs of suffixed numbers, words and records as single tokens with one token for each value."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

from nczarr.cdl import loads
from nczarr.cdl.read import analyzer, values
from nczarr.cdl.syntax import parser
from nczarr.cdl.syntax.runs import NeedsSlowPath
from nczarr.errors import CDLError
from nczarr.model import Dataset, compare

HEAD = """netcdf r {
types: byte enum e {A = 0, B = -1, NaN = 2, a.b = 3}; opaque(3) o; int(*) l; string(*) ls; double(*) ld; l(*) ll;
  compound c { int a; e k; float b(2); char s(3); string t; o p; l v; };
  compound d { c c(2); c x; ll y; uint64 n; };
dimensions: x = 12;
variables: TYPE v(x);
data: v = VALUES ;
}
"""


#: The runs that stay one token each in the slow reading.
RUNS = ("STRINGS", "STATEMENTS")


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
        return list(map(str, compare(plain, fast)))
    # The grammar alone says "expected …" of a number that a run reports as none.
    return [] if isinstance(fast, str) and isinstance(plain, str) else [plain, fast]


class Random:
    """Makes values of each type, some of them unusual or wrong."""

    def __init__(self, seed: int, odd: float = 0.01) -> None:
        self.random = random.Random(seed)
        self.odd = odd

    def number(self, suffixes: list[str], real_part: float = 0.3) -> str:
        whole = self.random.choice(
            ["0", "1", "-7", "300", "70000", "2147483648", "9223372036854775807", "+5"]
        )
        real = self.random.choice([".5", "1.", "-2.5e3", "1e400", "0.1", "-0.", "1e5", "12.5"])
        text = real if self.random.random() < real_part else whole
        return text + self.random.choice(suffixes)

    def value(self, type_: str) -> str:
        if self.random.random() < self.odd:
            return self.random.choice(
                ["_", "{}", "NIL", "017", "0x1F", "", "{1", "'a'", "NaN", "/* c */ 1", '"x"']
            )
        if type_ in ("l", "ls", "ld", "ll"):
            base = {"l": "int", "ls": "string", "ld": "double", "ll": "l"}[type_]
            return "{" + self.several(base, self.random.randrange(4)) + "}"
        if type_ == "c":
            parts = [self.value(t) for t in ("int", "e")]
            parts += [
                "{" + self.several("float", 2) + "}",
                self.random.choice(['{"abc"}', '{"a"}', '{"é"}'] * 60 + ['{"a","b"}']),
            ]
            parts += [self.value(t) for t in ("string", "o", "l")]
            return "{" + self.join(parts) + "}"
        if type_ == "d":
            return (
                "{"
                + self.join(
                    [
                        "{" + self.several("c", 2) + "}",
                        self.value("c"),
                        self.value("ll"),
                        self.number([""], 0.0),
                    ]
                )
                + "}"
            )
        if type_ == "e":
            return self.random.choice(
                ["A", "B", "NaN", "a.b", "e.A", "e.a.b"] * 60 + ["C", "f.A", "_UNDEFINED", "1"]
            )
        if type_ == "o":
            return self.random.choice(["0x01", "0XabcdeF", "0x123456789"])
        if type_ == "string":
            return self.random.choice(['"a, b"', '"}"', r'"\"\\"', '""', '"é"', r'"\x41"', r'"a\000b"'])
        return self.number([""], 0.0 if type_ == "int" else 0.3)

    def join(self, parts: list[str]) -> str:
        return self.random.choice([", ", ",", " ,\n  "]).join(parts)

    def several(self, type_: str, count: int) -> str:
        return self.join([self.value(type_) for _ in range(count)])


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["l", "ls", "ld", "ll", "c", "d", "e"])
def test_any_run_is_read_as_its_values_are(type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = 0
    real = values.read_run

    def counted(*arguments: object) -> np.ndarray:
        nonlocal fast
        found = real(*arguments)  # type: ignore[arg-type]
        fast += 1
        return found

    monkeypatch.setattr(values, "read_run", counted)
    accepted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(60):
            text = HEAD.replace("TYPE", type_).replace(
                "VALUES", Random(seed, 0.001 if type_ in "cd" else 0.01).several(type_, 12)
            )
            assert differences(text, monkeypatch) == [], text
            accepted += isinstance(outcome(text), Dataset)
    assert accepted > 10
    assert fast > 5


@pytest.mark.parametrize("type_", ["byte", "ushort", "int", "int64", "uint64", "float", "double", "string"])
def test_any_suffixes(type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = ["", "b", "UB", "s", "us", "L", "LL", "ll", "ull", "f", "d", "F"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(60):
            made = Random(seed)
            few = made.random.sample(suffixes, made.random.choice([1, 1, 1, 2]))
            text = HEAD.replace("TYPE", type_).replace(
                "VALUES", made.join([made.number(few) for _ in range(12)])
            )
            assert differences(text, monkeypatch) == [], text


def test_a_run_that_cannot_be_read_at_once_is_read_one_by_one() -> None:
    row = loads(HEAD.replace("TYPE", "l").replace("VALUES", "{1}")).types[2]
    with pytest.raises(NeedsSlowPath):
        values.read_run(row, "{1}, {_}")
    text = HEAD.replace("TYPE", "l").replace("VALUES", ", ".join(["{1, 2}"] * 11 + ["{3, x}"]))
    with pytest.raises(CDLError) as caught:
        loads(text)
    assert text.splitlines()[caught.value.line - 1][caught.value.column - 1] == "x"  # type: ignore[operator]


def test_records_that_all_omit_their_last_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD.replace("TYPE", "c").replace("VALUES", ", ".join(["{1, A}"] * 12))
    assert isinstance(outcome(text), Dataset)
    assert differences(text, monkeypatch) == []


@pytest.mark.parametrize("value", ["12", "foo", '"ab"', "0x", "0xabcdefghi", "0x1 0x2"])
def test_a_run_has_only_legal_opaque_values(value: str) -> None:
    head = HEAD.replace("int(*) l", "o(*) lo; int(*) l").replace("TYPE", "lo")
    with pytest.raises(CDLError):
        loads(head.replace("VALUES", ", ".join([f"{{{value}}}"] * 12)))
    legal = loads(head.replace("VALUES", ", ".join(["{0x0102, _}"] * 12))).variables[0].data
    assert legal is not None
    assert legal.read((slice(0, 1),))[0].tolist() == [b"\1\2\0", b"\0\0\0"]


def test_warnings_of_a_second_reading_come_once() -> None:
    text = HEAD.replace("TYPE", "l").replace("VALUES", ", ".join(["{1}"] * 12 + ["{_}"]))
    with pytest.warns(UserWarning, match="13 values for the 12 elements") as caught:
        loads(text)
    assert len(caught) == 1
