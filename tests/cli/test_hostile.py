"""Run commands on hostile files: they end with a message and an exit status, in bounded memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import programs
import pytest

import nczarr
from nczarr.cli import main
from nczarr.model import regions
from nczarr.system.environment import read_json

DEEP = "[" * 100_000 + "]" * 100_000
#: Address space that a command may take, in bytes: what the program itself and its libraries need, and some more.
SPACE = 3 << 30


def run_with_ascii_names(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command where files have names of ASCII: an interpreter learns it when it starts."""
    return subprocess.run(
        [sys.executable, "-m", "nczarr", *command],
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        check=False,
    )


def write(path: Path, text: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")


def in_a_document(path: Path) -> None:
    write(path / "zarr.json", f'{{"zarr_format": 3, "node_type": "group", "attributes": {{"a": {DEEP}}}}}')


def in_place_of_a_document(path: Path) -> None:
    write(path / "zarr.json", DEEP)


def in_references(path: Path) -> None:
    write(path, f'{{"version": 1, "refs": {{".zgroup": "{{\\"zarr_format\\": 2}}", "a": {DEEP}}}}}')


def in_a_mark(path: Path) -> None:
    nczarr.Dataset(path, "w").close()
    write(path / ".nczarr-unfinished", f"a note\n{DEEP}\n")


@pytest.mark.parametrize(
    "make", [in_a_document, in_place_of_a_document, in_references, in_a_mark], ids=lambda make: make.__name__
)
@pytest.mark.parametrize(
    "command",
    [
        ["info", "FILE"],
        ["dump", "FILE"],
        ["check", "--data", "FILE"],
        ["repair", "FILE"],
        ["clean", "FILE"],
        ["consolidate", "FILE"],
        ["copy", "FILE", "OUT.zarr"],
        ["copy", "--overwrite", "FILE", "FILE.zarr"],
        ["copy", "--resume", "FILE", "OUT.zarr"],
        ["info", "--storage-option", f"x={DEEP}", "FILE"],
    ],
    ids=lambda command: " ".join(command)[:40],
)
def test_json_that_is_nested_deeply_is_a_message(
    make: Callable[[Path], None], command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("a.json" if make is in_references else "a.zarr")
    make(path)
    main([word.replace("FILE", str(path)).replace("OUT", str(tmp_path / "out")) for word in command])
    assert "RecursionError" not in "".join(capfd.readouterr())


def test_json_beside_documents_is_a_value_error_if_it_is_nested_deeply() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(DEEP)
    assert read_json(b'{"a": [1.5]}', parse_float=str) == {"a": ["1.5"]}


@pytest.mark.parametrize("configuration", [["x"], "x", 3, None])
@pytest.mark.parametrize(
    "command", ["info", "dump", "check --data", "copy OUT.nc", "copy -c x=2 OUT.zarr", "digest"]
)
def test_a_codec_in_a_shard_whose_configuration_is_no_object(
    command: str, configuration: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 4)
        ds.createVariable("v", "i4", ("x",))
    document = json.loads((tmp_path / "a.zarr/v/zarr.json").read_text())
    inner = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "gzip", "configuration": configuration},
    ]
    document["codecs"] = [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [2],
                "codecs": inner,
                "index_codecs": [inner[0], {"name": "crc32c"}],
            },
        }
    ]
    write(tmp_path / "a.zarr/v/zarr.json", document)
    root = json.loads((tmp_path / "a.zarr/zarr.json").read_text())
    root.pop("consolidated_metadata", None)
    write(tmp_path / "a.zarr/zarr.json", root)
    name, *rest = command.replace("OUT", str(tmp_path / "out")).split()
    options = [word for word in rest if not word.startswith(str(tmp_path))]
    targets = [word for word in rest if word.startswith(str(tmp_path))]
    assert main([name, *options, str(tmp_path / "a.zarr"), *targets]) == 1
    said = "".join(capfd.readouterr())
    assert "codecs[1].configuration" in said
    assert "/v" in said


