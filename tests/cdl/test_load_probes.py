"""Compare small texts with the verdict of ncgen and the output of ncdump, except for a list of differences."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from real_data import CDL_CORPUS

from nczarr.cdl import loads
from nczarr.errors import CDLError
from nczarr.model import Dataset, Group, compare

PROBES = CDL_CORPUS / "probes.jsonl"

pytestmark = pytest.mark.filterwarnings("ignore::nczarr.cdl.syntax.source.CDLWarning")

#: Texts that ncgen rejects and we read: numbers of probes by reason.
WE_ACCEPT: dict[str, set[int]] = {
    "reserved words are names where only a name can stand": {
        *range(27, 34), *range(38, 44), *range(46, 54), *range(57, 64), 251, 367, 587, 600,
    },
    "'types:' and its like are an attribute's owner where no section can begin": {66, 67, 69},
    r"'\?' in a name is '?'; ncgen makes DEL of it": {15},
    r"'\/' in a name is '/', as the specification's FQNs write it": {20, 498},
    "letters of Hebrew, Arabic and Syriac are letters; ncgen leaves out U+05C0 to U+07FF": {24},
    "'_' inside a compound is the field's default, in attributes too": {218, 219},
    "NIL is a string inside compounds and vlens too, where ncdump prints it": {230, 461},
    "two members of an enum may have one value; HDF5 cannot store that": {248},
    "any plain integer is a size": {271, 357},
    "a hexadecimal integer is a size, and the value of an enum's member": {242, 358},
    "'**/' ends a comment": {319},
    "a size in a variable's dimensions is an anonymous dimension of the model": {372},
    "char(*) is a type like any other; ncgen crashes": {460},
    "a number is a value of an enum: one without a member has no other form": {478},
    "the missing value of an enum is its first member": {476, 477, 494},
    "a member is looked up in the enum that is wanted": {489, 492, 493},
    "an attribute of another group's variable goes to that variable": {495},
    "a mistyped quantize attribute is a plain attribute": {529},
    "a reserved name of HDF5's files is a plain attribute of a group": {545},
    "records of text that is not full are counted by rows": {597},
}  # fmt: skip
#: Texts that ncgen accepts and we reject.
WE_REJECT: dict[str, set[int]] = {
    "08 is octal with an 8 in it; ncgen reads 0": {100},
    "'\\X4a' is more than one byte": {146},
    "NaN and floats beyond the range have no value of an integer type": {189, 395, 609, 610},
    "an enum's member that its type cannot hold": {244},
    "a dimension of a group that is not around the variable's is out of its reach": {485},
    "two characters for a single char; three values for a field of two": {471, 629},
}
#: Values that differ.
DIFFERENT: dict[str, set[int]] = {
    "ncdump prints a dimension of a sibling group, which is out of reach": {485},
    "2^63 and more without a suffix is uint64; ncgen wraps it": {96},
    "a hexadecimal number with a suffix has the suffix's type; ncgen makes it uint": set(range(121, 126)),
    r"'\x41' is the byte 0x41": {305},
    "an attribute of another group's variable goes to that variable": {347},
    "'a','b',\"c\" keeps all three": {414},
    "each part of an inner unlimited dimension is filled up": {430},
    "a char field that is left out is NULs; ncgen damages the record": {467},
    "the print is wrong: bytes that are not UTF-8 were replaced when it was recorded": {302, 330, 331},
    "the print is wrong: a member of uint64 as a negative number": {246},
    "the print is wrong: the name of a shadowed type": {487},
    "the print is wrong: a member with a blank, not escaped": {615},
}


def _numbers(table: dict[str, set[int]]) -> set[int]:
    return set().union(*table.values())


def _probes() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PROBES.read_text("utf-8").splitlines()]


def _read(text: str) -> Dataset | CDLError:
    try:
        return loads(text)
    except CDLError as error:
        return error


def _comparable(group: Group) -> Group:
    """Without the order of types, NULs at the end of text, and the type of an empty attribute: ncdump loses them."""
    attributes = []
    for a in group.attributes:
        attributes.append(_attribute(a))
    return replace(
        group,
        attributes=tuple(attributes),
        types=tuple(sorted(group.types, key=lambda t: t.name)),
        variables=tuple(
            replace(v, attributes=tuple(_attribute(a) for a in v.attributes)) for v in group.variables
        ),
        groups=tuple(_comparable(g) for g in group.groups),
    )


def _attribute(a: Any) -> Any:
    if a.type.name != "char" or a.type.is_user_defined:
        return a
    return type(a).of(a.name, a.values.tobytes().rstrip(b"\0"))


@pytest.mark.slow
def test_verdicts() -> None:
    wrong = []
    accepted, rejected = set(), set()
    for number, probe in enumerate(_probes()):
        if "-4" not in probe["flags"]:
            continue  # the classic kinds have limits that we do not have
        ours = isinstance(_read(probe["cdl"]), Dataset)
        if ours and probe["rc"]:
            accepted.add(number)
        elif not ours and not probe["rc"]:
            rejected.add(number)
    wrong = [accepted ^ _numbers(WE_ACCEPT), rejected ^ _numbers(WE_REJECT)]
    assert wrong == [set(), set()]


@pytest.mark.slow
def test_values() -> None:
    different = {}
    compared = 0
    for number, probe in enumerate(_probes()):
        header_only = any(re.match(r"-\w*[hsc]", flag) for flag in probe["ncdump_args"])
        if "-4" not in probe["flags"] or probe["rc"] or not probe["ncdump"] or header_only:
            continue
        ours, theirs = _read(probe["cdl"]), _read(probe["ncdump"])
        if isinstance(ours, CDLError) or isinstance(theirs, CDLError):
            if isinstance(theirs, CDLError):
                different[number] = [str(theirs)]
            continue
        a, b = _comparable(ours), _comparable(theirs)
        assert isinstance(a, Dataset)
        assert isinstance(b, Dataset)
        compared += 1
        found = [str(d) for d in compare(a, b)]
        if found:
            different[number] = found
    assert compared > 330
    assert {n: d for n, d in different.items() if n not in _numbers(DIFFERENT)} == {}
    assert set(different) == _numbers(DIFFERENT)
