"""Choose the storage of single variables, by options and by plans in TOML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.cli import main
from nczarr.convert.plans import text_of_plan
from nczarr.convert.request import CopyRequest
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import FLOAT, INT, Dataset, Dimension, Group, MemorySource, Variable

TREE = {"/temp": (1, 100), "/precip_rain": (10, 100), "/precip_snow": (10, 100), "/g/temp": (1, 100)}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file with four variables of floats on time and x, and an integer coordinate."""
    monkeypatch.chdir(tmp_path)
    values = np.linspace(1, 2, 10 * 400, dtype="f4").reshape(10, 400)

    def variable(name: str) -> Variable:
        return Variable(name, FLOAT, ("/time", "/x"), data=MemorySource(values))

    time = Variable("time", INT, ("/time",), data=MemorySource(np.arange(10, dtype="i4")))
    own = (time, variable("temp"), variable("precip_rain"), variable("precip_snow"))
    dimensions = (Dimension("time", 10, unlimited=True), Dimension("x", 400))
    dataset = Dataset(
        "d", dimensions=dimensions, variables=own, groups=(Group("g", variables=(variable("temp"),)),)
    )
    nczarr.copy(dataset, tmp_path / "in.nc")
    return tmp_path


def forms(path: Path | str) -> dict[str, tuple[Any, Any, list[str]]]:
    """Return chunks, shards and compressors of each array, as zarr-python sees them."""
    arrays = {
        f"/{name}": a
        for name, a in zarr.open_group(path, mode="r").members(max_depth=None)
        if isinstance(a, zarr.Array)
    }
    return {
        name: (a.chunks, a.shards, [type(c).__name__ + str(getattr(c, "level", "")) for c in a.compressors])
        for name, a in arrays.items()
    }  # fmt: skip


PYTHON: dict[str, Any] = {
    "chunks": {"time": 10, "x": 200, "temp": {"time": 1, "x": 100}, "/g/*": {"x": 50}},
    "shards": {"/temp": {"time": 10, "x": 400}},
    "compression": {"precip*": "zstd:7", "precip_snow": "none"},
    "quantize": {"temp": "3", "precip_rain": "BitRound:5"},
}
WORDS = (  # noqa: SIM905
    "-c time=10,x=200 -c temp:time=1,x=100 -c /g/*:x=50 --shards /temp:time=10,x=400 --compression precip*:zstd:7 "
    "--compression precip_snow:none --quantize temp=3 --quantize precip_rain:BitRound:5"
).split()


def test_each_variable_has_its_own_storage(source: Path) -> None:
    nczarr.copy("in.nc", "python.zarr", **PYTHON)
    assert main(["copy", "in.nc", "words.zarr", *WORDS, "-q"]) == 0
    found = forms("python.zarr")
    assert found == forms("words.zarr")
    assert found["/temp"][:2] == ((1, 100), (10, 400))
    assert found["/g/temp"][:2] == ((1, 50), None)
    assert found["/precip_rain"] == ((10, 200), None, ["ZstdCodec7"])
    assert found["/precip_snow"] == ((10, 200), None, [])
    assert found["/time"][0] == (10,)
    with nczarr.Dataset("python.zarr") as d:
        assert d["temp"]._QuantizeGranularBitRoundNumberOfSignificantDigits == 3
        assert d["precip_rain"]._QuantizeBitRoundNumberOfSignificantBits == 5
        assert "_Quantize" not in str(d["precip_snow"].ncattrs())


def test_netcdf_files_have_them_too(source: Path) -> None:
    nczarr.copy(
        "in.nc", "out.nc", chunks="temp:time=1,x=100", compression={"precip_rain": "gzip:7", "temp": "none"}
    )
    with nczarr.Dataset("out.nc") as d:
        assert d["temp"].chunking() == d["g/temp"].chunking() == [1, 100]
        assert d["precip_rain"].filters()["complevel"] == 7
        assert not d["precip_snow"].filters()["zlib"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": "tmp:time=1"}, "chunks='tmp': there is no variable of this name (did you mean 'temp'?)"),
        ({"chunks": "temp:y=1"}, "chunks='y': there is no such dimension"),
        ({"chunks": {"temp": [1]}}, "/temp: chunks=[1]: not the lengths along 2 dimensions"),
        ({"compression": "snow:zstd"}, "compression='snow': there is no variable"),
        ({"compression": {"temp": "zip"}}, "there is no compression 'zip'"),
        ({"quantize": "time:3"}, "quantize='time': there is no float or double variable"),
        ({"quantize": "temp=99"}, "quantize='99': not a number of digits"),
        ({"shards": "temp:time=3", "chunks": "temp:time=2"}, "shards=: 3 along /time is not a multiple"),
    ],
)
def test_wrong_rules_are_refused(source: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(message)):
        nczarr.copy("in.nc", "no.zarr", **options)
    assert not Path("no.zarr").exists()