@pytest.mark.parametrize(
    ("document", "before", "behind"),
    [
        ("v/.zattrs", '"MARK"', '"\\ud800"'),
        ("v/.zattrs", '"t"', '"t\\ud800"'),
        ("v/.zattrs", '"s"', '"s\\ud800"'),
        (".zattrs", '"MARK"', '"\\ud800"'),
        (".zgroup", '"x"', '"\\ud800"'),
        (".zgroup", ": 2", ': "' + "9" * 5000 + '"'),
        (".zgroup", ": 2", ': "\u00b2"'),
    ],
)
def test_lone_surrogates_and_odd_numbers_in_nczarr_v2(
    document: str, before: str, behind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """netcdf d { dimensions: x = 2; variables: int v(x); v:t = "MARK"; string v:s = "MARK"; :a = "MARK";
        data: v = 1, 2; }"""
    write(tmp_path / "d.cdl", text)
    assert (
        main(["copy", str(tmp_path / "d.cdl"), str(tmp_path / "a.zarr"), "--layout", "nczarr-v2", "--lossy"])
        == 0
    )
    (tmp_path / "a.zarr/.zmetadata").unlink(missing_ok=True)
    path = tmp_path / "a.zarr" / document
    found = path.read_text()
    if before not in found:
        pytest.skip(f"{document} has no {before} in this layout")
    path.write_text(found.replace(before, behind))
    for command in (["dump"], ["info"], ["info", "--json"], ["check", "--data"], ["digest"]):
        main([*command, str(tmp_path / "a.zarr")])
        said = "".join(capfd.readouterr())
        assert "Traceback" not in said
        assert "a.zarr" in said


@pytest.mark.parametrize(
    "number", ["1" * 5000, "-" + "9" * 400, "1999-" + "1" * 5000, "1999-1-1 1:1:" + "1" * 5000]
)
def test_units_of_time_with_very_many_digits(
    number: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path / "d.cdl",
        f'netcdf d {{ dimensions: time = 2; variables: int time(time); time:units = "days since {number}"; '
        "int v(time); data: time = 1, 2; v = 3, 4; }",
    )
    assert main(["gen", str(tmp_path / "d.cdl"), str(tmp_path / "d.zarr")]) == 0
    for command in (["dump", "-t"], ["dump", "-i"], ["info"], ["check", "--data"]):
        assert main([*command, str(tmp_path / "d.zarr")]) == 0
    pytest.importorskip("matplotlib")
    assert main(["plot", str(tmp_path / "d.zarr"), "v", "-o", str(tmp_path / "p.png")]) == 0
    capfd.readouterr()


# --- memory and time


def test_regions_are_made_one_by_one() -> None:
    some = regions((2**60, 2**60), (1, 2**59))
    assert [next(some) for _ in range(3)] == [
        (slice(0, 1, 1), slice(0, 2**59, 1)),
        (slice(0, 1, 1), slice(2**59, 2**60, 1)),
        (slice(1, 2, 1), slice(0, 2**59, 1)),
    ]
    assert list(regions((0, 3), (1, 1))) == list(regions((3, 0), (1, 1))) == []
    assert list(regions((), ())) == [()]


@pytest.mark.slow
@pytest.mark.parametrize("length", [10**9, 2**60])
def test_check_of_very_many_chunks_keeps_its_memory(length: int, tmp_path: Path) -> None:
    import tracemalloc

    from nczarr.convert.verify.check import check

    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", length)
        ds.createVariable("v", "i1", ("x",), chunksizes=(1,))[5] = 3

    class Enough(Exception):
        pass

    class Stops:
        count = 0

        def start(self, total: int) -> None:
            tracemalloc.start()

        def advance(self, count: int, fqn: str) -> None:
            self.count += 1
            if self.count == 2000:
                raise Enough

        def finish(self) -> None:
            pass

    try:
        with pytest.raises(Enough):
            list(check(tmp_path / "a.zarr", data=True, progress=Stops()))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["string", "int", "double"])
@pytest.mark.parametrize("data", ["", "1", "1, 2, 3"])
def test_gen_of_very_many_values_writes_those_of_the_text(type_: str, data: str, tmp_path: Path) -> None:
    values = [f'"{x}"' if type_ == "string" else x for x in data.split(", ") if x]
    section = f"data: s = {', '.join(values)};" if values else ""
    write(
        tmp_path / "d.cdl",
        f"netcdf d {{ dimensions: x = {2**40}; y = 3; variables: {type_} s(x, y); {section} }}",
    )
    words = ["-m", "nczarr", "gen", tmp_path / "d.cdl", tmp_path / "d.zarr"]
    done = programs.run(*words, space=SPACE)
    assert (done.returncode, done.stderr) == (0, "")
    with nczarr.Dataset(tmp_path / "d.zarr") as ds:
        assert ds["s"].shape == (2**40, 3)
        found = np.ma.asarray(ds["s"][:2]).ravel()
        ds.set_auto_mask(False)
        last = ds["s"][-1, -1]
        expected = [str(i + 1) if type_ == "string" else i + 1 for i in range(len(values))]
        assert found[: len(expected)].tolist() == expected
        assert all(x is None or x == last for x in found[len(expected) :].tolist())


