"""Test the output of commands for people and programs, on any terminal, with hostile names."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import programs
import pytest
import zarr as zarr_python
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.cli import main
from nczarr.cli.arguments import COMMANDS, build_parser
from nczarr.display import visible
from nczarr.errors import StoreError
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Variable
from nczarr.stores import LocalStore

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"


def test_info_is_what_zarr_python_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.zarr"
    nczarr.copy(EXAMPLE, out, chunks="lat=6", shards={"lat": 18}, compression="zstd:4")
    assert main(["info", "--json", "--stats", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    group = zarr_python.open_group(out, mode="r")
    with netCDF4.Dataset(EXAMPLE) as original:
        for variable in found["variables"]:
            array = group[variable["fqn"][1:]]
            assert isinstance(array, zarr_python.Array)
            assert list(array.chunks) == variable["chunks"]
            assert (list(array.shards) if array.shards else None) == variable["shards"]
            files = [p for p in (out / variable["fqn"][1:] / "c").rglob("*") if p.is_file()]
            assert len(files) == variable["objects_stored"]
            assert sum(p.stat().st_size for p in files) == variable["stored_bytes"]
            values = original[variable["fqn"]]
            values.set_auto_scale(False)
            if values.dtype is not str and values.dtype.kind in "if":
                assert variable["minimum"] == values[:].min()
                assert variable["missing"] == np.ma.count_masked(values[:])


def test_info_of_a_netcdf_file_is_what_h5py_sees(capsys: pytest.CaptureFixture[str]) -> None:
    h5py = pytest.importorskip("h5py")
    assert main(["info", "--json", str(EXAMPLE)]) == 0
    found = json.loads(capsys.readouterr().out)
    with h5py.File(EXAMPLE) as file:
        for variable in found["variables"]:
            dataset = file[variable["fqn"]]
            assert variable["stored_bytes"] == dataset.id.get_storage_size()
            assert variable["chunks"] == (list(dataset.chunks) if dataset.chunks else None)
    assert main(["info", str(EXAMPLE), str(EXAMPLE)]) == 0
    assert capsys.readouterr().out.count("/ocean/temp") == 2


def test_ls_and_tree_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", str(EXAMPLE)]) == 0
    assert "/ocean/temp" in capsys.readouterr().out.splitlines()
    assert main(["ls", "-l", str(EXAMPLE)]) == 0
    assert "6x4x18x36" in capsys.readouterr().out
    assert main(["tree", "--json", str(EXAMPLE)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [g["name"] for g in found["groups"]] == ["ocean", "atmosphere"]
    assert found["dimensions"][0] == {"name": "time", "size": 6, "unlimited": True}


def test_tree_shows_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "a.zarr")
    nczarr.copy(EXAMPLE, out, chunks="lat=6", shards={"lat": 18}, only="/lat")
    assert main(["tree", out]) == 0
    assert "float lat(lat = 18) in shards of 18\n" in capsys.readouterr().out
    assert main(["tree", "--json", out]) == 0
    assert [v["shards"] for v in json.loads(capsys.readouterr().out)["variables"]] == [[18]]


HOSTILE = "a\x1b]0;owned\x07\u202eb"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Names that Zarr can hold and a terminal had better not see."""
    names = ["süd\u202e", "温度", "x" * 200]
    variables = tuple(Variable(n, INT, ("/d",), data=MemorySource(np.zeros(1, "i4"))) for n in names)
    attributes = (Attribute.of("title", HOSTILE),)
    dataset = Dataset("d", dimensions=(Dimension("d", 1),), variables=variables, attributes=attributes)
    nczarr.copy(dataset, tmp_path / "hostile.zarr")
    return tmp_path / "hostile.zarr"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize("command", ["info", "tree", "ls", "diff"])
def test_no_terminal_is_too_poor(hostile: Path, encoding: str, command: str) -> None:
    words = [command, str(hostile)] + ([str(EXAMPLE)] if command == "diff" else [])
    done = programs.command(*words, PYTHONIOENCODING=encoding)
    assert done.returncode == (1 if command == "diff" else 0), done.stderr
    said = done.stdout
    assert not any(ord(c) < 32 and c != "\n" for c in said)
    assert "\u202e" not in said
    assert "\\u202e" in said


@given(st.text())
def test_visible_text_has_no_controls(text: str) -> None:
    seen = visible(text)
    assert all(c.isprintable() or c in "\n\t" or ord(c) > 0x9F for c in seen)
    assert visible("plain ä 温") == "plain ä 温"


def test_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    (verbs,) = [a for a in build_parser()._actions if hasattr(a, "choices") and isinstance(a.choices, dict)]
    choices: dict[str, Any] = dict(verbs.choices)  # type: ignore[arg-type]
    lacking = {name for name, parser in choices.items() if "nczarr " + name not in (parser.epilog or "")}
    assert not lacking


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert "--overwrite" in said
    assert "digest" in said


