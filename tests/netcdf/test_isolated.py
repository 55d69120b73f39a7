"""Read in a child process: the dataset is the same, and the death of the child is an error."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from real_data import DATA

import nczarr
from nczarr.cli import main
from nczarr.convert.verify.check import check
from nczarr.errors import DatasetNotFoundError, NCZarrError, NetCDFFileError, UnsupportedError
from nczarr.model import DOUBLE, Dataset, Dimension, Variable, compare
from nczarr.netcdf import create_dataset, isolated, open_dataset, open_isolated


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.nc"
    variables = tuple(Variable(name, DOUBLE, ("/x",)) for name in "vw")
    with create_dataset(path, Dataset("a", dimensions=(Dimension("x", 4),), variables=variables)) as sink:
        sink.write("/v", (slice(0, 4),), np.arange(4.0))
        sink.commit()
    return path


def in_the_child(monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    """Let the child read with this body of a function instead of HDF5; ``self`` is the source."""
    code = (
        "import os, signal, time\n"
        "from nczarr.netcdf.hdf5.source import HDF5Source\n"
        "true_read = HDF5Source.read\n"
        f"def read(self, region, out=None):\n    {read}\n    return true_read(self, region, out)\n"
        "HDF5Source.read = read\n"
    )
    before_serving(monkeypatch, code)


def before_serving(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the child run this code before it answers."""
    begin, serve = isolated._PROGRAM.split("serve(sys", 1)
    monkeypatch.setattr(isolated, "_PROGRAM", f"{begin}{code}\nserve(sys{serve}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "sst", "enum_variable", "ref_tst_compounds2"])
def test_the_dataset_is_the_same(name: str) -> None:
    path = DATA / "netcdf" / f"{name}.nc"
    with open_dataset(path) as direct, open_isolated(path) as isolated:
        assert not list(compare(direct.dataset, isolated.dataset))


def test_a_region_goes_into_a_buffer(path: Path) -> None:
    with open_isolated(path) as file:
        data = file.dataset.variable_at("/v").data
        assert data is not None
        out = np.empty(2)
        assert data.read((slice(1, 4, 2),), out) is out
        assert out.tolist() == [1, 3]
    with pytest.raises(NetCDFFileError, match="closed"):
        data.read((slice(0, 1),))


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_crash_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch, signal: str) -> None:
    in_the_child(monkeypatch, f"os.kill(os.getpid(), signal.{signal})")
    with open_isolated(path) as file:
        data = file.dataset.variable_at("/v").data
        assert data is not None
        with pytest.raises(NetCDFFileError, match="ended with the exit status -"):
            data.read((slice(0, 4),))


def test_a_hang_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_child(monkeypatch, "time.sleep(3600)")
    with open_isolated(path) as file:
        data = file.dataset.variable_at("/v").data
        assert isinstance(data, isolated._IsolatedSource)
        monkeypatch.setattr(data.child, "_seconds", 1)  # a busy machine needs longer to start the child
        with pytest.raises(NetCDFFileError, match="longer than 1 s"):
            data.read((slice(0, 4),))


@pytest.mark.slow
@pytest.mark.parametrize("by_setting", [True, False])
def test_the_dataset_interface_reads_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, by_setting: bool
) -> None:
    with nczarr.Dataset(path) as direct:
        values = {name: variable[:].tolist() for name, variable in direct.variables.items()}
    if by_setting:
        monkeypatch.setenv("NCZARR_ISOLATED", "1")
    wanted = None if by_setting else True
    with nczarr.Dataset(path, isolated=wanted) as dataset:
        assert {name: variable[:].tolist() for name, variable in dataset.variables.items()} == values
        again = pickle.loads(pickle.dumps(dataset))
        assert again["v"][:].tolist() == values["v"]
        again.close()
    in_the_child(monkeypatch, "os.abort()")
    with nczarr.Dataset(path, isolated=False) as dataset:
        assert dataset["v"][:].tolist() == values["v"]
    with nczarr.Dataset(path, isolated=wanted) as dataset, pytest.raises(NetCDFFileError, match="is damaged"):
        dataset["v"][:]


def test_a_file_that_is_written_is_not_isolated(path: Path) -> None:
    for mode in ("a", "w"):
        with pytest.raises(NCZarrError, match="in a child process, not written"):
            nczarr.Dataset(path, mode, isolated=True)
    with nczarr.Dataset(path) as dataset:
        assert "v" in dataset.variables


def test_check_survives_and_names_the_variable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check(path, data=True)) == []
    in_the_child(monkeypatch, "os.abort() if self.fqn == '/w' else None")
    [finding] = check(path, data=True)
    assert finding.where == "/w"
    assert "damaged" in finding.what


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        open_isolated(tmp_path / "none.nc")
    (tmp_path / "bad.nc").write_bytes(b"CDF\x01" + b"\xff" * 40)
    with pytest.raises(NetCDFFileError, match="damaged header"):
        open_isolated(tmp_path / "bad.nc")
    [finding] = check(tmp_path / "bad.nc")
    assert "damaged header" in finding.what


def test_the_environment_is_left_alone(path: Path) -> None:
    before = copy.deepcopy(dict(os.environ))
    open_isolated(path).close()
    assert dict(os.environ) == before


