"""Load CDL files and texts as datasets of the model."""

from __future__ import annotations

import os
from os import PathLike, fspath

from nczarr.cdl.read.analyzer import Analyzer
from nczarr.cdl.syntax.parser import parse
from nczarr.cdl.syntax.runs import NeedsSlowPath
from nczarr.cdl.syntax.source import Problems, SourceText, TooManyProblems
from nczarr.errors import CDLError, ModelError
from nczarr.formats import special_kind
from nczarr.model import Dataset, resolve


def load(path: str | PathLike[str]) -> Dataset:
    """Read a CDL file.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Dataset
        Resolved, with data: values of the text in memory, the fill value elsewhere.

    Raises
    ------
    CDLError
        If the file cannot be read, or the text is wrong; with all problems in ``problems``.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "a.cdl")
    ...     with open(name, "w") as file:
    ...         _ = file.write("netcdf a { dimensions: x = 3; }")
    ...     load(name).dimensions
    (Dimension(name='x', size=3, unlimited=False),)
    """
    name = fspath(path)
    return _load(_contents(name), name)


def _contents(name: str) -> str:
    """Return the bytes of a file, one character each."""
    try:
        kind = special_kind(os.stat(name).st_mode)
        if kind not in (None, "pipe"):  # a pipe is allowed, for example a shell's <(command)
            raise CDLError(f"this is a {kind}, not a CDL file", path=name)
        with open(name, "rb") as file:
            return file.read().decode("latin-1")
    except OSError as error:
        raise CDLError(f"cannot be read: {error.strerror}", path=name) from None


def loads(text: str, *, path: str | None = None) -> Dataset:
    """Read CDL from a text.

    Parameters
    ----------
    text : str
    path : str, optional
        Origin of the text, for messages.

    Returns
    -------
    Dataset
        Resolved, with data: values of the text in memory, the fill value elsewhere.

    Raises
    ------
    CDLError
        If the text is wrong; with all problems in ``problems``.

    Examples
    --------
    >>> ds = loads("netcdf a { dimensions: x = 3; variables: int v(x); data: v = 1, _, 3; }")
    >>> ds.variables[0].data.read((slice(0, 3),))
    array([          1, -2147483647,           3], dtype=int32)
    >>> loads("netcdf a { dimensions: lat = 3; variables: int v(lta); }")
    Traceback (most recent call last):
    nczarr.errors.CDLError: <cdl>:1:50: there is no dimension 'lta'; did you mean 'lat'?
      netcdf a { dimensions: lat = 3; variables: int v(lta); }
                                                       ^
    """
    try:
        raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        column = error.start - text.rfind("\n", 0, error.start)
        raise CDLError("half a surrogate pair is not text", path=path, line=line, column=column) from None
    return _load(raw, path)


def _load(text: str, path: str | None) -> Dataset:
    if text[:1] in ("\xfe", "\xff", "\0"):
        raise CDLError("the text is not UTF-8", path=path, hint="is it UTF-16 or UTF-32?")
    source = SourceText(text, path)
    problems = Problems(source)
    dataset = None
    try:
        try:
            dataset = Analyzer(problems).analyze(parse(source))
        except NeedsSlowPath:
            problems = Problems(source)
            dataset = Analyzer(problems).analyze(parse(source, records=False))
    except TooManyProblems:
        pass
    except RecursionError:
        problems.add("the text is nested too deeply", None)
    except MemoryError:
        raise CDLError("the values need more memory than is available", path=path) from None
    problems.raise_all()
    assert dataset is not None
    try:
        return resolve(dataset)
    except ModelError as error:
        raise CDLError(error.message, path=path, hint=error.hint) from None