def test_completion_of_fish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 0
    script = tmp_path / "nczarr.fish"
    script.write_text(capsys.readouterr().out)
    lines = script.read_text().splitlines()
    assert sum("__fish_use_subcommand" in line for line in lines) == len(COMMANDS)
    assert any("'__fish_seen_subcommand_from copy' -l overwrite -d" in line for line in lines)
    if shutil.which("fish"):  # the shell itself completes an option, and the choices of another one
        for words, found in (("copy --overw", "--overwrite"), ("copy --layout nczarr-v", "nczarr-v3")):
            command = f"source {script}; complete -C 'nczarr {words}'"
            said = subprocess.run(
                ["fish", "-N", "-c", command], capture_output=True, text=True, check=True
            ).stdout
            assert found in said


def test_progress_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["copy", str(EXAMPLE), str(tmp_path / "a.zarr")], ["digest", str(EXAMPLE)]):
        assert main([*words, "--progress", "json"]) == 0
        lines = [
            json.loads(line)["progress"] for line in capsys.readouterr().err.splitlines() if line[0] == "{"
        ]
        assert lines[0]["bytes"] == 0
        assert lines[-1]["bytes"] == lines[-1]["total"] > 0
        assert lines[-1]["fqn"].startswith("/")
        assert [line["bytes"] for line in lines] == sorted(line["bytes"] for line in lines)


