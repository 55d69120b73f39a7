"""Test the cost of importing nczarr, and its promises."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import nczarr

HEAVY = [
    "asyncio", "cftime", "dask", "fsspec", "h5py", "lark", "netCDF4", "numcodecs", "numpy", "xarray", "zarr",
]  # fmt: skip


def test_import_is_light() -> None:
    code = f"import nczarr, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_is_light() -> None:
    code = "import sys; from nczarr.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    code += f"\nprint([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"


def test_a_dataset_loads_neither_codecs_nor_what_a_writer_needs() -> None:
    """Each of these takes a hundredth of the start of a program, or more."""
    late = ["nczarr.zarr.codecs", "nczarr.zarr.types", "hashlib", "glob", "shutil", "subprocess", "uuid"]
    code = f"import nczarr, sys; nczarr.Dataset; print([m for m in {late!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_few_methods_are_compiled_at_the_import() -> None:
    """The standard library compiles six methods for each frozen dataclass, which was half of the start."""
    code = (
        "import numpy, dataclasses; made = []; compiled = dataclasses._create_fn\n"
        "dataclasses._create_fn = lambda *a, **k: made.append(1) or compiled(*a, **k)\n"
        "import nczarr; nczarr.Dataset; print(len(made))"
    )
    if not hasattr(dataclasses, "_create_fn"):
        pytest.skip("this Python compiles all methods of a dataclass at once")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 10


def test_a_dump_loads_nothing_that_only_other_commands_need(tmp_path: Path) -> None:
    """Each of these takes a hundredth of ``nczarr dump -h``, or more."""
    late = ["cftime", "fsspec", "hashlib", "lark", "logging", "numcodecs", "traceback", "zipfile"]
    path = tmp_path / "a.zarr"
    nczarr.Dataset(path, "w").close()
    code = f"from nczarr.cli.main import main; main(['dump', '-h', {str(path)!r}])"
    code += f"\nimport sys; print([m for m in {late!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_command_compiles_the_expressions_that_it_uses() -> None:
    """One with all characters from U+0080 to U+10FFFF took a tenth of ``nczarr dump -h``."""
    code = (
        "import re; made = []; compiled = re._compiler.compile\n"
        "re._compiler.compile = lambda p, *a: made.append(p) or compiled(p, *a)\n"
        "import json, pathlib, numpy; made.clear()\n"
        "import nczarr.mapping.nczarr2.write, nczarr.cdl.write.dump; print(len(made))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 10


def test_a_log_is_read_by_a_program_that_asks_for_it(tmp_path: Path) -> None:
    code = (
        "import sys, nczarr; assert 'logging' not in sys.modules\n"
        f"nczarr.Dataset({str(tmp_path / 'a.zarr')!r}, 'w').close()\n"
        "import logging; logging.basicConfig(level='DEBUG')\n"
        f"nczarr.Dataset({str(tmp_path / 'a.zarr')!r}).close()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "DEBUG:nczarr.zarr:" in result.stderr


def test_every_public_name_is_there() -> None:
    import nczarr

    for name in nczarr.__all__:
        assert getattr(nczarr, name) is not None
