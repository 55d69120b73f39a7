"""Write NCZarr on Zarr v2 in the form that netcdf-c 4.9.3 and later read exactly.

That form cannot represent user-defined types, NUL or bytes that are not UTF-8 in text, payloads of NaN, unnamed
anonymous dimensions, and names that Zarr or netcdf-c cannot keep. They are refused, or, with the option ``lossy``, left
out and listed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nczarr import model
from nczarr.errors import LossError
from nczarr.filters import ENCODED
from nczarr.mapping.dialect import Binding, Known, Plan
from nczarr.mapping.nczarr2.versions import ANONYMOUS, HIDDEN_NAMES, HIDDEN_PREFIXES, SCALAR
from nczarr.mapping.node_names import NodeNames, spell_out
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.write import V2_KEYS, chunks_of
from nczarr.mapping.values.encodings import Encoding, PlainEncoding, encoding_for_writing
from nczarr.mapping.values.filters import stored_form
from nczarr.mapping.values.foreign import FixedTextEncoding, ScalarEncoding
from nczarr.mapping.values.scalars import JSONObject, float_to_json
from nczarr.model import CHAR, STRING, Attribute, Dataset, Group, PrimitiveType, Variable, join_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, RegularGrid, data_type_for

VERSION = "2.0.0"
_JSON = "|J0"
#: netcdf-c's limit, used if the values of a variable are not known yet.
_DEFAULT_STRING_LENGTH = 128


def plan_nczarr_v2(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Plan the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`."""
    reduced, losses = without_user_types(dataset)
    writer = _Writer(reduced, replace(options, codecs="numcodecs", compress=False), names, known or Known())
    for fqn, what in losses:
        writer.lose(what, fqn)
    writer.group("/", reduced, "")
    return Plan(writer.nodes, writer.variables, writer.groups, tuple(writer.losses), reduced)


#: The names that netcdf-c accepts.
_NAME = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff][^\x00-\x1f\x7f/]*(?<! )")
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


class _Lost(Exception):
    """The layout has no representation for a part, which the message names; `nearest` is the lossy representation."""

    def __init__(self, what: str, nearest: tuple[object, str] | None = None) -> None:
        super().__init__(what)
        self.nearest = nearest


