"""Test the messages and exit statuses of typical mistakes: each says the problem, its place, and what to do."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.cli import main

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
#: The arguments, a part of the message for each `|`, and the exit status.
MISTAKES = [
    # Commands and options
    ("cop a.nc b.zarr", "there is no command 'cop'|did you mean 'copy'?|nczarr -h", 2),
    ("dmp a.nc", "did you mean 'dump'?", 2),
    ("--overwrite", "COMMAND", 2),
    ("copy a.nc b.zarr --overwite", "nczarr copy: there is no option --overwite|'--overwrite'|nczarr copy -h", 2),
    ("dump a.nc --hedaer", "did you mean '--header'?|nczarr dump --help", 2),
    ("ls a.nc -q", "nczarr ls: there is no option -q", 2),
    ("copy a.nc b.zarr --layout nczar-v3", "invalid choice: 'nczar-v3'|did you mean 'nczarr-v3'?", 2),
    ("copy a.nc b.zarr -c", "expected one argument", 2),
    ("copy a.nc b.zarr --workers x", "--workers|invalid int value: 'x'", 2),
    ("copy a.nc b.zarr --workers 0", "--workers 0|at least one", 1),
    ("copy a.nc", "the target is missing|nczarr copy SOURCE TARGET", 1),
    ("copy nofile.nc", "the source is missing|nczarr copy SOURCE TARGET", 1),
    ("gen a.cdl", "the target is missing|nczarr gen -o TARGET SOURCE", 1),
    ("gen -o b.zarr a.cdl c.zarr", "the target is given twice", 1),
    ("diff a.nc", "required: right|nczarr diff -h", 2),
    ("plot a.nc", "required: VARIABLE", 2),
    ("zom a.zarr b", "one argument is too many: b", 2),
    ("completion pwsh", "'bash'|'fish'", 2),
    # Sources
    ("copy nofile.nc b.zarr", "nofile.nc: there is no such file", 1),
    ("join 'q/*.nc' b.zarr", "q/*.nc: no file matches", 1),
    ("dump nofile.zarr", "nofile.zarr: there is no such file", 1),
    ("dump empty", "empty: no Zarr hierarchy|zarr.json", 1),
    ("info empty", "empty: no Zarr hierarchy", 1),
    ("tree a.nc/ocean", "a.nc/ocean", 1),
    ("ls a.zarr/ocen", "a.zarr/ocen", 1),
    ("diff a.nc nofile.nc", "nofile.nc: there is no such file", 2),
    ("digest nofile", "nofile: there is no such file", 1),
    ("check nofile.zarr", "nofile.zarr: there is no such file", 2),
    ("repair a.nc", "a.nc: this is an HDF5 (netCDF-4) file, not a Zarr", 1),
    ("zom a.nc", "a.nc: this is an HDF5 (netCDF-4) file, not a Zarr", 1),
    ("consolidate a.nc", "a.nc: this is an HDF5 (netCDF-4) file, not a Zarr", 1),
    ("gen a.nc b.zarr", "a.nc: this is a netCDF file, not CDL text|nczarr copy", 1),
    ("gen broken.cdl b.zarr", "broken.cdl:2:2:", 1),
    ("view nofile.nc", "nofile.nc: there is no such file", 1),
    # Targets
    ("copy a.nc a.zarr", "a.zarr: the dataset exists already|--overwrite", 1),
    ("copy a.nc a.nc", "the source and the target are the same", 1),
    ("copy a.nc no/such/b.zarr", "no/such/b.zarr: the directory no/such does not exist|mkdir -p no/such", 1),
    ("copy a.nc a.cdl/b.zarr", "a.cdl/b.zarr: a.cdl is not a directory", 1),
    ("gen a.cdl no/b.nc", "no/b.nc: the directory no does not exist", 1),
    ("copy a.nc b.json", "b.json|--virtual writes references", 1),
    ("copy a.zarr b.json --virtual", "--virtual: the source is neither a netCDF file nor references", 1),
    ("append a.nc b.zarr", "b.zarr: there is no dataset to append to|nczarr join create", 1),
    ("copy a.nc s3:/bucket/b.zarr", "s3://bucket", 1),
    ("copy a.nc b.nc -7", "b.nc: /ocean|netCDF-4 classic model|groups", 1),
    ("copy a.nc b.nc -k NETCDF5", "there is no netCDF format 'NETCDF5'|cdf5", 1),
    # Selections
    ("copy a.nc b.zarr -v tmp", "-v tmp: there is no such variable|did you mean 'temp'?", 1),
    ("copy a.nc b.zarr -g ocen", "-g ocen: there is no such group|did you mean 'ocean'?", 1),
    ("copy a.nc b.zarr -d lat=500.:600.", "/lat goes from -85.0 to 85.0", 1),
    ("copy a.nc b.zarr -d latt=1", "-d latt: there is no such dimension|did you mean 'lat'?", 1),
    ("copy a.nc b.zarr -d 5", "-d 5: not a selection|NAME=START:STOP", 1),
    ("copy a.nc b.zarr --rename temp=t", "--rename temp: there is nothing of this name|did you mean '/ocean/temp'?", 1),
    ("copy a.nc b.zarr --rename temp", "--rename 'temp' is not OLD=NEW|--rename /ocean/temp=t", 1),
    ("dump a.nc -v tmp", "there is no variable 'tmp'|did you mean 'temp'?", 1),
    ("plot a.nc tmp -o x.png", "there is no variable 'tmp'|did you mean 'temp'?", 1),
    ("plot a.nc /ocean/temp -o x.png -d tme=1", "there is no dimension 'tme'|time, depth, lat, lon", 1),
    ("plot a.nc /ocean/temp -o x.png -d lat=500.", "lat has no value 500.0|85.0", 1),
    ("plot a.nc /ocean/temp -o x.png --colours virdis", "there is no colour map 'virdis'|viridis", 1),
    ("plot a.nc /ocean/temp -o x.pgn", "x.pgn: unknown image format|png", 1),
    # Storage
    ("copy a.nc b.zarr -c x=1", "--chunks x: there is no such dimension|/time", 1),
    ("copy a.nc b.zarr -c //", "--chunks: '//'|time=1,lat=100", 1),
    ("copy a.nc b.zarr --compression zst", "there is no compression 'zst'|zstd:3", 1),
    ("copy a.nc b.zarr --memory 3potatoes", "'3potatoes' is not a number of bytes|512MiB", 1),
    ("copy a.nc b.zarr --quantize temp", "--quantize temp|temp=3", 1),
    ("copy a.nc b.zarr --storage-option anon", "'anon' is not KEY=VALUE|anon=true", 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a netCDF file, its copies in Zarr and CDL, and things that are no datasets."""
    place = tmp_path_factory.mktemp("mistakes")
    shutil.copy(EXAMPLE, place / "a.nc")
    for name in ("a.zarr", "a.cdl"):
        nczarr.copy(EXAMPLE, place / name)
    (place / "empty").mkdir()
    (place / "broken.cdl").write_text("netcdf broken {\n dimension: x = 3 ;\n}\n")
    return place


