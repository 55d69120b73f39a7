"""Write what depends on the place of the repository into the metadata of a package: addresses, and the links of README.

The environment variable ``NCZARR_REPOSITORY`` is that place, as in ``https://github.com/OWNER/nczarr``. Without it, a
package has no addresses, and the README has its links to files.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: Links of Markdown, and of HTML inside it, to files of the repository.
_LINKS = re.compile(r'(?P<before>\]\(|\b(?:href|src)=")(?P<path>(?![a-z]+:|#)[^)"\s]+)')
#: Pages of the project, by the names that package indexes know.
_PAGES = {"Documentation": "docs/index.md", "Changelog": "docs/changelog.md"}


def with_absolute_links(text: str, repository: str, version: str) -> str:
    """Return a text whose links and pictures name the files of a version of the repository."""

    def absolute(link: re.Match[str]) -> str:
        # A page shows a picture from its bytes, and a document from the page about it.
        kind = "raw" if link["before"].startswith("src") else "blob"
        return f"{link['before']}{repository}/{kind}/v{version}/{link['path']}"

    return _LINKS.sub(absolute, text)


def addresses(repository: str, version: str) -> dict[str, str]:
    """Return the addresses of the project, by name."""
    pages = {name: f"{repository}/blob/v{version}/{path}" for name, path in _PAGES.items()}
    return {"Source": repository, "Issues": f"{repository}/issues", **pages}


class RepositoryHook(MetadataHookInterface):
    """Fill in the fields of ``pyproject.toml`` that are dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text of the README, and the addresses if they are known."""
        root = Path(self.root)
        text = (root / "README.md").read_text(encoding="utf-8")
        source = (root / "nczarr" / "__init__.py").read_text(encoding="utf-8")
        repository = os.environ.get("NCZARR_REPOSITORY", "").rstrip("/")
        metadata["urls"] = {}
        if repository:
            version = re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE)[0]
            text = with_absolute_links(text, repository, version)
            metadata["urls"] = addresses(repository, version)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