def documents(folder: Path | str) -> dict[str, Any]:
    """Return the documents of a store without the identity of the dataset."""
    found = {str(p.relative_to(folder)): p.read_text() for p in sorted(Path(folder).rglob("zarr.json"))}
    return {name: re.sub(r'\\?"dataset\\?": ?\\?"[0-9a-f]+\\?"', "", text) for name, text in found.items()}


@pytest.mark.parametrize(
    "options", [{}, PYTHON, {"compression": "source", "shards": "auto"}, {"layout": "nczarr-v2"}], ids=str
)
@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_a_plan_that_is_not_edited_changes_nothing(source: Path, options: dict[str, Any], kind: str) -> None:
    nczarr.copy("in.nc", "in.zarr", chunks="temp:x=30", compression="gzip:3")
    options = {k: v for k, v in options.items() if not (options.get("layout") and k != "layout")}
    lines = nczarr.copy(f"in.{kind}", "out.zarr", dry_run=True, plan="plan.toml", **options)
    assert not Path("out.zarr").exists()
    assert nczarr.copy(f"in.{kind}", "out.zarr", dry_run=True, plan="plan.toml") == lines
    nczarr.copy(f"in.{kind}", "out.zarr", plan="plan.toml")
    nczarr.copy(f"in.{kind}", "wanted.zarr", **options)
    found, wanted = documents("out.zarr"), documents("wanted.zarr")
    assert found.keys() == wanted.keys()
    assert not [(name, found[name], wanted[name]) for name in found if found[name] != wanted[name]]


def test_a_plan_of_a_netcdf_file(source: Path) -> None:
    options: dict[str, Any] = {
        "chunks": "temp:time=2",
        "compression": "precip*:gzip:2",
        "rename": {"/g": "h"},
    }
    nczarr.copy("in.nc", "out.nc", dry_run=True, plan="plan.toml", **options)
    nczarr.copy("in.nc", "out.nc", plan="plan.toml")
    nczarr.copy("in.nc", "wanted.nc", **options)
    found = nczarr.convert.diff("out.nc", "wanted.nc", storage=True)
    assert not [d for d in found if "_NCProperties" not in str(d)]