@dataclass
class _Writer:
    dataset: Dataset
    options: WriteOptions
    names: NodeNames
    known: Known

    def __post_init__(self) -> None:
        self.nodes: dict[str, ArrayMetadata | GroupMetadata] = {}
        self.variables: dict[str, Binding] = {}
        self.groups: dict[str, str] = {}
        self.losses: list[str] = []
        self.anonymous = sorted(
            {ref for v in self.dataset.all_variables.values() for ref in v.dimensions if isinstance(ref, int)}
        )

    def lose(self, what: str, fqn: str) -> None:
        """Record a loss, or refuse it."""
        if not self.options.lossy:
            hint = "write nczarr-v3, or request a lossy copy"
            raise LossError(f"NCZarr v2 cannot hold {what}", fqn=fqn, hint=hint)
        self.losses.append(f"{fqn}: {what}")

    # -- groups

    def group(self, fqn: str, group: Group, path: str) -> None:
        self.groups[fqn] = path
        children = [("array", v.name) for v in group.variables] + [("group", g.name) for g in group.groups]
        nodes = {
            child: node if _is_netcdf_name(node) else spell_out(node)
            for child, node in self.names.assign(children).items()
        }
        for (kind, name), node in nodes.items():
            if node != name:
                what = "variable" if kind == "array" else "group"
                self.lose(f"the name {name!r} of a {what}", join_fqn(fqn, name))
        for d in group.dimensions:
            if not _is_netcdf_name(d.name):
                self.lose(f"the name {d.name!r} of a dimension", join_fqn(fqn, d.name))
        dimensions = [*group.dimensions, *(self.stand_ins() if fqn == "/" else ())]
        info = {
            "dimensions": {
                _stored_name(d.name): {"size": d.size, "unlimited": 1} if d.unlimited else d.size
                for d in dimensions
            },
            "arrays": [nodes["array", v.name] for v in group.variables],
            "groups": [nodes["group", g.name] for g in group.groups],
        }
        plain, types = self.attributes(group.attributes, fqn)
        keys: JSONObject = {"_nczarr_group": info}
        if fqn == "/":
            keys["_nczarr_superblock"] = {"version": VERSION}
        self.nodes[path] = GroupMetadata({**plain, **_with_types(keys, types)})
        prefix = f"{path}/" if path else ""
        for variable in group.variables:
            self.variable(fqn, variable, prefix + nodes["array", variable.name])
        for child in group.groups:
            self.group(join_fqn(fqn, child.name), child, prefix + nodes["group", child.name])

    def stand_ins(self) -> Iterable[model.Dimension]:
        """Yield the named dimensions that represent anonymous ones."""
        taken = {d.name for d in self.dataset.dimensions}
        for size in self.anonymous:
            name = f"{ANONYMOUS}{size}"
            if name not in taken:
                yield model.Dimension(name, size)

    # -- attributes

    def attributes(self, attributes: Iterable[Attribute], fqn: str) -> tuple[JSONObject, dict[str, str]]:
        plain: JSONObject = {}
        types: dict[str, str] = {}
        for attribute in attributes:
            name = attribute.name
            try:
                if name in HIDDEN_NAMES or name.startswith(HIDDEN_PREFIXES):
                    raise _Lost("an attribute of this name, which NCZarr reserves")
                if not _is_netcdf_name(name):
                    raise _Lost("an attribute of this name, which netcdf-c does not accept")
                plain[name], types[name] = _attribute(attribute)
            except _Lost as lost:
                self.lose(f"{lost} (attribute {name!r})", fqn)
                if lost.nearest is not None:
                    plain[name], types[name] = lost.nearest
        return plain, types

    # -- variables

    def variable(self, group: str, variable: Variable, path: str) -> None:
        fqn = join_fqn(group, variable.name)
        assert isinstance(variable.type, PrimitiveType)
        shape = self.dataset.shape(variable)
        encoding = self.encoding(fqn, variable, shape)
        fill = encoding.encode_fill(model.fill_value_of(variable))
        chunks = chunks_of(self.dataset, variable, encoding, shape)
        for f in variable.storage.filters:
            if f.id not in ENCODED:
                self.losses.append(f"{fqn}: the filter {f.id}; the values are stored without it")
        grid, codecs = stored_form(fqn, variable.storage, chunks, encoding, self.options)
        if not shape:
            encoding = ScalarEncoding(variable.type, encoding.data_type, (1,), encoding)
        plain, types = self.attributes(variable.attributes, fqn)
        # netcdf-c writes and reads these without escapes; names contain no slash.
        names = [_dimension_names(r) for r in variable.dimensions]
        info: JSONObject = {"dimension_references": ["/" + "/".join(n) for n in names]}
        if not shape:
            info["scalar"] = 1
        info["storage"] = "chunked"
        keys: JSONObject = {
            "_ARRAY_DIMENSIONS": [n[-1] for n in names] or [SCALAR],
            "_nczarr_array": info,
        }
        self.nodes[path] = ArrayMetadata(
            shape=shape or (1,),
            data_type=encoding.data_type,
            chunk_grid=grid if shape else RegularGrid((1,)),
            chunk_key_encoding=V2_KEYS,
            fill_value=None if variable.storage.no_fill else fill,
            codecs=codecs,
            attributes={**plain, **_with_types(keys, types)},
            # netcdf-c distinguishes char from string by this spelling.
            origin={"dtype": ">S1"} if variable.type == CHAR else None,
        )
        self.variables[fqn] = Binding(path, encoding)

    def encoding(self, fqn: str, variable: Variable, shape: tuple[int, ...]) -> Encoding:
        kept = self.known.encodings.get(fqn)
        if kept is not None:
            return kept.inner if isinstance(kept, ScalarEncoding) else kept
        if variable.type == CHAR:
            return PlainEncoding(CHAR, data_type_for("S1"))
        if variable.type != STRING:
            return encoding_for_writing(variable.type)
        return FixedTextEncoding(STRING, data_type_for(f"S{self.longest(variable, shape)}"))

    def longest(self, variable: Variable, shape: tuple[int, ...]) -> int:
        """Return the length of the longest string of a variable, in bytes: netcdf-c stores a fixed length."""
        fill = model.fill_value_of(variable)
        length = max(len(str(fill).encode("utf-8", "surrogateescape")), 1)
        if variable.data is None:
            return max(length, _DEFAULT_STRING_LENGTH)
        block = tuple(max(1, min(n, 4096)) if i == len(shape) - 1 else 1 for i, n in enumerate(shape))
        for region in model.regions(shape, block):
            for text in variable.data.read(region).reshape(-1):
                length = max(length, len((text or "").encode("utf-8", "surrogateescape")))
        return length


