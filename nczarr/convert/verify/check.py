"""Check datasets: documents, consolidated metadata, shapes, chunks; and check the test vectors of the specification."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from nczarr import mapping, model, netcdf
from nczarr.convert.endpoints import open_source
from nczarr.errors import NCZarrError, NotAllowedError, StoreError
from nczarr.formats import kind_of_source
from nczarr.json_values import show
from nczarr.mapping import Finding
from nczarr.mapping.values.declarations import type_name, types_to_json
from nczarr.mapping.values.scalars import values_to_json
from nczarr.model import Attribute, Dataset, Group, Type, Variable
from nczarr.targets import allowing
from nczarr.transfer import NoProgress, Progress, block_shape, dataset_bytes, reporting, value_bytes


def check(
    source: object,
    *,
    data: bool = False,
    storage_options: Mapping[str, object] | None = None,
    allow: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Finding]:
    """Yield the problems of a Zarr dataset or a netCDF file.

    The metadata documents are read instead of their consolidated copy; the copy is then compared with them.

    Parameters
    ----------
    source : str, path or store
        A Zarr hierarchy, or a netCDF file, which is read in a child process.
    data : bool, default False
        Also read every chunk, and report each chunk that cannot be decoded.
    storage_options : mapping, optional
        Options of the file system of a URL.
    allow : str or sequence of str
        Paths and URLs. References (kerchunk's, virtual chunks of an Icechunk repository) may name files beside them,
        and files below these.
    progress : Progress, optional
        Receives the progress of reading the values.

    Raises
    ------
    DatasetNotFoundError
        If the source does not exist.

    Examples
    --------
    >>> from nczarr import copy
    >>> from nczarr.model import Dataset
    >>> store = {}
    >>> losses = copy(Dataset("d"), store)
    >>> list(check(store, data=True))
    []
    """
    found: Iterable[Finding] = ()
    opened: AbstractContextManager[object]
    try:
        if kind_of_source(source) == "netcdf":
            # A damaged file may crash or hang the HDF5 library.
            opened = file = netcdf.open_isolated(str(source))
            dataset, effect = file.dataset, "reads other memory in its place"
        else:
            options = allowing(storage_options, allow)
            opened, found = mapping.check_metadata(source, storage_options=options)
            dataset, effect = opened.dataset, "cannot hold it"
    # A dataset that is not there has no fault: the command cannot answer.
    except FileNotFoundError:
        raise
    except NCZarrError as error:
        yield Finding("metadata", error.fqn or "/", str(error), "error")
        return
    with opened:
        yield from found
        for fqn, problem in model.long_names(dataset):
            yield Finding("name-long", fqn, f"{problem}; netCDF's library {effect}", "warning")
        if isinstance(opened, mapping.StoredDataset):
            for path, sentence in opened.hierarchy.deviations():
                yield Finding("specification", "/" + path, sentence, "warning")
        if data and isinstance(opened, mapping.StoredDataset):
            for path, sentence in mapping.missing_chunks(opened.hierarchy):
                yield Finding("chunk-missing", "/" + path, sentence, "error")
            yield from mapping.find_torn_indexes(opened)
        if data:
            yield from _unreadable_chunks(dataset, progress or NoProgress())


def _unreadable_chunks(dataset: Dataset, progress: Progress) -> Iterator[Finding]:
    with reporting(progress, dataset_bytes(dataset)):
        for fqn, variable in dataset.all_variables.items():
            if (source := variable.data) is None:
                continue
            # Blocks of one chunk, to report each damaged chunk.
            chunk = variable.storage.chunk_shape or source.shape
            for region in model.regions(source.shape, block_shape(source.shape, chunk, None, 1, limit=1)):
                try:
                    source.read(region)
                # A file that the user has not allowed is not a damaged chunk.
                except NotAllowedError:
                    raise
                except NCZarrError as error:
                    if error.reason == "lost":  # a finding of its own
                        continue
                    yield Finding("chunk", fqn, str(error), "error")
                count = math.prod(s.stop - s.start for s in region)
                progress.advance(count * value_bytes(source.dtype), fqn)


def canonical(dataset: Dataset) -> dict[str, object]:
    """Return all metadata and values of a dataset as JSON, to compare readers (``docs/spec``, *Canonical JSON*).

    Integers beyond 2**53 are strings, because many JSON readers round them.

    Examples
    --------
    >>> canonical(Dataset("d", attributes=(Attribute.of("n", 1),)))["attributes"]
    [{'name': 'n', 'type': 'int64', 'values': [1]}]
    """

    def inside(group: Group, fqn: str) -> dict[str, object]:
        return {
            "name": "" if fqn == "/" else group.name,
            **({"format": dataset.format} if fqn == "/" else {}),
            "types": [_exact(t) for t in types_to_json(group.types)],
            "dimensions": [
                {"name": d.name, "size": d.size, "unlimited": d.unlimited} for d in group.dimensions
            ],
            "attributes": [_attribute(a) for a in group.attributes],
            "variables": [_variable(dataset.shape_of(v), v) for v in group.variables],
            "groups": [inside(g, model.join_fqn(fqn, g.name)) for g in group.groups],
        }

    return inside(dataset, "/")


def canonical_text(source: object, storage_options: Mapping[str, object] | None = None) -> str:
    """Return the canonical JSON of a dataset of any format, on one line."""
    with open_source(source, storage_options=storage_options, fresh=True) as dataset:
        # A bare NaN is no JSON.
        return json.dumps(canonical(dataset), ensure_ascii=False, allow_nan=False)


def _leaves(value: object, where: str = "") -> Iterator[tuple[str, tuple[bool, object]]]:
    """Yield the place (a JSON pointer) and the value of each leaf, and whether it is a boolean: true is not 1."""
    items = list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, item in items:
        yield from _leaves(item, f"{where}/{key}")
    if not items:
        yield where, (isinstance(value, bool), value)


def _first_difference(expected: object, found: object) -> str | None:
    """Return the place and both values of the first difference of two JSON values; None if they are equal."""
    left, right = dict(_leaves(expected)), dict(_leaves(found))
    for where in {**left, **right}:
        if left.get(where) != right.get(where):
            shown = [show(side[where][1]) if where in side else "missing" for side in (right, left)]
            return f"{where} is {shown[0]} instead of {shown[1]}"
    return None


def _attribute(attribute: Attribute) -> dict[str, object]:
    values = _values(attribute.type, attribute.values)
    return {"name": attribute.name, "type": type_name(attribute.type), "values": values}


def _variable(shape: tuple[int, ...], variable: Variable) -> dict[str, object]:
    values: object = None
    if variable.data is not None:
        read = variable.data.read(tuple(slice(0, n) for n in shape))
        values = _values(variable.type, np.asarray(read, variable.type.dtype).reshape(-1))
    return {
        "name": variable.name,
        "type": type_name(variable.type),
        "dimensions": list(variable.dimensions),
        "shape": list(shape),
        "attributes": [_attribute(a) for a in variable.attributes],
        "values": values,
    }


def _values(type_: Type, values: np.ndarray) -> object:
    if type_ == model.CHAR:
        return values.tobytes().decode("latin-1")  # one string, one character for each byte
    return [_exact(value) for value in values_to_json(type_, values)]


def _exact(value: object) -> object:
    """Return a JSON value in its only form: JSON writers differ in large integers, 1.0 and -0.0."""
    match value:
        case list():
            return [_exact(item) for item in value]
        case dict():
            return {key: _exact(item) for key, item in value.items()}
        case float() if value == 0 and np.signbit(value):
            return "-0"
        case float() if value.is_integer() and abs(value) <= 2**53:
            return int(value)
    return str(value) if type(value) is int and abs(value) > 2**53 else value


def check_vectors(folder: str | os.PathLike[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the problems of each test vector of a directory.

    A test vector is ``NAME.zarr`` with its content as ``NAME.cdl`` and ``NAME.json``, or with ``NAME.findings``: the
    codes of the findings that a validating reader reports, one in a line.

    Raises
    ------
    StoreError
        If the directory has no test vectors.
    """
    stores = sorted(Path(folder).glob("*.zarr"))
    if not stores:
        raise StoreError("no test vectors (NAME.zarr) here", path=str(folder))
    for store in stores:
        with warnings.catch_warnings():
            # Vectors with findings are damaged on purpose, and each reading would warn.
            warnings.simplefilter("ignore", mapping.RecoveryWarning)
            problems = list(_problems(store))
        yield store.stem, problems


def _problems(store: Path) -> Iterator[str]:
    from nczarr import cdl

    codes, text, document = map(store.with_suffix, (".findings", ".cdl", ".json"))
    if not (codes.exists() or text.exists() or document.exists()):
        yield "there is no CDL, JSON or list of findings to compare with"
    if codes.exists():
        expected = set(codes.read_text(encoding="utf-8").split())
        found = {finding.code for finding in check(store)}
        if missing := expected - found:
            yield f"not found: {', '.join(sorted(missing))}"
        if more := found - expected:
            yield f"found, but not expected: {', '.join(sorted(more))}"
    try:
        if text.exists():
            with open_source(store, fresh=True) as dataset:
                yield from map(str, model.compare(cdl.load(text), dataset, storage=False))
        if document.exists():
            content = json.loads(document.read_text("utf-8"))
            if difference := _first_difference(content, json.loads(canonical_text(store))):
                yield f"the content differs from {document.name}: {difference}"
    except NCZarrError as error:
        yield str(error)
