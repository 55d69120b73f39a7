"""Copy a dataset: choose its parts and its form, move the values, leave nothing half-done behind."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from nczarr.convert import change
from nczarr.convert.change import Shaping
from nczarr.convert.change.words import parse_bytes, parse_kind
from nczarr.convert.edges import create_sink, open_source, same_place
from nczarr.convert.progress import NoProgress, Progress
from nczarr.convert.transfer import Work, blocks_of, data_bytes, transfer, value_bytes
from nczarr.errors import LossError, NCZarrError, UnsupportedError, placed
from nczarr.formats import Kind, kind_of_source, kind_of_target
from nczarr.model import Dataset, DatasetSink, compare

#: Bound on the values that are in memory at once.
MEMORY = 512 << 20


def copy(
    source: Any,
    target: Any,
    *,
    variables: str | Sequence[str] = (),
    only: str | Sequence[str] = (),
    groups: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    select: Mapping[str, Any] | None = None,
    rename: Mapping[str, str] | None = None,
    chunks: str | Mapping[str, int] | None = None,
    chunk_bytes: int | str | None = None,
    shards: str | int | Mapping[str, int] | None = None,
    compression: str | None = None,
    checksum: bool = False,
    quantize: str | None = None,
    fixed: bool = False,
    unlimited: str | Sequence[str] = (),
    overwrite: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    memory: int | str = MEMORY,
    **options: Any,
) -> tuple[str, ...]:
    """Copy a dataset from any format that nczarr reads to any that it writes.

    The output appears under its name only when it is complete; after an error nothing of it is left.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        A netCDF file, a Zarr hierarchy (path or URL), or CDL text (``.cdl``).
    target : str, path or store
        ``.nc`` makes a netCDF file, ``.cdl`` text, every other name a Zarr hierarchy.
    variables : str or sequence of str
        Copy these variables, and the coordinates, bounds and grid mappings that they need. Glob patterns: with a
        slash of FQNs, ``/ocean/t*``, else of simple names in any group; text is cut at commas.
    only : str or sequence of str
        Copy exactly these variables.
    groups : str or sequence of str
        Copy these groups.
    exclude : str or sequence of str
        Leave out these variables and groups.
    select : mapping, optional
        Parts of dimensions: ``{"time": slice(0, 10)}`` by index, ``slice(30.0, 60.0)`` by coordinate value, both
        ends included, ``slice("2020-01", "2020-06-15")`` by date.
    rename : mapping, optional
        New simple names by FQN; ``/v@units`` is an attribute.
    chunks : str or mapping, optional
        Chunk lengths by dimension, ``{"time": 1}`` or ``"time=1,lat=100"``, or ``"auto"``.
    chunk_bytes : int or str, optional
        About how large chunks are, ``"4MiB"``.
    shards : str, int or mapping, optional
        Shard lengths by dimension (all of the others), ``"auto"``, or about how many bytes. Zarr output only.
    compression : str, optional
        ``"zstd:3"``, ``"gzip:6"``, ``"blosc:lz4:5"``, ``"none"``, or ``"source"`` for that of the source. The
        default from netCDF to Zarr is blosc with zstd and shuffle; else it is that of the source.
    checksum : bool, default False
        A checksum for every chunk: crc32c on Zarr, fletcher32 in netCDF-4.
    quantize : str, optional
        Round floats: ``"temp=3"``, ``"GranularBitRound:3"``. The only thing that changes values.
    fixed : bool, default False
        Make unlimited dimensions fixed.
    unlimited : str or sequence of str
        Make these dimensions unlimited.
    overwrite : bool, default False
        Replace an existing dataset. A directory that is not a Zarr hierarchy is never replaced.
    verify : bool, default False
        Read both sides again after the copy and compare them to the bit.
    progress : Progress, optional
        Is told how far the copy is.
    source_options, target_options : mapping, optional
        Storage options for fsspec.
    workers : int, optional
        Writing threads; default: the number of processors, at most 8.
    memory : int or str, default "512MiB"
        Bound on the values in memory.
    **options
        For Zarr the fields of :class:`nczarr.mapping.WriteOptions` (``layout``, ``codecs``, ``char``, …); for
        netCDF ``format``; ``lossy=True`` for both.

    Returns
    -------
    tuple of str
        What the output could not hold; not empty only after a copy with ``lossy=True`` or to plain Zarr.

    Raises
    ------
    DatasetNotFoundError, DatasetExistsError, LossError, NCZarrError
        Say what is wrong, and where.

    Examples
    --------
    >>> import nczarr, tempfile, os
    >>> from nczarr.model import Attribute, Dataset
    >>> out = os.path.join(tempfile.mkdtemp(), "out.zarr")
    >>> copy(Dataset("d", attributes=(Attribute.of("title", "an example"),)), out)
    ()
    >>> with open_source(out) as dataset:
    ...     dataset.attribute["title"].text
    'an example'
    """
    what = _What(listed(variables), listed(only), listed(groups), listed(exclude), select, rename)
    how = Shaping(chunks, chunk_bytes, shards, compression, checksum, quantize, fixed, listed(unlimited))
    bound = parse_bytes(memory)
    if same_place(source, target):
        raise UnsupportedError(
            "the source and the target are the same, or one is inside the other", path=str(target)
        )
    told = progress or NoProgress()
    kind: Kind | None = None if isinstance(source, Dataset) else kind_of_source(source)
    with open_source(source, storage_options=source_options, fresh=True) as opened:
        losses = _beyond(opened, bool(options.get("lossy")), kind, source)
        with placed(str(source) if kind else None):
            dataset = what.of(opened)
        dataset, sink = _sink(
            dataset, target, how, kind, options, overwrite=overwrite, storage_options=target_options
        )
        try:
            _move(dataset, sink, told, workers or min(8, os.cpu_count() or 1), bound)
            sink.commit()
        except BaseException:
            sink.abort()
            raise
        finally:
            told.finish()
        dropped = tuple(getattr(sink, "losses", ()))
        if verify and not dropped:
            _verify(dataset, target, target_options)
    return (*losses, *dropped)


def listed(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple; text is cut at commas.

    Examples
    --------
    >>> listed("a,b"), listed(["a"])
    (('a', 'b'), ('a',))
    """
    return tuple(part for part in value.split(",") if part) if isinstance(value, str) else tuple(value)


