"""Run programs in forked processes that have nczarr imported: a start takes milliseconds, not half a second.

A test whose subject is the start or the end of the interpreter starts one of its own, with :mod:`subprocess`; so does
one that sets a variable of the environment that nczarr reads when it is imported.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from types import ModuleType
from typing import Any

#: The server starts with the first program. It has no threads, so that a fork of it is whole.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("nczarr.netcdf4", "nczarr.cdl", "nczarr.convert", "nczarr.cli.inspection", "nczarr.cli.conversion"),
        *("nczarr.netcdf.datasets", "nczarr.netcdf.hdf5.reader", "nczarr.netcdf.classic"),
        *(
            "importlib.metadata",
            "numcodecs",
            "deflate",
            "google_crc32c",
            "zstandard",
            "pygments.lexers",
            "tqdm",
            "nczarr.view.plotting",
            "nczarr.view.picture.drawer",
            "matplotlib.figure",
        ),
    ]
)


class _Program(CONTEXT.Process):  # type: ignore[name-defined]
    """A process that runs ``-m nczarr`` or ``-c CODE`` with files as its standard streams."""

    def __init__(
        self, words: list[str], files: tuple[int, int, int], environment: dict[str, str], space: int | None
    ) -> None:
        super().__init__()
        self.words, self.files, self.environment, self.space = words, files, environment, space
        self.folder = os.getcwd()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"files": [DupFd(file) for file in self.files]}

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        for number, file in enumerate(self.files):
            os.dup2(file.detach(), number)  # type: ignore[attr-defined]
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = _output(1, "strict")
        sys.stderr = _output(2, "backslashreplace")
        if self.space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (self.space, self.space))
        if self.words[:2] == ["-m", "nczarr"]:
            from nczarr.cli import main

            sys.argv = ["nczarr", *self.words[2:]]
            sys.exit(main())
        option, code, *arguments = self.words
        assert option == "-c"
        sys.argv = ["-c", *arguments]
        sys.path.insert(0, "")
        program = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), program.__dict__)


def _output(number: int, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        open(number, "wb", closefd=False),
        encoding=os.environ.get("PYTHONIOENCODING", "utf-8"),
        errors=errors,
        line_buffering=number == 2 or os.isatty(number),
    )


def start(
    *words: object,
    files: tuple[int, int, int],
    environment: Mapping[str, str] | None = None,
    space: int | None = None,
) -> _Program:
    """Start ``python WORDS`` with files as its standard streams; `space` bounds its memory, in bytes."""
    program = _Program(list(map(str, words)), files, dict(environment or os.environ), space)
    program.start()
    return program


def run(
    *words: object,
    environment: Mapping[str, str] | None = None,
    space: int | None = None,
    said: str = "",
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` to its end, as :func:`subprocess.run` with captured text does; `said` is its input."""
    environment = dict(environment or os.environ)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as error,
    ):
        given.write(said.encode())
        given.seek(0)
        files = given.fileno(), out.fileno(), error.fileno()
        program = start(*words, files=files, environment=environment, space=space)
        program.join()
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode(encoding, "surrogateescape"))
    done = subprocess.CompletedProcess(list(map(str, words)), program.exitcode or 0, *texts)
    if check and done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
    return done


class Piped:
    """A running program with pipes for its input and output, and :class:`subprocess.Popen`'s names for them."""

    def __init__(self, *words: object, environment: Mapping[str, str] | None = None) -> None:
        theirs, mine = os.pipe()
        read, written = os.pipe()
        self.stdin, self.stdout = os.fdopen(mine, "w"), os.fdopen(read)
        self._program = start(*words, files=(theirs, written, 2), environment=environment)
        os.close(theirs)
        os.close(written)

    @property
    def returncode(self) -> int | None:
        return self._program.exitcode

    def kill(self) -> None:
        self._program.kill()

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        self._program.join()
        assert self._program.exitcode is not None
        return self._program.exitcode

    def communicate(self, said: str = "") -> tuple[str, None]:
        """Give the rest of the input, and return the rest of the output when the program has ended."""
        # The program may have ended, or have closed its input.
        with contextlib.suppress(BrokenPipeError), self.stdin:
            self.stdin.write(said)
        with self.stdout:
            out = self.stdout.read()
        self.wait()
        return out, None


def command(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``nczarr WORDS`` with some more in the environment."""
    return run("-m", "nczarr", *words, environment={**os.environ, **environment})
