"""List the objects of the groups of a netCDF-4 file, without netCDF's bookkeeping."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nczarr.errors import NetCDFFileError
from nczarr.limits import limit, may_follow_external_files
from nczarr.model import join_fqn, normalize_name
from nczarr.netcdf.hdf5.library import hdf5, hdf5_errors
from nczarr.netcdf.hdf5.types import address_of

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
NON_COORDINATE = b"_nc4_non_coord_"
#: Attributes with which netCDF-4 and HDF5's dimension scales keep their books.
ROOT_BOOKS = frozenset({b"_NCProperties", b"_nc3_strict"})
VARIABLE_BOOKS = frozenset({b"DIMENSION_LIST", b"_Netcdf4Dimid", b"_Netcdf4Coordinates"})
SCALE_BOOKS = frozenset({b"CLASS", b"NAME", b"REFERENCE_LIST"})

#: What to do about content that is in other files.
FOLLOW = "a file of a stranger could name any file here; NCZARR_EXTERNAL_FILES=1 allows it"


@dataclass(eq=False)
class FoundGroup:
    """A group of the file with its objects, in order; types are pairs of FQN and HDF5 type."""

    name: str
    fqn: str
    path: bytes
    id: Any
    datasets: list[tuple[bytes, Any]] = field(default_factory=list)
    types: list[tuple[str, Any]] = field(default_factory=list)
    groups: list[FoundGroup] = field(default_factory=list)

    def walk(self) -> Iterator[FoundGroup]:
        """This group and all below it, parents first."""
        yield self
        for group in self.groups:
            yield from group.walk()

    def link_path(self, link: bytes) -> bytes:
        """HDF5's path of an object of the group."""
        return self.path.rstrip(b"/") + b"/" + link


def collect(file: Any, path: str) -> FoundGroup:
    """Walk an open HDF5 file.

    Raises
    ------
    NetCDFFileError
        If a group contains itself through a link, or an object cannot be opened.
    """
    root = FoundGroup("", "/", b"/", hdf5().h5g.open(file, b"/"))
    _collect(root, path, frozenset())
    return root


def _collect(group: FoundGroup, path: str, above: frozenset[tuple[int, int]]) -> None:
    api = hdf5()
    above = above | {address_of(group.id)}
    if len(above) > limit("NCZARR_MAX_DEPTH"):
        raise NetCDFFileError(
            f"more than {limit('NCZARR_MAX_DEPTH')} groups inside each other",
            path=path,
            fqn=group.fqn,
            hint="the setting NCZARR_MAX_DEPTH allows more",
        )
    for link in _link_names(group.id):
        name = normalize_name(text_of(link))
        fqn = join_fqn(group.fqn, name)
        with hdf5_errors(path, fqn):
            _refuse_external(group.id, link)
            found = api.h5o.open(group.id, link)
            if isinstance(found, api.h5g.GroupID):
                if address_of(found) in above:
                    raise NetCDFFileError("the group contains itself through a link", path=path, fqn=fqn)
                group.groups.append(FoundGroup(name, fqn, group.link_path(link), found))
            elif isinstance(found, api.h5d.DatasetID):
                group.datasets.append((link, found))
            else:
                group.types.append((fqn, found))
    for child in group.groups:
        _collect(child, path, above)


def _refuse_external(group: Any, link: bytes) -> None:
    api = hdf5()
    if group.links.get_info(link).type == api.h5l.TYPE_EXTERNAL and not may_follow_external_files():
        name = os.fsdecode(group.links.get_val(link)[0])
        raise NetCDFFileError(f"it is in another file, {name!r}", hint=FOLLOW)


def _link_names(group: Any) -> list[bytes]:
    """Names of the links of a group, in order of creation where the file keeps it."""
    api = hdf5()
    tracked = group.get_create_plist().get_link_creation_order() & api.h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    if len(group):
        group.links.iterate(
            names.append,
            idx_type=api.h5.INDEX_CRT_ORDER if tracked else api.h5.INDEX_NAME,
            order=api.h5.ITER_INC,
        )
    return names


def variable_name(link: bytes, dataset: Any) -> str | None:
    """The name of the variable of a dataset; None for a dimension without a variable."""
    h5ds = hdf5().h5ds
    if h5ds.is_scale(dataset) and (h5ds.get_scale_name(dataset) or b"").startswith(NO_VARIABLE):
        return None
    return normalize_name(text_of(link.removeprefix(NON_COORDINATE)))


def text_of(name: bytes) -> str:
    """A name of the file as text."""
    return name.decode("utf-8", "surrogateescape")
