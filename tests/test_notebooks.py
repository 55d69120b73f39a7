"""Run the notebooks that the documentation offers, in a folder with the example file alone."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def maker() -> ModuleType:
    specification = importlib.util.spec_from_file_location(
        "make_notebooks", ROOT / "docs" / "make_notebooks.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


make_notebooks = maker()


@pytest.mark.parametrize("page", make_notebooks.PAGES)
def test_a_notebook_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert f"notebooks/{Path(page).stem}.ipynb" in text  # the page offers it
    notebook = nbformat.from_dict(make_notebooks.notebook(text))
    nbformat.validate(notebook)
    shutil.copy(ROOT / "tests" / "data" / "example.nc", tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        re.sub(r"\x1b\[[0-9;]*m", "", output["text"])  # a terminal of IPython has colours
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.source.startswith("!nczarr")
        for output in cell.outputs
        if output.output_type == "stream"
    ]
    assert not any("command not found" in text for text in printed)
    if page == "tutorial.md":
        assert any("short temp(time = 6*, depth = 4, lat = 18, lon = 36)" in text for text in printed)