@pytest.mark.parametrize(("arguments", "message", "status"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_mistake(
    arguments: str,
    message: str,
    status: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    try:
        found = main(shlex.split(arguments))
    except SystemExit as ended:
        found = int(ended.code or 0)
    printed = capsys.readouterr().err
    assert found == status, printed
    for part in message.split("|"):
        assert part in printed
    assert printed.startswith("nczarr"), printed
    assert "Traceback" not in printed
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no folder that refuses files of root")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("copy -q {} {}", name) for name in ("x.zarr", "x.zip", "x.nc", "x.cdl")),
        ("copy -q --virtual {} {}", "x.json"),
        ("dump {} -o {}", "x.cdl"),
        ("plot {} /ocean/temp -o {}", "x.png"),
    ],
)
def test_a_folder_that_takes_no_files(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the path of the user, not a key or a temporary name, and the folder that refuses it."""
    assert main(command.format(EXAMPLE, f"/proc/{name}").split()) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"nczarr: /proc/{name}: ")
    assert printed.endswith(
        ": No such file or directory (nothing can be created in /proc; give a path in another folder)\n"
    )
    assert main(["info", f"/proc/{name}"]) == 1
    assert capsys.readouterr().err == f"nczarr: /proc/{name}: there is no such file or directory\n"


@pytest.mark.parametrize("name", ["x.zarr", "x.zip"])
def test_a_file_in_the_place_of_the_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / name)
    with pytest.raises(nczarr.NCZarrError) as caught:
        nczarr.copy(EXAMPLE, path)
    assert (caught.value.path, caught.value.hint) == (
        path,
        f"{tmp_path}/file is not a directory; give a path in another folder",
    )


@pytest.mark.parametrize("command", ["dump {} -o {}", "copy -q {} {}"])
def test_an_error_of_the_source_is_not_one_of_the_target(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a.nc"
    with nczarr.Dataset(source, "w") as ds:
        ds.createDimension("x", 1000)
        ds.createVariable("v", "i4", ("x",), zlib=True, fletcher32=True)[:] = np.arange(1000) ** 2
    stored = source.read_bytes()
    start = stored.index(b"\x78\x5e")  # a stream of zlib
    source.write_bytes(stored[: start + 20] + b"\xff" * 100 + stored[start + 120 :])
    assert main(command.format(source, tmp_path / "a.cdl").split()) == 1
    assert capsys.readouterr().err.startswith(f"nczarr: {source}: /v: the values cannot be read")
    assert not (tmp_path / "a.cdl").exists()
