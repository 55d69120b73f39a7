"""Test the preconditions of a release: one version everywhere, and documents that other programs read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import nczarr

ROOT = Path(__file__).parents[1]


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE).group(1) == nczarr.__version__  # type: ignore[union-attr]
    changelog = (ROOT / "docs" / "changelog.md").read_text("utf-8")
    assert re.search(r"^## (\S+) \(", changelog, re.MULTILINE).group(1) == nczarr.__version__  # type: ignore[union-attr]
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text("utf-8")
    assert re.search(r'version: "(.*)"', recipe).group(1) == nczarr.__version__  # type: ignore[union-attr]


def test_the_conda_recipe_has_the_requirements_of_the_package() -> None:
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    run = recipe[recipe.index("  run:") : recipe.index("  run_constraints:")]
    wanted = [
        f"python {project['requires-python']}",
        *(d.replace(">=", " >=") for d in project["dependencies"]),
    ]
    assert re.findall(r"- (.*)", run) == wanted
    optional = {name.replace(">=", " >=") for name in _requirements()}
    for constraint in re.findall(
        r"- (.*)", recipe[recipe.index("  run_constraints:") : recipe.index("tests:")]
    ):
        assert any(name.replace("[array,distributed]", "") == constraint for name in optional), constraint


def test_every_python_classifier_has_a_job() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    claimed = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: \d+\.\d+$", c)]
    matrix = re.search(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert matrix is not None
    assert claimed == re.findall(r'"([\d.]+)"', matrix[1])
    assert project["requires-python"] == f">={claimed[0]}"


def test_links_of_the_readme_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text("utf-8")
        links = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'src="([^"]+)"', text)
        local = [link for link in links if "://" not in link]
        assert local
        for link in local:
            assert (ROOT / link).exists(), f"{name}: {link}"


def test_a_package_has_absolute_links_and_addresses_where_its_repository_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An index shows the README far from the files that it names."""
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    def metadata() -> Any:
        return ProjectMetadata(str(ROOT), PluginManager()).core

    monkeypatch.setenv("NCZARR_REPOSITORY", "https://example.org/team/nczarr/")
    found = metadata()
    links = re.findall(r"\]\(([^)]+)\)", found.readme) + re.findall(r'(?:src|href)="([^"]+)"', found.readme)
    there = f"https://example.org/team/nczarr/{{}}/v{nczarr.__version__}/docs/"
    assert len(links) > 10
    assert all(
        link.startswith((there.format("blob"), there.format("raw"), found.urls["Source"])) for link in links
    )
    pictures = [link for link in links if link.endswith((".png", ".svg"))]
    assert pictures
    assert all(link.startswith(there.format("raw")) for link in pictures)
    assert (found.urls["Source"], len(found.urls)) == ("https://example.org/team/nczarr", 4)
    monkeypatch.delenv("NCZARR_REPOSITORY")
    assert (metadata().urls, metadata().readme) == ({}, (ROOT / "README.md").read_text("utf-8"))


def test_dotted_names_of_the_architecture_page_are_modules() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    names = re.findall(r"\{mod\}`(?:[^<`]*<)?(nczarr[\w.]*)>?`", text)
    assert len(names) > 5
    for name in names:
        path = ROOT.joinpath(*name.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_hints_are_commands_for_every_shell() -> None:
    """No quotes, no brackets, and only packages of an index: a clone is not one."""
    # An extra of a package can be the name of another package, as with dask[distributed].
    needed = {word for name in _requirements() for word in re.split(r"[\[\],]", name.partition(">")[0])}
    found = 0
    for path in sorted((ROOT / "nczarr").rglob("*.py")):
        text = path.read_text("utf-8")
        for command in re.findall(r'(?:pip install |missing_package\(\s*")([^\n{]*?)["`,]', text):
            packages = command.split()
            assert all(re.fullmatch(r"[a-z0-9-]+", package, re.IGNORECASE) for package in packages), (
                path,
                command,
            )
            assert set(packages) <= needed, (path, command)
            found += 1
    assert found > 10


def test_a_missing_package_names_the_extra_that_brings_it() -> None:
    extras = _extras()
    found = set()
    for path in sorted((ROOT / "nczarr").rglob("*.py")):
        for packages, extra in re.findall(
            r'missing_package\(\s*"([^"]+)", "(\w+)"\s*\)', path.read_text("utf-8")
        ):
            brought = {word for name in extras[extra] for word in re.split(r"[\[\],>]", name)}
            assert set(packages.split()) <= brought, (path, packages, extra)
            found.add(extra)
    assert found == {"netcdf", "cli", "view", "xarray", "dask", "s3", "http", "virtual", "schema"}


def _requirements() -> list[str]:
    return [name for names in _extras().values() for name in names]


def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found
