"""Make the conformance kit: ``python tests/conformance/make_kit.py [FOLDER]`` writes ``nczarr-conformance-3.2.zip``."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SPEC = ROOT / "docs" / "spec"
VECTORS = ROOT / "tests" / "data" / "vectors"
#: Intact vectors that a minimal reader may refuse: other carriers, a group alone, and a data type of zarr-python 3.2.
BEYOND_MINIMAL = ("carriers", "group_alone", "user_types")


def version() -> str:
    """Return the major and the minor version of the specification."""
    found = re.search(r"^Version (\d+\.\d+)", (SPEC / "nczarr-v3.md").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def minimal() -> list[str]:
    """Return the names of the vectors that a minimal reader has to return."""
    intact = [p.stem for p in VECTORS.glob("*.findings") if not p.read_text("utf-8").strip()]
    return sorted(set(intact) - set(BEYOND_MINIMAL))


def contents() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each file of the kit."""
    for path in (HERE / "README.md", HERE / "run.py", SPEC / "minimal_reader.py", ROOT / "LICENSE"):
        yield path.name, path.read_bytes()
    yield "nczarr-v3.schema.json", (ROOT / "nczarr" / "mapping" / "nczarr-v3.schema.json").read_bytes()
    yield "minimal.txt", "".join(f"{name}\n" for name in minimal()).encode()
    for name in (
        "nczarr-v3",
        "nczarr-v3-storage",
        "nczarr-v3-recovery",
        "plain-zarr",
        "questions",
        "obligations",
        "governance",
    ):
        yield f"text/{name}.md", (SPEC / f"{name}.md").read_bytes()
    for path in sorted(VECTORS.rglob("*")):
        if path.is_file():
            yield f"vectors/{path.relative_to(VECTORS).as_posix()}", path.read_bytes()


def make(folder: Path) -> Path:
    """Write the kit into a folder; equal contents give equal bytes."""
    name = f"nczarr-conformance-{version()}"
    target = folder / f"{name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as kit:
        for path, data in contents():
            entry = zipfile.ZipInfo(f"{name}/{path}", (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            kit.writestr(entry, data)
    return target


if __name__ == "__main__":
    print(make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()))
