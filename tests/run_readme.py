"""Run the README's commands as printed, in a fresh clone with nothing beside it and a fresh environment.

``python tests/run_readme.py`` runs the quick start, twice in the same place; ``--tests`` runs the command of the tests;
``--wheel FILE`` runs the quick start with a built wheel in place of the clone.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def console_block(section: str) -> list[tuple[str, str]]:
    """The commands of a section's console block, each with the output shown below it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(rf"^## {section}$.*?```console\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    if block is None:
        raise SystemExit(f"the README has no console block under {section!r}")
    commands: list[tuple[str, str]] = []
    for line in block.group(1).splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:].strip(), ""))
        else:
            command, output = commands.pop()
            commands.append((command, output + line))
    return commands


def run(commands: list[tuple[str, str]], folder: Path, environment: Path, *, show: bool = False) -> None:
    """Run commands in a folder; leave the program when one fails or prints something else."""
    for command, shown in commands:
        print(f"$ {command}", flush=True)
        script = ["bash", "-c", f". {environment}/bin/activate && {command}"]
        result = subprocess.run(script, cwd=folder, capture_output=not show, text=True, check=False)
        if result.returncode:
            raise SystemExit(f"{result.stdout or ''}{result.stderr or ''}\nexit status {result.returncode}")
        if shown.strip() and shown.strip() not in (result.stdout or ""):
            raise SystemExit(f"the README shows:\n{shown}\nbut this was printed:\n{result.stdout}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--wheel", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place, environment = Path(name, "clone"), Path(name, "venv")
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        if options.wheel:
            (place / "tests" / "data").mkdir(parents=True)
            shutil.copy(ROOT / "tests" / "data" / "example.nc", place / "tests" / "data")
            wheel = options.wheel.resolve()
            commands = [(c.replace('".[', f'"{wheel}['), shown) for c, shown in console_block("Quick start")]
            assert any(str(wheel) in command for command, _ in commands)
        else:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place)], check=True)
            commands = console_block("Tests" if options.tests else "Quick start")
        for _ in range(1 if options.tests else 2):
            run(commands, place, environment, show=options.tests)
    print("the README's commands work as printed")


if __name__ == "__main__":
    main()
