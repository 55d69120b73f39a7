"""Test each command: output, exit status, and one clear line for every invalid input."""

from __future__ import annotations

import json
import os
import pty
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
from nczarr.errors import MetadataError

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
NCZARR = [sys.executable, "-c", "import sys; from nczarr.cli import main; sys.exit(main())"]


@pytest.fixture
def zarr(tmp_path: Path) -> Path:
    out = tmp_path / "example.zarr"
    nczarr.copy(EXAMPLE, out)
    return out


def test_copy_dump_gen_diff(tmp_path: Path, zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cdl, again = tmp_path / "a.cdl", tmp_path / "again.zarr"
    assert main(["dump", str(zarr), "-o", str(cdl)]) == 0
    assert main(["gen", str(cdl), str(again)]) == 0
    assert main(["diff", str(EXAMPLE), str(again), "--ignore", "_NCProperties"]) == 0
    assert capsys.readouterr().out == ""


def test_gen_reads_standard_input(tmp_path: Path) -> None:
    text = "netcdf d {\ndimensions: x = 2 ;\nvariables: int v(x) ;\ndata: v = 1, 2 ;\n}\n"
    out = tmp_path / "out.zarr"
    result = programs.run("-m", "nczarr", "gen", "-", out, said=text)
    assert result.returncode == 0, result.stderr
    with nczarr.Dataset(out) as dataset:
        assert dataset["v"][:].tolist() == [1, 2]


def test_dump_header_only(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "-h", str(zarr)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("netcdf example {")
    assert "UNLIMITED" in text
    assert "data:" not in text


def test_dump_of_a_netcdf_file_and_of_its_copy_are_the_same(
    zarr: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["dump", str(EXAMPLE)])
    first = capsys.readouterr().out
    main(["dump", str(zarr)])
    assert capsys.readouterr().out == first


def test_diff_prints_what_differs(tmp_path: Path, zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.zarr"
    shutil.copytree(zarr, other)
    with nczarr.Dataset(other, "a") as dataset:
        dataset.setncattr("title", "another title")
    assert main(["diff", str(zarr), str(other)]) == 1
    assert "/: attribute title" in capsys.readouterr().out


def test_info_and_tree(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(zarr)]) == 0
    assert "nczarr-v3" in capsys.readouterr().out
    assert main(["tree", str(zarr)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "/"
    with nczarr.Dataset(zarr) as dataset:
        names = [*dataset.variables, *dataset.groups]
    assert names
    for name in names:
        assert any(name in line for line in lines[1:]), name


def test_check_finds_stale_consolidated_metadata(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--data", str(zarr)]) == 0
    array = next(
        p for p in sorted(zarr.rglob("zarr.json")) if json.loads(p.read_text())["node_type"] == "array"
    )
    document = json.loads(array.read_text())
    document["attributes"]["units"] = "furlong"
    array.write_text(json.dumps(document))
    assert main(["check", str(zarr)]) == 1
    assert "stale" in capsys.readouterr().out
    assert main(["consolidate", str(zarr)]) == 0
    assert main(["check", str(zarr)]) == 0


def test_check_finds_a_damaged_chunk(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = max(
        (p for p in zarr.rglob("*") if p.is_file() and p.name != "zarr.json"), key=lambda p: p.stat().st_size
    )
    chunk.write_bytes(chunk.read_bytes()[:-7])
    assert main(["check", "--data", str(zarr)]) == 1
    assert chunk.name in capsys.readouterr().out


def test_zom_is_json(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zom", str(zarr)]) == 0
    model = json.loads(capsys.readouterr().out)
    assert model["node_type"] == "group"
    assert model["members"]


def _read_terminal(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.slow
def test_a_progress_bar_on_a_terminal_only(tmp_path: Path) -> None:
    command = [*NCZARR, "copy", str(EXAMPLE), str(tmp_path / "piped.zarr")]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stdout == piped.stderr == ""
    leader, follower = pty.openpty()
    command[-1] = str(tmp_path / "shown.zarr")
    with subprocess.Popen(command, stdout=follower, stderr=follower) as shown:
        os.close(follower)
        text = b""
        while part := _read_terminal(leader):
            text += part
    os.close(leader)
    assert shown.returncode == 0
    assert b"%" in text


def test_overwriting_must_be_asked_for(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", str(EXAMPLE), str(zarr)]) == 1
    assert "exists" in capsys.readouterr().err
    assert main(["copy", "--overwrite", "--verify", str(EXAMPLE), str(zarr)]) == 0


def edit(path: str, change: Callable[[dict], object]) -> Callable[[Path], None]:
    def apply(zarr: Path) -> None:
        document = json.loads((zarr / path).read_text())
        document.pop("consolidated_metadata", None)
        change(document)
        (zarr / path).write_text(json.dumps(document))
        if path != "zarr.json":  # the consolidated copy would hide the damage
            edit("zarr.json", lambda _: None)(zarr)

    return apply


def write(path: str, content: bytes) -> Callable[[Path], None]:
    def apply(zarr: Path) -> None:
        edit("zarr.json", lambda _: None)(zarr)
        (zarr / path).write_bytes(content)

    return apply


DAMAGES = {
    "not JSON": write("time/zarr.json", b"\xff\x00"),
    "nonsense": write("time/zarr.json", b"{nonsense"),
    "no object": write("time/zarr.json", b"[]"),
    "empty": write("time/zarr.json", b""),
    "no node": edit("time/zarr.json", lambda d: d.pop("node_type")),
    "missing key": edit("time/zarr.json", lambda d: d.pop("shape")),
    "wrong type": edit("time/zarr.json", lambda d: d.update(shape="many")),
    "negative shape": edit("time/zarr.json", lambda d: d.update(shape=[-1])),
    "wrong rank": edit(
        "time/zarr.json",
        lambda d: d["chunk_grid"]["configuration"].update(chunk_shape=[1, 2]),
    ),
    "chunk of nothing": edit(
        "time/zarr.json",
        lambda d: d["chunk_grid"]["configuration"].update(chunk_shape=[0]),
    ),
    "unknown key": edit("time/zarr.json", lambda d: d.update(secret=1)),
}


def test_what_other_programs_changed_is_read_listed_and_mended(
    zarr: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(d: dict[str, Any]) -> None:
        d["nczarr"]["configuration"]["_nczarr_array"]["dimension_references"] = ["/nowhere/time"]

    assert main(["check", str(zarr)]) == 0
    edit("time/zarr.json", change)(zarr)
    assert main(["dump", "-h", str(zarr)]) == 0
    said = capsys.readouterr().err
    assert said.startswith("nczarr: warning: ")
    assert "[reference-moved]" in said
    assert "'nczarr repair' repairs the metadata" in said
    assert main(["check", "--json", str(zarr)]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "reference-moved" in {f["code"] for f in found}
    assert all(f.keys() == {"code", "severity", "where", "what", "remedy"} for f in found)
    before = (zarr / "time" / "zarr.json").read_bytes()
    assert main(["repair", "--dry-run", str(zarr)]) == 0
    assert "would be done: rewrite the reference" in capsys.readouterr().out
    assert (zarr / "time" / "zarr.json").read_bytes() == before
    assert main(["repair", "--json", str(zarr)]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == found
    assert main(["check", str(zarr)]) == 0
    assert main(["repair", str(zarr)]) == 0
    assert capsys.readouterr().out == ""


def test_a_damaged_root_gives_one_line(
    zarr: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("zarr.json", b"{nonsense")(zarr)
    for command in (["dump", str(zarr)], ["copy", str(zarr), str(tmp_path / "out.nc")]):
        assert main(command) == 1
        said = capsys.readouterr().err
        assert said.startswith("nczarr: ")
        assert said.count("\n") == 1
        assert "zarr.json" in said
    assert not (tmp_path / "out.nc").exists()


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_node_is_left_out_in_one_line(
    name: str, zarr: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[name](zarr)
    before = (zarr / "time" / "zarr.json").read_bytes()
    assert main(["dump", str(zarr)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("nczarr: warning: ")
    assert said.err.count("\n") == 1
    assert "'time' is left out" in said.err
    assert "temp" in said.out
    assert main(["copy", str(zarr), str(tmp_path / "out.nc")]) == 1
    *_, refused = capsys.readouterr().err.splitlines()
    assert refused.startswith("nczarr: ")
    assert "'time' is left out" in refused
    assert not (tmp_path / "out.nc").exists()
    if name in ("not JSON", "nonsense", "no object", "empty", "no node"):
        with pytest.raises(MetadataError, match=r"time/zarr.json: .*remove its folder"):
            nczarr.Dataset(zarr, "a")
    else:
        with nczarr.Dataset(zarr, "a") as ds:
            ds.title = "changed"
    assert (zarr / "time" / "zarr.json").read_bytes() == before


def test_an_unknown_codec_gives_one_line(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit("time/zarr.json", lambda d: d["codecs"].append({"name": "x-magic"}))(zarr)
    assert main(["dump", str(zarr)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("nczarr: ")
    assert (said.count("\n"), "time" in said) == (1, True)


@pytest.mark.parametrize(
    "change",
    [{"data_type": "float1024"}, {"extensions": [{"name": "x.must", "configuration": {}}]}],
    ids=["unknown data type", "unknown extension"],
)
def test_what_must_be_understood_and_is_not_is_left_out_with_a_warning(
    change: dict[str, Any], zarr: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("time/zarr.json", lambda d: d.update(change))(zarr)
    assert main(["dump", str(zarr)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("nczarr: warning: ")
    assert said.err.count("\n") == 1
    assert "'time' is left out" in said.err
    assert "time(time)" not in said.out
    assert main(["check", str(zarr)]) == 1
    assert "[left-out]" in capsys.readouterr().out
    assert main(["copy", str(zarr), str(tmp_path / "out.nc")]) == 1
    assert "'time' is left out" in capsys.readouterr().err
    assert not (tmp_path / "out.nc").exists()
    assert main(["copy", "--lossy", str(zarr), str(tmp_path / "out.nc")]) == 0


def _plain_file(folder: Path) -> Path:
    path = folder / "x.nc"
    path.write_text("this is not netCDF")
    return path


def _truncated(folder: Path) -> Path:
    path = folder / "cut.nc"
    path.write_bytes(EXAMPLE.read_bytes()[:3000])
    return path


def _empty_folder(folder: Path) -> Path:
    path = folder / "empty"
    path.mkdir()
    return path


def _no_zarr(folder: Path) -> Path:
    path = _empty_folder(folder)
    (path / "readme.txt").write_text("hello")
    return path


@pytest.mark.parametrize(
    "make", [_plain_file, _truncated, _empty_folder, _no_zarr, lambda f: f / "missing.zarr"]
)
def test_what_is_no_dataset_gives_one_line(
    make: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    # The rest of a file that ends too early may still come.
    assert main(["copy", str(source), str(tmp_path / "out.zarr")]) == (75 if make is _truncated else 1)
    said = capsys.readouterr().err
    assert said.startswith("nczarr: ")
    assert said.count("\n") == 1
    assert str(source) in said
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_cdl_shows_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "bad.cdl"
    source.write_text("netcdf d {\ndimensions:\n  latitude = 2 ;\nvariables:\n  int v(lattitude) ;\n}\n")
    assert main(["gen", str(source), str(tmp_path / "out.zarr")]) == 1
    said = capsys.readouterr().err
    assert "bad.cdl:5:9" in said
    assert "did you mean 'latitude'" in said
    assert not (tmp_path / "out.zarr").exists()


def test_a_closed_pipe_is_quiet(zarr: Path) -> None:
    command = f"{sys.executable} -c 'from nczarr.cli import main; main()' dump {zarr} | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.stdout.startswith("netcdf")
    assert result.stderr == ""


def test_options_stand_between_names_too(tmp_path: Path) -> None:
    target = str(tmp_path / "b.zarr")
    assert main(["copy", str(EXAMPLE), "--quiet", target, "--compression", "none"]) == 0
    assert main(["copy", "--quiet", "--overwrite", "--", str(EXAMPLE), target]) == 0
    assert main(["diff", str(EXAMPLE), "--rtol", "0", target]) == 0


def test_wrong_usage_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["copy"])
    assert caught.value.code == 2
    assert "nczarr copy -h" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dump", "-v", "nope", "{nc}"], "{nc}: there is no variable 'nope'"),
        (["gen", "{nc}", "{out}"], "{nc}: this is a netCDF file, not CDL text (use nczarr copy)"),
        (["gen", "{folder}", "{out}"], "{folder}: this is a directory, not CDL text (use nczarr copy)"),
        (["info", "{empty}"], "{empty}: the file is empty"),
        (
            ["copy", "--shards", "big", "{nc}", "{out}"],
            "--shards: 'big' does not give the length along a dimension",
        ),
    ],
)
def test_mistakes_are_named_once_with_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (tmp_path / "empty.nc").touch()
    names = {"nc": EXAMPLE, "folder": tmp_path, "empty": tmp_path / "empty.nc", "out": tmp_path / "out.zarr"}
    # An empty file may be one that a program begins to write.
    assert main([word.format(**names) for word in words]) == (75 if "empty" in said else 1)
    message = capsys.readouterr().err
    assert message.startswith(f"nczarr: {said.format(**names)}")
    assert message.count("\n") == 1
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("command", [["diff", str(EXAMPLE)], ["check"]])
def test_what_cannot_be_compared_is_no_difference(tmp_path: Path, command: list[str]) -> None:
    assert main([*command, str(tmp_path / "nothing.zarr")]) == 2


def test_no_command_is_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "copy" in capsys.readouterr().err


def test_ls_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--json", str(EXAMPLE)]) == 0
    listed = {node["fqn"]: node for node in json.loads(capsys.readouterr().out)}
    assert listed["/ocean"]["node"] == "group"
    assert listed["/ocean/temp"]["type"] == "short"
    assert listed["/ocean/temp"]["shape"] == [6, 4, 18, 36]
    assert main(["ls", str(EXAMPLE)]) == 0
    assert [line.rstrip("/") for line in capsys.readouterr().out.splitlines()] == list(listed)


@pytest.mark.parametrize(
    "command", ["copy", "info", "tree", "ls", "diff", "digest", "check", "repair", "validate"]
)
def test_errors_are_json_for_programs(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing.zarr")
    second = {"copy": [str(tmp_path / "out.nc")], "diff": [missing]}.get(command, [])
    status = main([command, "--json", missing, *second])
    told = capsys.readouterr()
    found = json.loads(told.out.splitlines()[-1])
    assert status == {"diff": 2, "check": 2}.get(command, 1)
    assert (found["error"]["type"], found["error"]["path"]) == ("DatasetNotFoundError", missing)
    assert missing in told.err


def test_errors_of_text_have_their_place_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cdl").write_text("netcdf a {\n  wrong\n}\n")
    assert main(["info", "--json", str(tmp_path / "a.cdl")]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["line"]) == ("CDLError", 3)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_every_end_is_json_for_programs(
    interruption: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise interruption

    monkeypatch.setattr("nczarr.cli.inspection.storage_options", fail)
    assert main(["info", "--json", str(EXAMPLE)]) != 0
    assert json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_digest_that_differs_is_json(zarr: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "--check", "--json", str(zarr)]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["stored"] is None
    nczarr.copy(EXAMPLE, zarr, digest=True, overwrite=True)
    assert main(["digest", "--check", "--json", str(zarr)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["stored"] == found["sha256"]


@pytest.fixture
def many_objects(tmp_path: Path) -> Path:
    """A store with a chunk for each of 1,200 steps."""
    with nczarr.Dataset(tmp_path / "many.zarr", "w") as ds:
        ds.createDimension("time", None)
        ds.createDimension("x", 100)
        ds.createVariable("v", "f4", ("time", "x"), chunksizes=(1, 100))[:] = np.ones((1200, 100))
    return tmp_path / "many.zarr"


def test_objects_are_counted_and_the_hint_helps(
    many_objects: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = sum(path.is_file() for path in many_objects.rglob("*"))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["info", str(many_objects)]) in (0, None)
    told = capsys.readouterr().out
    assert f"({found} objects, median 400 B)" in told
    assert "nczarr copy … --shards auto" in told
    packed = str(tmp_path / "packed.zarr")
    assert main(["copy", str(many_objects), packed, "--shards", "auto", "--json"]) in (0, None)
    report = json.loads(capsys.readouterr().out)
    assert report["objects"] == sum(path.is_file() for path in Path(packed).rglob("*")) < 10
    assert main(["info", packed]) in (0, None)
    assert "hint:" not in capsys.readouterr().out
    assert main(["info", "--json", packed]) in (0, None)
    described = json.loads(capsys.readouterr().out)
    assert (described["objects"], described["stored_bytes"]) == (report["objects"], report["bytes_out"])


def test_a_plan_counts_its_objects(many_objects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", str(many_objects), "unused.zarr", "--dry-run"]) in (0, None)
    assert capsys.readouterr().out.splitlines()[-1] == "total: 1200 objects, median 400 B before compression"
