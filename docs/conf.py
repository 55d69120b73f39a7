"""Sphinx configuration."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

import nczarr
from nczarr.cdl.highlighting import CDLLexer

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
    "sphinx_design",
]
exclude_patterns = ["_build", "conftest.py"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Links between sources and the names under which fronts give them would lead nowhere.
viewcode_follow_imported_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = False
napoleon_use_ivar = True
# Several classes have a `path` or are called Dataset; plain words in docstrings need no link.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "nczarr"
html_logo = html_favicon = "../nczarr/view/page/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#0b7285",
        "color-brand-content": "#0b7285",
    },
    "dark_css_variables": {"color-brand-primary": "#5cc3d9", "color-brand-content": "#5cc3d9"},
}


def setup(app: Sphinx) -> None:
    """Generate the pages, pictures and notebooks that come from the code and from pages; colour CDL."""
    import draw_house
    import generate_errors
    import generate_grammar
    import make_notebooks

    app.add_lexer("cdl", CDLLexer)

    generate_errors.main()
    generate_grammar.main()
    draw_house.main()
    make_notebooks.main()
