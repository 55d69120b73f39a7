"""Test the tree of exceptions: all are in one module, on one page, and pickled with their builtin bases."""

import importlib.util
import pickle
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import import_graph
import pytest

from nczarr import errors
from nczarr.errors import NCZarrError, also

ROOT = Path(__file__).parents[1]
#: Each is caught in its own package, or has the name that netCDF4-python gives it.
ELSEWHERE = {"NoTypeError", "_NoGridError", "NetCDF4MissingFeatureException"}


def below(kind: type) -> set[type]:
    return {found for child in kind.__subclasses__() for found in (child, *below(child))}


def page() -> ModuleType:
    place = ROOT / "docs" / "generate_errors.py"
    specification = importlib.util.spec_from_file_location("nczarr_docs_errors", place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_all_errors_are_in_one_module() -> None:
    for module in import_graph.modules():
        if not module.startswith(("nczarr.view", "nczarr.__main__")):
            import_module(module)
    found = {kind.__name__ for kind in below(NCZarrError) if kind.__module__.startswith("nczarr")}
    tree = {name for name in vars(errors) if re.fullmatch(r"[A-Z]\w+Error", name)}
    assert found - tree <= ELSEWHERE
    assert len(tree) <= 26


def test_the_page_names_every_error_once_and_says_when_it_is_raised() -> None:
    rows = [line.split(" | ") for line in page().page().splitlines() if "`" in line and line.startswith("| ")]
    names = [re.findall(r"`(\w+)`", row[0])[0] for row in rows]
    assert sorted(names) == sorted(name for name in vars(errors) if re.fullmatch(r"[A-Z]\w+Error", name))
    assert all(len(row[2]) > 20 for row in rows)


@pytest.mark.parametrize(
    "error",
    [
        also(errors.ReadOnlyError, AttributeError)("closed", fqn="/v"),
        also(errors.UnsupportedError, OSError)("no", path="a.nc", hint="copy it"),
        also(errors.TextError, UnicodeEncodeError)(
            "half", cause=UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")
        ),
        errors.StoreError("403", reason="refused"),
    ],
    ids=repr,
)
def test_an_error_is_pickled_with_its_builtin_base(error: NCZarrError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.reason, again.args) == (str(error), error.reason, error.args)
