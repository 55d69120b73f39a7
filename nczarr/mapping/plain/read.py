"""Read plain Zarr, of any version, as a netCDF model (``docs/spec/plain-zarr.md``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczarr.errors import DatasetNotFoundError, NCZarrError, error_context
from nczarr.mapping.dialect import Binding, Reading, left_out_nodes
from nczarr.mapping.findings import Finding
from nczarr.mapping.node_names import unescape_name
from nczarr.mapping.plain.arrays import PlainArrays, plain_attributes
from nczarr.model import Group, Variable, check_name, join_fqn
from nczarr.model.nodes import dataset_of
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy

#: The key in the document of an array that holds NCZarr's keys.
_NCZARR = "nczarr"


def read_plain(hierarchy: Hierarchy, name: str) -> Reading:
    """Read a hierarchy without NCZarr's keys; see :meth:`nczarr.mapping.dialect.Dialect.read`.

    Arrays that Zarr does not let be opened, as they ask for something that nczarr does not know, and nodes whose
    names netCDF cannot have, are left out, and named in ``losses``. A single array at the root becomes a dataset with
    one variable, named after the dataset.

    Raises
    ------
    DatasetNotFoundError
        If it cannot be found out which nodes there are.
    """
    if not hierarchy.complete and not hierarchy.store.listable:
        raise DatasetNotFoundError(
            "the store cannot list its keys, and there are no consolidated metadata that say what it holds",
            path=hierarchy.store.url,
            hint="consolidate the metadata (nczarr consolidate), or have the server list them",
        )
    reader = _Reader(hierarchy)
    if hierarchy.is_array(""):
        body = reader.group("/", "", name, single=name)
    else:
        body = reader.group("/", "", name)
    dataset = dataset_of(body, name)
    findings = list(_arrays_of_nczarr(hierarchy, reader.variables))
    if not hierarchy.complete and not hierarchy.is_array(""):
        findings.append(_UNSURE)
    return Reading(dataset, reader.variables, reader.groups, tuple(reader.losses), tuple(findings))


#: Nothing but a listing names the nodes, and it need not name all.
_UNSURE = Finding(
    "nodes-unsure",
    "/",
    "there are no consolidated metadata, and listings of this store need not name every array: some may be left out",
)


def _arrays_of_nczarr(hierarchy: Hierarchy, variables: Mapping[str, Binding]) -> Iterator[Finding]:
    """The arrays that were copied in from an NCZarr dataset, whose keys say nothing here."""
    for fqn, binding in variables.items():
        if binding.path and _NCZARR in hierarchy.nodes[binding.path].extra:
            what = (
                "the array belongs to an NCZarr dataset, from which it was copied; it is read as plain Zarr"
            )
            yield Finding("node-foreign", fqn, what, "warning")


class _Reader:
    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.plain = PlainArrays(hierarchy)
        self.variables: dict[str, Binding] = {}
        self.groups: dict[str, str] = {}
        unknown = hierarchy.unknown_nodes()
        self.losses = [*left_out_nodes(unknown)]
        self.children: dict[str, list[str]] = {}
        for path in hierarchy.nodes:
            if path and path not in unknown:
                self.children.setdefault(path.rpartition("/")[0], []).append(path)

    def group(self, fqn: str, path: str, name: str, single: str | None = None) -> Group:
        self.groups[fqn] = path
        names: dict[str, str] = {}
        for child in [""] if single else self.children.get(path, []):
            node = single or child.rpartition("/")[2]
            true = unescape_name(node)
            true = node if true is None else true
            wrong = check_name(true)
            if wrong or true in names.values():
                self.losses.append(f"{child!r} is left out: {wrong or 'its name is taken'}")
                continue
            names[child] = true
        arrays = {c: n for c, n in names.items() if self.hierarchy.is_array(c)}
        metadata = {c: self._array(c) for c in arrays}
        self.plain.begin_group(fqn, [])
        self.plain.prefer(fqn, [(n, metadata[c]) for c, n in arrays.items()])
        variables = [
            v for c, n in arrays.items() if (v := self._variable(fqn, c, n, metadata[c])) is not None
        ]
        own = self.hierarchy.nodes[path]
        with error_context(self.hierarchy.store.place(path), fqn=fqn):
            attributes = plain_attributes(own.attributes) if isinstance(own, GroupMetadata) else ()
        groups = tuple(
            self.group(join_fqn(fqn, n), c, n) for c, n in names.items() if not self.hierarchy.is_array(c)
        )
        return Group(
            name,
            attributes=attributes,
            types=self.plain.types(fqn),
            dimensions=self.plain.dimensions(fqn),
            variables=tuple(variables),
            groups=groups,
        )

    def _array(self, path: str) -> ArrayMetadata:
        metadata = self.hierarchy.nodes[path]
        assert isinstance(metadata, ArrayMetadata)
        return metadata

    def _variable(self, group: str, path: str, name: str, metadata: ArrayMetadata) -> Variable | None:
        fqn = join_fqn(group, name)
        try:
            variable, self.variables[fqn] = self.plain.variable(group, path, name, metadata)
        except NCZarrError as error:
            error.path = error.path or self.hierarchy.store.place(path)
            error.fqn = error.fqn or fqn
            raise
        return variable
