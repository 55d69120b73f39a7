"""Sphinx configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import nczarr

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "nczarr"
author = "The nczarr developers"
copyright = "2026, the nczarr developers"
release = version = nczarr.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_argparse_cli",
]
exclude_patterns = ["_build", "conftest.py"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = False
napoleon_use_ivar = True
# Several classes have a `path` or are called Dataset; plain words in docstrings need no link.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "nczarr"


def setup(app: object) -> None:
    """Generate the pages and pictures that come from the code."""
    import draw_house
    import generate_grammar

    generate_grammar.main()
    draw_house.main()