class _What:
    """The part of a dataset that is copied, and under which names."""

    def __init__(
        self,
        variables: Sequence[str],
        only: Sequence[str],
        groups: Sequence[str],
        exclude: Sequence[str],
        selection: Mapping[str, Any] | None,
        names: Mapping[str, str] | None,
    ) -> None:
        self._nodes = {"variables": variables, "only": only, "groups": groups, "exclude": exclude}
        self._selection = selection or {}
        self._names = names or {}

    def of(self, dataset: Dataset) -> Dataset:
        chosen = change.choose(dataset, **self._nodes)
        return change.rename(change.select(chosen, self._selection), self._names)


def _beyond(dataset: Dataset, lossy: bool, kind: Kind | None, source: Any) -> tuple[str, ...]:
    """Refuse, or list, what arrays hold beyond their dimensions: other programs append so."""
    found = []
    for fqn, variable in dataset.all_variables.items():
        stored = getattr(variable.data, "stored_shape", None)
        said = dataset.shape(variable)
        if stored is not None and any(n > m for n, m in zip(stored, said, strict=True)):
            found.append(
                f"{fqn}: the array has the shape {stored}, the dimensions say {said}; "
                "another program has made it longer"
            )
    if found and not lossy:
        raise LossError(
            f"values beyond the dimensions would be lost: {found[0]}",
            path=str(source) if kind else None,
            hint="--lossy, in Python lossy=True, leaves them out",
        )
    return tuple(found)


def _sink(
    dataset: Dataset,
    target: Any,
    how: Shaping,
    kind: Kind | None,
    options: dict[str, Any],
    *,
    overwrite: bool,
    storage_options: Mapping[str, Any] | None,
) -> tuple[Dataset, DatasetSink]:
    """The dataset as it is written, and what writes it."""
    to = kind_of_target(target)
    options = dict(options)
    lossy = options.pop("lossy", False)
    if "format" in options:
        options["format"] = parse_kind(options["format"])
    shaped = change.shape(dataset, how, source=kind, target=to, format=options.get("format"))
    if to == "zarr":
        if lossy:
            options["lossy"] = lossy
        if shaped.compression != "source" and options.get("layout", "nczarr-v3") in ("nczarr-v3", "zarr-v3"):
            # The older layouts know a variable's filters from its codecs alone.
            options.setdefault("compression", shaped.compression)
        if how.compression:
            options["compression"] = how.compression
        if how.checksum:
            options["checksum"] = True
        if any(a.shards for a in shaped.arrays.values()) and options.get("layout", "v3") not in (
            "nczarr-v3", "zarr-v3", "v3",
        ):  # fmt: skip
            raise UnsupportedError(f"--shards: the layout {options['layout']} has none")
        if shaped.arrays:
            options["arrays"] = shaped.arrays
    sink = create_sink(
        target, shaped.dataset, overwrite=overwrite, storage_options=storage_options, **options
    )
    return shaped.dataset, sink


def _verify(dataset: Dataset, target: Any, options: Mapping[str, Any] | None) -> None:
    with open_source(target, storage_options=options, fresh=True) as written:
        first = next(compare(dataset, written), None)
    if first is not None:
        raise NCZarrError(f"the copy differs from its source: {first}", path=str(target))


def _move(dataset: Dataset, sink: DatasetSink, told: Progress, workers: int, memory: int) -> None:
    """Move the values of all variables."""
    held = getattr(sink, "dataset", dataset).all_variables  # a lossy layout may have dropped some
    work: list[Work] = [
        (fqn, v, v.data) for fqn, v in dataset.all_variables.items() if v.data is not None and fqn in held
    ]
    told.start(sum(data_bytes(data) for _, _, data in work))
    if getattr(sink, "pulls", False):
        return
    for fqn, _, data in work:
        block = zip(sink.write_shape(fqn), data.shape, strict=True)
        size = math.prod(min(w, n) for w, n in block) * value_bytes(data.dtype)
        if 2 * size > memory:
            raise UnsupportedError(
                f"one chunk or shard takes {size} bytes, which --memory ({memory} bytes) cannot hold twice",
                fqn=fqn,
                hint="smaller --chunks or --shards, or more --memory",
            )
    transfer(blocks_of(work, sink), sink, told, workers, memory)