@pytest.mark.slow
@pytest.mark.parametrize("command", ["dump", "copy", "info", "digest", "diff"])
def test_commands_end_with_an_error(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
) -> None:
    target = tmp_path / "b.zarr"
    words = {"copy": [target], "diff": [path], "info": ["--stats"]}.get(command, [])
    arguments = [command, "--isolated", str(path), *map(str, words)]
    assert main(arguments) == 0
    if target.exists():
        with nczarr.Dataset(target) as copied:
            assert copied["v"][:].tolist() == [0, 1, 2, 3]
        shutil.rmtree(target)
    capfd.readouterr()
    in_the_child(monkeypatch, "os.kill(os.getpid(), signal.SIGSEGV)")
    assert main(arguments) == (2 if command == "diff" else 1)
    said = capfd.readouterr().err
    assert "ended with the exit status -11; the file is damaged" in said
    assert "Traceback" not in said
    assert not target.exists()
    assert "NCZARR_ISOLATED" not in os.environ


@pytest.mark.slow
def test_the_setting_holds_for_copies(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_child(monkeypatch, "time.sleep(3600)")
    monkeypatch.setenv("NCZARR_ISOLATED", "1")
    monkeypatch.setenv("NCZARR_ISOLATED_SECONDS", "3")
    with pytest.raises(NetCDFFileError, match="longer than 3 s"):
        nczarr.copy(path, tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


def test_what_the_file_says_of_itself(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "-s", "-h", str(path)]) == 0
    plain = capfd.readouterr().out
    assert "_NCProperties" in plain
    assert main(["dump", "-s", "-h", "--isolated", str(path)]) == 0
    assert capfd.readouterr().out == plain


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_reads_through_a_child_of_its_own(path: Path) -> None:
    with open_isolated(path) as file:
        data = file.dataset.variable_at("/v").data
        assert data is not None
        process = os.fork()
        if process == 0:
            read = data.read((slice(1, 3),)).tolist()
            file.close()
            os._exit(read != [1, 2])
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        assert data.read((slice(0, 2),)).tolist() == [0, 1]


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder whose modules hide those of Python and nczarr; the file that they write if they run."""
    folder, mark = tmp_path / "trapped", tmp_path / "mark"
    folder.mkdir()
    for name in ("numpy", "nczarr", "pickle", "json", "h5py"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write(__name__)\n")
    monkeypatch.chdir(folder)
    return mark


@pytest.mark.parametrize("entry", [None, "", "."])
def test_modules_of_the_current_folder_do_not_run(
    path: Path, trapped: Path, monkeypatch: pytest.MonkeyPatch, entry: str | None
) -> None:
    if entry is not None:
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
    monkeypatch.setenv("PYTHONPATH", ".")
    with open_isolated(path) as file:
        data = file.dataset.variable_at("/v").data
        assert data is not None
        assert data.read((slice(0, 4),)).tolist() == [0, 1, 2, 3]
    assert not trapped.exists()


def test_nczarr_may_be_in_the_current_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(nczarr.__file__).parents[1])
    with open_isolated(path) as file:
        assert "/v" in file.dataset.all_variables


def test_nczarr_may_be_in_an_archive(path: Path, tmp_path: Path) -> None:
    package = Path(nczarr.__file__).parent
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        for module in package.rglob("*.py"):
            archive.write(module, module.relative_to(package.parent))
        for grammar in (package.parent / "grammar").glob("*.lark"):  # as the wheel has them
            archive.write(grammar, Path("nczarr", "grammar", grammar.name))
        archive.writestr(
            "__main__.py",
            "import sys\nfrom nczarr import netcdf\n"
            "with netcdf.open_isolated(sys.argv[1]) as file:\n"
            "    print(netcdf.__file__, file.dataset.variable_at('/v').data.read((slice(0, 4),)).tolist())\n",
        )
    command = [sys.executable, "app.pyz", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "app.pyz" in done.stdout
    assert "[0.0, 1.0, 2.0, 3.0]" in done.stdout


def test_a_child_that_was_taken_over_runs_nothing_here(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    order = f"open({str(mark)!r}, 'w').close()"
    payload = (
        "import os, pickle\n"
        f"class Order:\n    def __reduce__(self): return (exec, ({order!r},))\n"
        "os.write(1, pickle.dumps(Order()) * 40)\n"
    )
    before_serving(monkeypatch, payload)
    with pytest.raises(NCZarrError):
        open_isolated(path)
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    ["Message('values', bytes(31))", "Message('values', bytes(33))", "Message([1])", "Message({'error': 1})"],
)
def test_an_answer_of_another_form_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    code = (
        "from nczarr.netcdf import isolated\nfrom nczarr.netcdf.messages import Message\n"
        f"isolated.values_message = lambda *_: {answer}\n"
    )
    before_serving(monkeypatch, code)
    with open_isolated(path) as file:
        data = file.dataset.variable_at("/v").data
        assert data is not None
        with pytest.raises(NetCDFFileError, match="does not accept"):
            data.read((slice(0, 4),))


def test_a_child_that_does_not_start_is_no_fault_of_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_serving(monkeypatch, "raise ImportError")
    with pytest.raises(UnsupportedError, match="does not start"):
        open_isolated(path)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(UnsupportedError, match="cannot start it"):
        open_isolated(path)