@pytest.mark.slow
def test_gen_of_more_values_than_are_looked_at_is_as_one_of_few(tmp_path: Path) -> None:
    for rows in (1000, 1 << 15):
        write(
            tmp_path / f"{rows}.cdl",
            f"netcdf d {{ dimensions: x = {rows}; y = 40; variables: int v(x, y); v:_FillValue = 7; int w(x, y); "
            f"data: v = {', '.join(map(str, range(100)))}; }}",
        )
        target = tmp_path / f"{rows}.zarr"
        nczarr.copy(tmp_path / f"{rows}.cdl", target, chunks="x=8,y=16")
        with nczarr.Dataset(target) as ds:
            ds.set_auto_mask(False)
            flat = ds["v"][:].ravel()
            np.testing.assert_array_equal(flat[:100], np.arange(100))
            assert set(flat[100:].tolist()) == {7}
            assert set(ds["w"][:].ravel().tolist()) == {-2147483647}


# --- names of files


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A dataset with a name that is no ASCII, with and without consolidated metadata, and in other forms."""
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("s\u00fc\u00df", "i4", ("x",))[:] = [1, 2]
        ds.createVariable("plain", "i4", ("x",))[:] = [3, 4]
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc")
    shutil.copytree(tmp_path / "a.zarr", tmp_path / "b.zarr")
    root = json.loads((tmp_path / "b.zarr/zarr.json").read_text("utf-8"))
    root.pop("consolidated_metadata", None)
    write(tmp_path / "b.zarr/zarr.json", root)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "dump a.zarr",
        "tree b.zarr",
        "copy a.zarr o.zarr",
        "copy b.zarr o.nc",
        "copy a.nc o.zarr",
        "check --data b.zarr",
    ],
)
def test_names_that_are_not_ascii_are_refused_where_files_have_another_encoding(
    command: str, named: Path
) -> None:
    words = [str(named / word) if "." in word else word for word in command.split()]
    done = run_with_ascii_names(*words)
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "PYTHONUTF8=1" in said
    assert "Traceback" not in said
    assert not [path for path in named.iterdir() if path.name.startswith("o.")]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["dump -v plain a.nc", "copy a.nc o.nc", "copy a.nc o.zarr.zip"])
def test_names_in_one_file_need_no_encoding_of_files(command: str, named: Path) -> None:
    words = [str(named / word) if "." in word else word for word in command.split()]
    done = run_with_ascii_names(*words)
    assert (done.returncode, done.stderr) == (0, "")
    for path in named.glob("o.*"):
        with nczarr.Dataset(path) as ds:
            assert ds["s\u00fc\u00df"][:].tolist() == [1, 2]


def test_checksums_in_netcdf_files_do_not_cover_strings_and_this_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path / "d.cdl",
        "netcdf d { types: int(*) row; dimensions: x = 2; variables: string s(x); row r(x); int v(x); "
        'data: s = "a", "b"; r = {1}, {2}; v = 1, 2; }',
    )
    assert main(["gen", str(tmp_path / "d.cdl"), str(tmp_path / "d.zarr")]) == 0
    assert main(["copy", "--checksum", str(tmp_path / "d.zarr"), str(tmp_path / "d.nc")]) == 0
    said = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[2] for line in said] == ["/s", "/r"]
    assert all("a checksum" in line for line in said)
    with nczarr.Dataset(tmp_path / "d.nc") as ds:
        assert ds["v"].filters()["fletcher32"]
    for target in ("e.zarr", "e.nc"):
        checksum = ["--checksum"] if target == "e.zarr" else []
        assert main(["copy", *checksum, str(tmp_path / "d.zarr"), str(tmp_path / target)]) == 0
        assert capfd.readouterr().err == ""
