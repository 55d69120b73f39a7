"""Turn pages into notebooks, which readers download and run: ``docs/notebooks``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGES = ("tutorial.md", "howto/appending.md")
_CODE = re.compile(r"^```(python|console)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
#: Links to other pages, and the lines that offer the notebook itself.
_LINK, _OFFER = (
    re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)"),
    re.compile(r"^.*\{download\}.*\n", re.MULTILINE),
)


def notebook(text: str) -> dict[str, Any]:
    """Return the notebook of a page: Python as it is, commands after an exclamation mark, without their output."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, source: str) -> None:
        if source := source.strip():
            code = {"execution_count": None, "outputs": []} if kind == "code" else {}
            cells.append(
                {"id": f"cell-{len(cells)}", "cell_type": kind, "metadata": {}, "source": source, **code}
            )

    rest = 0
    text = _LINK.sub(r"\1", _OFFER.sub("", text))
    for found in _CODE.finditer(text):
        add("markdown", text[rest : found.start()])
        lines = [line for line in found[2].splitlines() if line.startswith("$ ")]
        add("code", found[2] if found[1] == "python" else "\n".join(f"!{line[2:]}" for line in lines))
        rest = found.end()
    add("markdown", text[rest:])
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    for page in PAGES:
        target = HERE / "notebooks" / f"{Path(page).stem}.ipynb"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(notebook((HERE / page).read_text("utf-8")), indent=1), "utf-8")


if __name__ == "__main__":
    main()
