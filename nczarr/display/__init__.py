"""Show datasets as HTML in notebooks: plain values in, safe HTML and CSS out, no script.

The ``_repr_html_`` of a class builds a description, and this package draws it.
Descriptions may come from untrusted files, so all text is escaped and bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy
from nczarr.text import format_bytes, format_value, safe_html, shown_location, visible

if TYPE_CHECKING:
    from nczarr.display.html import (
        ArrayDescription,
        AttributeDescription,
        DimensionDescription,
        Each,
        GroupDescription,
        TypeDescription,
        show_array,
        show_attribute,
        show_dimension,
        show_group,
        show_members,
        show_type,
    )

__all__ = [
    "ArrayDescription", "AttributeDescription", "DimensionDescription", "Each", "GroupDescription", "TypeDescription",
    "format_bytes", "format_value", "safe_html", "show_array", "show_attribute", "show_dimension", "show_group",
    "show_members", "show_type", "shown_location", "visible",
]  # fmt: skip
if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"html": [name for name in __all__ if name not in globals()]})
