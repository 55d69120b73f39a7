"""Write NCZarr on Zarr v2 in the form that netcdf-c 4.9.3 and later read exactly.

That form cannot represent user-defined types, NUL or bytes that are not UTF-8 in text, payloads of NaN, unnamed
anonymous dimensions, and names that Zarr or netcdf-c cannot keep. They are refused, or, with the option ``lossy``, left
out and listed.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable
from dataclasses import field, replace

from nczarr import model
from nczarr.compression import ENCODED, NamedConfig, netcdf_filters
from nczarr.dataclass import dataclass
from nczarr.errors import LossError
from nczarr.json_values import JsonObject
from nczarr.lazy import pattern
from nczarr.mapping.dialect import Binding, KeptNodes, Plan, array_at
from nczarr.mapping.nczarr2.read import ANONYMOUS, HIDDEN_NAMES, HIDDEN_PREFIXES
from nczarr.mapping.node_names import NodeNames, spell_out
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.write import DocumentPlanner
from nczarr.mapping.values import encodings
from nczarr.mapping.values.arrays import V2_KEYS
from nczarr.mapping.values.scalars import float_to_json
from nczarr.model import CHAR, STRING, Attribute, Dataset, Group, PrimitiveType, UserType, Variable, join_fqn
from nczarr.options import named, verb_named
from nczarr.zarr import GroupMetadata, RegularGrid, data_type_for
from nczarr.zarr.grids import ChunkGrid
from nczarr.zarr.types import special_number_word

VERSION = "2.0.0"
#: netCDF-C's type of text that is JSON.
_JSON = "|J0"
#: netcdf-c's name for the dimension of a scalar in ``_ARRAY_DIMENSIONS``.
_SCALAR = "_scalar_"
#: netcdf-c's limit, used if the values of a variable are not known yet.
_DEFAULT_STRING_LENGTH = 128
#: Codecs that netcdf-c lacks, and its own ones: those that the other names of deflate and of a checksum stand for.
_NETCDF_C = {"gzip": "numcodecs.zlib", "crc32c": "numcodecs.fletcher32"}


def plan_nczarr_v2(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: KeptNodes | None = None
) -> Plan:
    """Plan the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`."""
    _, widened = encodings.without_data_types(dataset)
    reduced, losses = without_user_types(dataset)
    # netCDF-C reads zlib, and neither gzip nor lz4.
    if options.compression in ("auto", "source"):
        options = replace(options, compression="numcodecs")
    # Arrays may have an older form, and are written anew.
    planner = _NCZarr2Planner(reduced, options, names, replace(known or KeptNodes(), arrays={}))
    for fqn, what in losses:
        planner.lose(what, fqn)
    planned = planner.planned()
    return replace(planned, losses=(*planner.losses, *widened), dataset=reduced)


#: The names that netcdf-c accepts.
_NAME = pattern(r"[A-Za-z0-9_\x80-\U0010ffff][^\x00-\x1f\x7f/]*(?<! )")
#: netCDF-C's NC_MAX_NAME.
_NAME_BYTES = 256


def _is_netcdf_name(name: str) -> bool:
    if _NAME.fullmatch(name) is None or not unicodedata.is_normalized("NFC", name):
        return False
    return len(name.encode("utf-8", "surrogatepass")) <= _NAME_BYTES


def _stored_name(name: str) -> str:
    return name if _is_netcdf_name(name) else spell_out(name)


def _dimension_names(reference: model.DimensionRef) -> list[str]:
    """Return the names of the groups and of the dimension as in the documents."""
    if isinstance(reference, int):
        return [f"{ANONYMOUS}{reference}"]
    return [_stored_name(name) for name in model.parse_fqn(reference)]


@dataclass
class _NCZarr2Planner(DocumentPlanner):
    losses: list[str] = field(default_factory=list, init=False)

    def lose(self, what: str, fqn: str) -> None:
        """Record a loss, or refuse it."""
        if not self.options.lossy:
            hint = "write nczarr-v3, or request a lossy copy"
            if what.startswith("the name "):
                hint = f"give it another name with {verb_named('copy', named('rename'))}, {hint}"
            raise LossError(f"NCZarr v2 cannot hold {what}", fqn=fqn, hint=hint)
        self.losses.append(f"{fqn}: {what}")

    def node_names(self, fqn: str, children: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
        nodes = super().node_names(fqn, children)
        for (kind, name), node in nodes.items():
            nodes[kind, name] = _stored_name(node)
            if nodes[kind, name] != name:
                what = "variable" if kind == "array" else "group"
                self.lose(f"the name {name!r} of a {what}", join_fqn(fqn, name))
        return nodes

    def group(self, fqn: str, group: Group, path: str) -> None:
        for d in group.dimensions:
            if not _is_netcdf_name(d.name):
                self.lose(f"the name {d.name!r} of a dimension", join_fqn(fqn, d.name))
        super().group(fqn, group, path)
        plan, dimensions = self.plan, list(group.dimensions)
        if fqn == "/":  # named dimensions represent anonymous ones
            anonymous = {
                r for v in self.dataset.all_variables.values() for r in v.dimensions if isinstance(r, int)
            }
            taken = {d.name for d in dimensions}
            stand_ins = [model.Dimension(f"{ANONYMOUS}{size}", size) for size in sorted(anonymous)]
            dimensions += [d for d in stand_ins if d.name not in taken]
        declared = {
            _stored_name(d.name): {"size": d.size, "unlimited": 1} if d.unlimited else d.size
            for d in dimensions
        }
        keys: JsonObject = {"_nczarr_group": {"dimensions": declared, **self.children(fqn, group)}}
        if fqn == "/":
            keys["_nczarr_superblock"] = {"version": VERSION}
        plan.nodes[path] = GroupMetadata({**plan.nodes[path].attributes, **self.with_types(keys, path)})

    def attributes(
        self,
        attributes: Iterable[Attribute],
        path: str,
        fqn: str,
        reserved: frozenset[str],
        array: model.Type | None,
    ) -> JsonObject:
        plain: JsonObject = {}
        types: dict[str, object] = {}
        self.annotations[path] = types
        for attribute in attributes:
            name = attribute.name
            lost: list[str] = []
            if name in HIDDEN_NAMES or name.startswith(HIDDEN_PREFIXES):
                lost = ["an attribute of this name, which NCZarr reserves"]
            elif not _is_netcdf_name(name):
                lost = ["an attribute of this name, which netcdf-c does not accept"]
            else:
                plain[name], types[name] = _attribute(attribute, lost)
            if lost:
                self.lose(f"{lost[0]} (attribute {name!r})", fqn)
        return plain

    def with_types(self, keys: JsonObject, path: str) -> JsonObject:
        """Return NCZarr's keys of a node with the types of its attributes and their own types, like netcdf-c."""
        own = {name: _JSON for name in keys if name.startswith("_nczarr_")}
        types = {**self.annotations[path], **own, "_nczarr_attr": _JSON}
        return {**keys, "_nczarr_attr": {"types": types}}

    def variable(self, group: str, variable: Variable, path: str) -> None:
        super().variable(group, variable, path)
        fqn, plan = join_fqn(group, variable.name), self.plan
        for f in variable.storage.filters:
            if f.id not in ENCODED:
                self.losses.append(f"{fqn}: the filter {f.id}; the values are stored without it")
        # netcdf-c writes and reads these without escapes; names contain no slash.
        names = [_dimension_names(r) for r in variable.dimensions]
        info: JsonObject = {"dimension_references": ["/" + "/".join(n) for n in names]}
        # netCDF-C stores a scalar as an array of one element.
        if not names:
            info["scalar"] = 1
        info["storage"] = "chunked"
        keys: JsonObject = {"_ARRAY_DIMENSIONS": [n[-1] for n in names] or [_SCALAR], "_nczarr_array": info}
        node, encoding = array_at(plan.nodes, path), plan.variables[fqn].encoding
        if not names:
            encoding = encodings.ScalarEncoding(variable.type, encoding.data_type, (1,), encoding)
        plan.nodes[path] = replace(
            node,
            shape=node.shape or (1,),
            chunk_grid=node.chunk_grid if names else RegularGrid((1,)),
            chunk_key_encoding=V2_KEYS,
            fill_value=None if variable.storage.no_fill else node.fill_value,
            attributes={**node.attributes, **self.with_types(keys, path)},
            dimension_names=None,
            # netcdf-c distinguishes char from string by this spelling.
            origin={"dtype": ">S1"} if variable.type == CHAR else None,
        )
        plan.variables[fqn] = Binding(path, encoding)

    def grid_and_codecs(
        self, fqn: str, variable: Variable, encoding: encodings.Encoding
    ) -> tuple[ChunkGrid, tuple[NamedConfig, ...]]:
        if fqn not in self.known.stored:
            storage = variable.storage
            found = netcdf_filters(storage.filters, storage.codecs)
            for name in found.missing:
                self.lose(f"the codec {name!r}, which netcdf-c does not have", fqn)
            variable = replace(variable, storage=replace(storage, filters=found.filters, codecs=None))
        grid, codecs = super().grid_and_codecs(fqn, variable, encoding)
        return grid, tuple(replace(c, name=_NETCDF_C.get(c.name, c.name)) for c in codecs)

    def encoding(self, fqn: str, variable: Variable) -> encodings.Encoding:
        kept = self.known.encodings.get(fqn)
        if kept is not None:
            return kept.inner if isinstance(kept, encodings.ScalarEncoding) else kept
        if variable.type == CHAR:
            return encodings.PlainEncoding(CHAR, data_type_for("S1"))
        if variable.type != STRING:
            return encodings.encoding_for_writing(variable.type)
        # netcdf-c stores strings of a fixed length, that of the longest one.
        lengths = [1, _length(model.fill_value_of(variable))]
        if variable.data is None:
            lengths.append(_DEFAULT_STRING_LENGTH)
        else:
            shape = self.dataset.shape_of(variable)
            block = (*(1,) * (len(shape) - 1), *(max(1, min(n, 4096)) for n in shape[-1:]))
            for region in model.regions(shape, block):
                lengths.append(max(map(_length, variable.data.read(region).reshape(-1)), default=0))
        return encodings.FixedTextEncoding(STRING, data_type_for(f"S{max(lengths)}"))


def _length(text: str | None) -> int:
    return len((text or "").encode("utf-8", "surrogateescape"))


def _attribute(attribute: Attribute, lost: list[str]) -> tuple[object, str]:
    """Return the JSON of an attribute, the nearest if something is lost, and the spelling of its type."""
    type_ = attribute.type
    # OME-NGFF's objects became text, and its readers found no images.
    if attribute.json is not None:
        return json.loads(attribute.json), _JSON
    # netCDF-C reads |S1 as a string.
    if type_ == CHAR:
        return _text(attribute.values.tobytes(), lost), ">S1"
    assert isinstance(type_, PrimitiveType)
    if type_ == STRING:
        raw = [(v or "").encode("utf-8", "surrogateescape") for v in attribute.values]
        items: list[object] = [_text(r, lost) for r in raw]
        spelled = f"|S{max([1, *(len(str(t).encode('utf-8')) for t in items)])}"
    else:
        items = [_number(float_to_json(v) if type_.is_float else int(v), lost) for v in attribute.values]
        order = "|" if type_.dtype.itemsize == 1 else "<"
        spelled = f"{order}{type_.dtype.kind}{type_.dtype.itemsize}"
    return items[0] if len(items) == 1 else items, spelled


def _number(item: float | str, lost: list[str]) -> float | str:
    # Version 2 has the word NaN only.
    if isinstance(item, str) and item.startswith("0x"):
        lost.append("a NaN with a payload")
        return special_number_word(math.nan)
    return item


def _text(raw: bytes, lost: list[str]) -> str:
    # A NUL in a text cannot pass netCDF-C's parser.
    if b"\0" in raw:
        lost.append("a NUL in text")
        raw = raw.replace(b"\0", b"")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        lost.append("text that is not UTF-8")
        return raw.decode("utf-8", "replace")


def without_user_types(dataset: Dataset) -> tuple[Dataset, list[tuple[str, str]]]:
    """Return a dataset without user-defined types, and the losses.

    Variables and attributes of an enum become those of its integer type; those of other types are dropped.

    Returns
    -------
    Dataset
        The same object if there are no losses.
    list of (str, str)
        FQN and description of each loss.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> sky = model.EnumType("/sky", BYTE, (("clear", 0),))
    >>> reduced, lost = without_user_types(Dataset("d", types=(sky,), variables=(Variable("v", sky),)))
    >>> reduced.variables[0].type, lost
    (BYTE, [('/sky', "the enum type 'sky'"), ('/v', "the names of the enum type 'sky'; the numbers are kept")])
    """
    losses: list[tuple[str, str]] = []

    def user_type(fqn: str, old: UserType) -> None:
        losses.append((fqn, f"the {old.kind} type {old.name!r}"))

    def variable(fqn: str, old: Variable) -> Variable | None:
        if isinstance(old.type, model.EnumType):
            losses.append((fqn, f"the names of the enum type {old.type.name!r}; the numbers are kept"))
            return replace(old, type=old.type.base)
        if old.type.is_atomic:
            return old
        losses.append((fqn, f"the variable, of the user-defined type {old.type.name!r}"))
        return None

    def attribute(fqn: str, old: Attribute) -> Attribute | None:
        if old.type.is_atomic:
            return old
        losses.append((fqn, f"the type {old.type.name!r} of the attribute {old.name!r}"))
        return replace(old, type=old.type.base) if isinstance(old.type, model.EnumType) else None

    reduced = model.rewrite(dataset, user_type=user_type, variable=variable, attribute=attribute)
    return (reduced if losses else dataset), losses