def test_a_plan_is_edited(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rename", "/temp=t", "-d", "time=0:4", "-d", "x=#0:300:2", "-x", "/g", "--unlimited", "time"]
    assert main(["copy", "in.nc", "out.zarr", "--dry-run", "--plan", "plan.toml", *words]) == 0
    text = Path("plan.toml").read_text()
    plan = tomllib.loads(text)
    assert plan["select"] == {"time": "#0:4", "x": "#0:300:2"}
    assert plan["storage"]["/t"]["compression"] == "blosc:zstd:1"
    assert "# /t: float 4×150" in text
    edited = re.sub(r'(\[storage."/t"\]\nchunks = ).*', r'\1[1, 50]\nquantize = "2"', text)
    assert edited != text
    Path("plan.toml").write_text(edited)
    assert main(["copy", "in.nc", "out.zarr", "--plan", "plan.toml", "-q", "--resume"]) == 0
    assert main(["copy", "in.nc", "out.zarr", "--plan", "plan.toml", "-q", "--resume"]) == 0
    assert forms("out.zarr")["/t"][0] == (1, 50)
    assert sorted(forms("out.zarr")) == ["/precip_rain", "/precip_snow", "/t", "/time"]
    with nczarr.Dataset("out.zarr") as d:
        assert d["t"].shape == (4, 150)
    Path("plan.toml").write_text(text)
    assert main(["copy", "in.nc", "out.zarr", "--plan", "plan.toml", "-q", "--resume"]) == 1
    assert "the dataset exists already" in capsys.readouterr().err


def test_a_plan_belongs_to_the_mark_of_an_unfinished_copy(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nczarr.copy("in.nc", "out.zarr", dry_run=True, plan="plan.toml")

    class Stop:
        def start(self, size: int) -> None: ...
        def advance(self, size: int, fqn: str) -> None:
            raise KeyboardInterrupt

        def finish(self) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        nczarr.copy("in.nc", "out.zarr", plan="plan.toml", resume=True, progress=Stop())
    text = Path("plan.toml").read_text()
    Path("plan.toml").write_text(text.replace("blosc:zstd:1", "zstd:3"))
    with pytest.raises(NCZarrError, match="other options"):
        nczarr.copy("in.nc", "out.zarr", plan="plan.toml", resume=True)
    Path("plan.toml").write_text(text)
    nczarr.copy("in.nc", "out.zarr", plan="plan.toml", resume=True, verify=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alogn = 'time'", "plan.toml:1: alogn: there is no such key in a plan (did you mean 'along'?)"),
        ("\nmerge = 1", "plan.toml:2: merge: not true or false"),
        ("adjust = ['a',\n 3]", "plan.toml:1: adjust: not a list of texts"),
        ("[tolerance]\nlat = '1'", "plan.toml:2: tolerance.lat: not a number"),
        ("[select]\ntime = '?'", "plan.toml:2: select='?': not a selection"),
        ("[rename]\n'/no' = 'x'", "plan.toml:2: rename='/no': there is nothing of this name"),
        ("storage = 3", "plan.toml:1: storage: not a table"),
        ("[storage.'/temp']\nchunk = [1, 2]", "plan.toml:2: storage./temp.chunk: there is no such key"),
        ("[storage]\n'/temp'.chunks = 'time=1'", "plan.toml:2: storage./temp.chunks: not a list of lengths"),
        (
            "# gone\n[storage.'/tmp']\n\nchunks = [1, 2]",
            "plan.toml:4: chunks='/tmp': there is no variable of this name",
        ),
        (
            "[storage.'/temp']\nchunks = [1]",
            "plan.toml:2: /temp: chunks=[1]: not the lengths along 2 dimensions",
        ),
        ("[storage.'/temp']\ncompression = 'zip'", "there is no compression 'zip'"),
        ("x = [", "plan.toml: the plan is not TOML"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_with_its_place(source: Path, text: str, message: str) -> None:
    Path("plan.toml").write_text(text)
    with pytest.raises(UnsupportedError, match=re.escape(message)):
        nczarr.join("in.nc", "no.zarr", plan="plan.toml")
    assert not Path("no.zarr").exists()


def test_plans_and_options_do_not_mix(source: Path) -> None:
    with pytest.raises(NCZarrError, match=r"plan\.toml: there is no plan .dry_run=True with plan="):
        nczarr.copy("in.nc", "out.zarr", plan="plan.toml")
    with pytest.raises(NCZarrError, match="preprocess="):
        nczarr.copy("in.nc", "out.zarr", plan="plan.toml", dry_run=True, preprocess=lambda d: d)
    assert not Path("plan.toml").exists()
    nczarr.copy("in.nc", "out.zarr", plan="plan.toml", dry_run=True)
    before = Path("plan.toml").read_text()
    with pytest.raises(NCZarrError, match="chunks= is one"):
        nczarr.copy("in.nc", "out.zarr", plan="plan.toml", dry_run=True, chunks="time=1")
    assert Path("plan.toml").read_text() == before
    with pytest.raises(NCZarrError, match="plan= cannot be combined with virtual="):
        nczarr.copy("in.nc", "out.zarr", plan="plan.toml", virtual=True)
    with pytest.raises(NCZarrError, match="append has no option plan"):
        nczarr.append("in.nc", "out.zarr", plan="plan.toml")


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(exclude_categories=["Cs"])),
    )
)
def test_names_survive_in_toml(names: dict[str, str]) -> None:
    text = text_of_plan(CopyRequest.of("copy", None, {"rename": names}), [], Path("p.toml"))
    assert tomllib.loads(text).get("rename", {}) == names
