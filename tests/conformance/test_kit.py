"""Make the conformance kit, and run a reader on it where nczarr cannot be imported."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MAKE = runpy.run_path(str(HERE / "make_kit.py"))


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the kit, unpacked."""
    folder = tmp_path_factory.mktemp("kit")
    with zipfile.ZipFile(MAKE["make"](folder)) as packed:
        packed.extractall(folder)
    blocked = folder / "blocked" / "nczarr"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text(
        "raise ImportError('the kit does not need nczarr')\n", encoding="utf-8"
    )
    return folder / "nczarr-conformance-3.2"


def run(kit: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(kit.parent / "blocked"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(kit / "run.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=kit, check=False)


def test_the_kit_is_complete_and_reproducible(kit: Path, tmp_path: Path) -> None:
    assert MAKE["make"](tmp_path).read_bytes() == (kit.parent / f"{kit.name}.zip").read_bytes()
    readme = (kit / "README.md").read_text(encoding="utf-8")
    for path in kit.iterdir():
        assert f"`{path.name}" in readme or path.name in ("README.md", "LICENSE")
    stores = list((kit / "vectors").rglob("*.zarr"))
    assert len(stores) == len(list((HERE.parent / "data" / "vectors").rglob("*.zarr"))) > 60
    assert all(s.with_suffix(".findings").exists() or s.stem == "group_alone" for s in stores)


@pytest.mark.slow
def test_the_minimal_reader_passes(kit: Path) -> None:
    pytest.importorskip("zarr", minversion="3.1.4")
    done = run(kit, "--minimal", "--read", f"{sys.executable} minimal_reader.py STORES")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = int(done.stdout.split(" of ")[0])
    assert passed >= len((kit / "minimal.txt").read_text(encoding="utf-8").split()) >= 14
    # Without --minimal the same reader fails: it refuses what others have changed.
    done = run(kit, "--read", f"{sys.executable} minimal_reader.py STORES")
    assert done.returncode == 1
    assert "version_3_0: read: version 3.0.0 is not read" in done.stdout


@pytest.mark.parametrize("path", sorted((HERE.parent / "data").glob("*.nc")), ids=lambda p: p.stem)
def test_the_minimal_reader_reads_what_nczarr_writes(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("zarr", minversion="3.1.4")
    import nczarr
    from nczarr.convert.verify.check import canonical_text

    nczarr.copy(path, tmp_path / "store.zarr")
    reader = runpy.run_path(str(HERE.parents[1] / "docs" / "spec" / "minimal_reader.py"))["Reader"]
    found = json.loads(json.dumps(reader(str(tmp_path / "store.zarr")).read()))
    assert found == json.loads(canonical_text(tmp_path / "store.zarr"))


@pytest.mark.slow
def test_the_minimal_reader_refuses_or_reads_what_breaks_a_constraint(kit: Path) -> None:
    """It recovers nothing; but it never returns another model than a full reader."""
    pytest.importorskip("zarr", minversion="3.1.4")
    from nczarr.convert.verify.check import canonical_text

    stores = sorted((kit / "vectors" / "invalid").glob("*.zarr"))
    command = [sys.executable, "-W", "ignore", str(kit / "minimal_reader.py"), *map(str, stores)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [set(answer) == {"error"} for answer in answers]
    assert len(stores) / 4 < sum(refused) < len(stores) * 3 / 4
    for store, answer, is_refused in zip(stores, answers, refused, strict=True):
        if not is_refused:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert answer == json.loads(canonical_text(store)), store.stem


@pytest.mark.parametrize(
    ("stored", "type_"), [("int32", "string"), ("int8", "char"), ("int8", "uint8"), ("string", "char")]
)
def test_the_minimal_reader_refuses_a_data_type_that_cannot_hold_the_type(
    stored: str, type_: str, tmp_path: Path
) -> None:
    import nczarr

    with nczarr.Dataset(tmp_path / "store.zarr", "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("v", str if stored == "string" else stored, ("x",))
    document = json.loads((tmp_path / "store.zarr" / "v" / "zarr.json").read_text(encoding="utf-8"))
    document["nczarr"]["configuration"]["_nczarr_array"]["type"] = type_
    (tmp_path / "store.zarr" / "v" / "zarr.json").write_text(json.dumps(document), encoding="utf-8")
    reader = runpy.run_path(str(HERE.parents[1] / "docs" / "spec" / "minimal_reader.py"))["Reader"]
    with pytest.raises(ValueError, match="does not hold values of its type"):
        reader(str(tmp_path / "store.zarr")).read()


def test_the_minimal_reader_is_short() -> None:
    lines = (HERE.parents[1] / "docs" / "spec" / "minimal_reader.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 392


def test_the_minimal_reader_tells_an_empty_scalar_from_a_zero(tmp_path: Path) -> None:
    """zarr-python's own buffers do not: they take the zero bytes at the end of a scalar for padding."""
    pytest.importorskip("zarr", minversion="3.1.4")
    import nczarr
    import nczarr.cdl

    text = "types: ubyte(*) row; variables: row none, zero, some; data: none = {}; zero = {0}; some = {1, 0};"
    nczarr.copy(nczarr.cdl.loads(f"netcdf d {{ {text} }}"), tmp_path / "store.zarr")
    reader = runpy.run_path(str(HERE.parents[1] / "docs" / "spec" / "minimal_reader.py"))["Reader"]
    found = reader(str(tmp_path / "store.zarr")).read()["variables"]
    assert {v["name"]: v["values"] for v in found} == {"none": [[]], "zero": [[0]], "some": [[1, 0]]}


@pytest.mark.slow
def test_a_reader_that_differs_fails(kit: Path, tmp_path: Path) -> None:
    answers = {
        p.with_suffix(".zarr").name: json.loads(p.read_text("utf-8")) for p in kit.rglob("vectors/*.json")
    }
    answers["groups.zarr"]["dimensions"][0]["size"] = 5
    (tmp_path / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    (tmp_path / "reader.py").write_text(
        "import json, pathlib, sys\n"
        f"answers = json.load(open({str(tmp_path / 'answers.json')!r}))\n"
        "print(json.dumps(answers[pathlib.Path(sys.argv[1]).name]))\n",
        encoding="utf-8",
    )
    done = run(kit, "--read", f"{sys.executable} -S -E {tmp_path / 'reader.py'} STORE")
    assert done.returncode == 1
    *failed, last = done.stdout.splitlines()
    assert failed == ["groups: read: /dimensions/0/size is 5, and 2 is expected"]
    assert last == f"{len(answers) - 1} of {len(answers)} passed"
    done = run(kit, "--check", f"{sys.executable} -c print([]) STORES")
    assert done.returncode == 1
    assert "no JSON for each store" in done.stdout
