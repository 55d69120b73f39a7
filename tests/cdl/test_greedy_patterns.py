"""Read CDL with greedy patterns, as Python before 3.11.5 needs them: the result is that of possessive ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[1] / "data" / "selection" / "cdl-corpus"
#: Prints what becomes of each text of the corpus.
PROGRAM = """
import sys
from math import prod
from pathlib import Path
from nczarr import grammar
assert "nczarr.cdl" not in sys.modules
grammar._EXACT = (int(sys.argv[1]),)
from nczarr.cdl import DumpOptions, dumps, load
from nczarr.errors import CDLError
assert grammar.portable("(a|b)*+") == ("(a|b)*" if sys.argv[1] == "99" else "(a|b)*+")
for path in sorted(Path(sys.argv[2]).rglob("*.cdl")):
    print(path)
    try:
        dataset = load(path)
        print(dumps(dataset, DumpOptions(header_only=True)))
        for fqn, variable in dataset.all_variables.items():
            shape = dataset.shape_of(variable)
            if variable.data is not None and prod(shape) < 10_000:
                print(fqn, variable.data.read(tuple(slice(0, n) for n in shape)).tolist())
    except CDLError as error:
        print(error)
"""


@pytest.mark.slow
def test_greedy_patterns_read_the_same() -> None:
    greedy, possessive = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, version, str(CORPUS)],
            check=True,
            capture_output=True,
        ).stdout
        for version in ("99", "3")
    )
    assert greedy.count(b"\n") > 1000
    if sys.version_info >= (3, 11, 5):
        assert greedy == possessive
