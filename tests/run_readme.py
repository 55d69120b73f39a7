"""Run the README's quick start exactly as printed: a fresh clone, a fresh environment, nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def quick_start() -> list[tuple[str, str]]:
    """The commands of the README's first console block, each with the output shown below it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL)
    assert block is not None, "the README has no console block"
    commands: list[tuple[str, str]] = []
    for line in block.group(1).splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:].strip(), ""))
        else:
            command, output = commands.pop()
            commands.append((command, output + line))
    return commands


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        clone, venv = Path(folder, "clone"), Path(folder, "venv")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        for command, shown in quick_start():
            print(f"$ {command}", flush=True)
            script = f". {venv}/bin/activate && {command}"
            result = subprocess.run(
                ["bash", "-c", script], cwd=clone, capture_output=True, text=True, check=False
            )
            if result.returncode:
                print(result.stdout, result.stderr, sep="\n")
                return 1
            if shown.strip() and shown.strip() not in result.stdout:
                print(f"the README shows:\n{shown}\nbut this was printed:\n{result.stdout}")
                return 1
    print("the README's commands work as printed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