def _with_types(keys: JSONObject, types: dict[str, str]) -> JSONObject:
    """Return NCZarr's keys with their own types, like netcdf-c."""
    own = {name: _JSON for name in keys if name.startswith("_nczarr_")}
    return {**keys, "_nczarr_attr": {"types": {**types, **own, "_nczarr_attr": _JSON}}}


def _attribute(attribute: Attribute) -> tuple[object, str]:
    """Return the JSON of an attribute and the spelling of its type."""
    type_ = attribute.type
    lost: list[str] = []
    if type_ == CHAR:
        result: tuple[object, str] = _text(attribute.values.tobytes(), lost), ">S1"
    elif type_ == STRING:
        raw = [(v or "").encode("utf-8", "surrogateescape") for v in attribute.values]
        texts = [_text(r, lost) for r in raw]
        size = max([1, *(len(t.encode("utf-8")) for t in texts)])
        result = texts[0] if len(texts) == 1 else texts, f"|S{size}"
    else:
        assert isinstance(type_, PrimitiveType)
        result = _numbers(attribute, type_, lost)
    if lost:
        raise _Lost(lost[0], result)
    return result


def _numbers(attribute: Attribute, type_: PrimitiveType, lost: list[str]) -> tuple[object, str]:
    items: list[object] = []
    for value in attribute.values:
        item = float_to_json(value) if type_.is_float else int(value)
        if isinstance(item, str) and item.startswith("0x"):
            lost.append("a NaN with a payload")
            item = "NaN"
        items.append(item)
    order = "|" if type_.dtype.itemsize == 1 else "<"
    spelled = f"{order}{type_.dtype.kind}{type_.dtype.itemsize}"
    return items[0] if len(items) == 1 else items, spelled


def _text(raw: bytes, lost: list[str]) -> str:
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

    def group(fqn: str, node: Group) -> Group:
        losses.extend((t.fqn, f"the {t.kind} type {t.name!r}") for t in node.types)
        return replace(
            node,
            types=(),
            attributes=attributes(fqn, node.attributes),
            variables=tuple(v for old in node.variables for v in variable(join_fqn(fqn, old.name), old)),
            groups=tuple(group(join_fqn(fqn, g.name), g) for g in node.groups),
        )

    def variable(fqn: str, old: Variable) -> list[Variable]:
        kept = attributes(fqn, old.attributes)
        if isinstance(old.type, PrimitiveType):
            return [replace(old, attributes=kept) if kept != old.attributes else old]
        if isinstance(old.type, model.EnumType):
            losses.append((fqn, f"the names of the enum type {old.type.name!r}; the numbers are kept"))
            return [replace(old, type=old.type.base, attributes=kept)]
        losses.append((fqn, f"the variable, of the user-defined type {old.type.name!r}"))
        return []

    def attributes(fqn: str, old: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        kept = []
        for a in old:
            if isinstance(a.type, PrimitiveType):
                kept.append(a)
                continue
            if isinstance(a.type, model.EnumType):
                kept.append(replace(a, type=a.type.base))
            losses.append((fqn, f"the type {a.type.name!r} of the attribute {a.name!r}"))
        return tuple(kept)

    reduced = group("/", dataset)
    assert isinstance(reduced, Dataset)
    return (reduced if losses else dataset), losses