def test_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
    assert main(["doctor", "--json", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    checks = [json.loads(line) for line in said.splitlines()]
    assert {"name": "numpy", "passed": True} in [{k: c[k] for k in ("name", "passed")} for c in checks]
    assert [c["name"] for c in checks if c["topic"] == "round trip"] == ["zarr", "zip", "nc", "zarr"]
    assert "AWS_ACCESS_KEY_ID" in said
    assert "the-key" not in said
    assert not list(tmp_path.iterdir())


def test_doctor_finds_a_place_where_nothing_can_be_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: LocalStore, prefix: str) -> None:
        raise StoreError("deletion is refused", path=self.url)

    monkeypatch.setattr(LocalStore, "delete_prefix", refuse)
    assert main(["doctor", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "deletion is refused" in printed
    assert f"{tmp_path}: written, equal, removed" not in printed


def test_doctor_finds_a_place_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(tmp_path / "missing")]) == 1
    assert "FAILED  zarr" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    new, old = tmp_path / "new.zarr", tmp_path / "old.zarr"
    nczarr.copy(EXAMPLE, new)
    nczarr.copy(EXAMPLE, old, layout="zarr-v2", lossy=True)
    return new, old


def test_zom_doors(stores: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, old = map(str, stores)
    assert main(["zom", "--flatten", new]) == 0
    flat = json.loads(capsys.readouterr().out)
    for path, node in flat.items():
        stored = json.loads((stores[0] / path / "zarr.json").read_text("utf-8"))
        stored.pop("consolidated_metadata", None)
        assert {**node, "attributes": node["attributes"] or {}} == {"attributes": {}, **stored}
    assert main(["zom", "--to-v3", old]) == 0
    brought = json.loads(capsys.readouterr().out)
    assert brought["zarr_format"] == 3
    assert brought["members"]["ocean"]["members"]["temp"]["dimension_names"] == [
        *("time", "depth", "lat", "lon")
    ]
    model = tmp_path / "model.json"
    model.write_text(json.dumps(brought))
    assert main(["zom", "--create", str(tmp_path / "made.zarr"), str(model)]) == 0
    array = zarr_python.open_group(tmp_path / "made.zarr", mode="r")["ocean/temp"]
    assert isinstance(array, zarr_python.Array)
    assert array.shape == (6, 4, 18, 36)
    assert main(["zom", "--create", str(tmp_path / "made.zarr"), str(model)]) == 1
    assert "the target is not empty" in capsys.readouterr().err
    assert main(["zom", "--compare", str(tmp_path / "made.zarr"), str(model)]) == 0
    assert main(["zom", "--compare", new, str(model)]) == 1
    assert "/ocean/temp: properties differ" in capsys.readouterr().out
    pattern = tmp_path / "pattern.json"
    pattern.write_text('{"members": {"ocean": {"members": {"temp": {"shape": ["*", 4, 18, 36]}}}}}')
    assert main(["zom", "--match", str(pattern), new]) == 0
    pattern.write_text('{"members": {"*": {"node_type": "array"}}}')
    assert main(["zom", "--match", str(pattern), new]) == 1
    assert "members['ocean'].node_type: 'group', not 'array'" in capsys.readouterr().out
    assert main(["zom", "--path", "ocean", new]) == 0
    part = json.loads(capsys.readouterr().out)
    assert set(part["members"]) == {"depth", "temp", "salt", "flag"}
    for bad in (
        ["zom", "--path", "nowhere", str(model)],
        ["zom", "--match", str(EXAMPLE), new],
        ["zom", "x.json"],
    ):
        assert main(bad) == 1
        assert capsys.readouterr().err.count("\n") == 1


def test_validate(stores: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jsonschema")
    assert main(["validate", *map(str, stores)]) == 0
    bad = tmp_path / "bad.json"
    bad.write_text('{"zarr_format": 3, "node_type": "group", "members": {}}')
    assert main(["validate", str(stores[0]), str(bad)]) == 1
    assert capsys.readouterr().out == f"{bad}: $: 'attributes' is a required property\n"
    assert main(["validate", "--json", str(stores[0]), str(bad)]) == 1
    assert json.loads(capsys.readouterr().out) == {
        str(stores[0]): [],
        str(bad): ["$: 'attributes' is a required property"],
    }


def test_several_inputs(stores: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    new, old = map(str, stores)
    assert main(["dump", "-h", new, old]) == 0
    assert capsys.readouterr().out.count("netcdf ") == 2
    assert main(["dump", "-n", "x", new, old]) == 1
    assert "-n works with one dataset only" in capsys.readouterr().err
    next(p for p in stores[1].rglob("temp/0*") if p.is_file()).write_bytes(b"damage")
    assert main(["check", "--data", new, old]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{old}:"
    assert len(said) == 2
    assert main(["check", "--data", "--json", new, old]) == 1
    assert json.loads(capsys.readouterr().out)["source"] == old
    assert main(["consolidate", new, old]) == 0


def test_ncdump_flags_of_other_libraries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "-hs", str(EXAMPLE)]) == 0
    plain = capsys.readouterr().out
    assert main(["dump", "-hs", "-Xp", str(EXAMPLE)]) == 0
    assert [
        line for line in plain.splitlines() if "_NCProperties" not in line
    ] == capsys.readouterr().out.splitlines()
    with pytest.raises(SystemExit):
        main(["dump", "-X", "q", str(EXAMPLE)])
    assert main(["dump", "-L", "-1", str(EXAMPLE)]) == 1
    done = programs.command("dump", "-h", "-L3", EXAMPLE)
    assert done.returncode == 0
    assert done.stdout == programs.command("dump", "-h", EXAMPLE).stdout


def test_whole_variables_of_a_url_are_fetched_once(tmp_path: Path) -> None:
    """In chunks that lie across the rows of the text: without -w each is fetched for several of them."""
    from nczarr.cdl import dumps
    from nczarr.convert import open_source
    from nczarr.convert.endpoints import read_whole

    read: list[str] = []

    class Source:
        shape, dtype = (4, 3), np.dtype("i4")

        def __init__(self, name: str) -> None:
            self.name = name

        def read(self, region: Any, out: Any = None) -> np.ndarray:
            read.append(self.name)
            return np.arange(12, dtype="i4").reshape(4, 3)[region]

    dimensions = (Dimension("y", 4), Dimension("x", 3))
    variables = tuple(Variable(n, INT, ("/y", "/x"), data=Source(n)) for n in "ab")
    dataset = Dataset("d", dimensions=dimensions, variables=variables)
    whole = read_whole(dataset)
    for _, variable in whole.all_variables.items():
        assert variable.data is not None
        for row in range(4):
            values = variable.data.read((slice(row, row + 1), slice(0, 3)))
            assert values.tolist() == [[3 * row, 3 * row + 1, 3 * row + 2]]
    assert read == ["a", "b"]
    assert dumps(whole) == dumps(dataset)
    url = f"memory://{tmp_path.name}.zarr"
    nczarr.copy(EXAMPLE, url)
    with open_source(url) as remote, open_source(EXAMPLE) as local:
        assert dumps(remote).partition("data:")[2] == dumps(local).partition("data:")[2]
    assert main(["dump", "-w", "-h", url]) == 0


@pytest.mark.parametrize(
    ("format", "named"),
    [
        ("NETCDF4", "netCDF-4"),
        ("NETCDF4_CLASSIC", "netCDF-4 classic model"),
        ("NETCDF3_64BIT_OFFSET", "64-bit offset"),
    ],
)
def test_info_names_the_format_that_a_store_was_copied_from(
    format: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    netCDF4.Dataset(tmp_path / "a.nc", "w", format=format).close()
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr")
    assert main(["info", str(tmp_path / "a.zarr")]) in (0, None)
    assert f"origin:      {named}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_no_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"] if name else ["--help"])
    assert ended.value.code in (0, None)
    out, err = capsys.readouterr()
    assert f"usage: nczarr {name}".rstrip() in out
    assert not err


@pytest.mark.parametrize("columns", ["80", "60", "200"])
def test_info_fits_the_terminal(
    columns: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", columns)
    nczarr.copy(EXAMPLE, "a.zarr", compression="zstd:4")
    assert main(["info", "--stats", "a.zarr", str(EXAMPLE)]) == 0
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if not line.startswith("path:")]
    assert max(map(len, lines)) <= int(columns)
    assert shown.count("/atmosphere/station_name") == 2
    assert "Kerguelen, Jan Mayen, Île Amsterdam" in shown


def test_an_exchange_of_two_letters_is_the_first_guess(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["dump", "-v", "tmep"], ["copy", "--dry-run", "-v", "tmep"]):
        target = ["a.zarr"] if words[0] == "copy" else []
        assert main([*words, str(EXAMPLE), *target]) == 1
        assert "did you mean 'temp'?" in capsys.readouterr().err
