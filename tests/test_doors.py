"""Keep the table of rules and doors in docs/trust.md true."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

import pytest
from trust_table import HERE, quoted, rows

import nczarr
from nczarr.cli.arguments import COMMANDS
from nczarr.xarray.accessor import NCZarrAccessor

#: Entrances through which no dataset comes or goes.
NO_DOORS = {
    *(
        "CompoundType",
        "Dimension",
        "EnumType",
        "Group",
        "MFTime",
        "NCZarrError",
        "VLType",
        "Variable",
        "__version__",
    ),
    *(
        "chartostring",
        "date2index",
        "date2num",
        "default_fillvals",
        "num2date",
        "stringtoarr",
        "stringtochar",
    ),
    # Commands that look at Zarr's own nodes or at the installation.
    *("du", "validate", "doctor", "completion"),
}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:50])
def test_the_function_and_the_tests_of_a_rule_exist(row: list[str]) -> None:
    _, function, doors, tests = row
    module, _, name = quoted(function)[0].partition(":")
    assert callable(reduce(getattr, name.split("."), import_module(module)))
    assert quoted(doors)
    for path in quoted(tests):
        assert "def test_" in (HERE / path).read_text(encoding="utf-8"), path


def test_every_entrance_passes_a_rule_or_is_no_door() -> None:
    accessor = {name for name in vars(NCZarrAccessor) if not name.startswith("_")}
    entrances = {*nczarr.__all__, *COMMANDS, *accessor}
    named = {door for _, _, doors, _ in rows() for door in quoted(doors)}
    assert len(rows()) >= 10
    assert named <= entrances, "doors that do not exist"
    assert not named & NO_DOORS
    assert entrances - named - NO_DOORS == set(), "add the new door to the rules that it has to pass"


@pytest.mark.parametrize("name", ["to_zarr", "to_netcdf"])
def test_what_writes_values_passes_all_rules_of_values(name: str) -> None:
    rules = [rule for rule, _, doors, _ in rows() if name in quoted(doors)]
    assert any("comes back" in rule for rule in rules)
    assert any("members" in rule for rule in rules)
    assert any("rights" in rule for rule in rules)
