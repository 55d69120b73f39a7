"""List the constraints of NCZarr on Zarr v3, from which findings, the page of the specification and its vectors follow.

``docs/spec/nczarr-v3-recovery.md`` prints this table (*Constraints*), each code has a store in
``tests/data/vectors/invalid`` that violates only this constraint, and :mod:`nczarr.mapping.findings` takes the severity
and the remedy from it.
"""

from __future__ import annotations

from typing import Literal

from nczarr.dataclass import dataclass

Severity = Literal["note", "warning", "error"]
Word = Literal["MUST", "SHOULD", "MAY"]


@dataclass(frozen=True)
class Constraint:
    """One constraint on the documents of a store.

    Parameters
    ----------
    sentence : str
        The constraint, as the specification prints it.
    code : str
        The stable name of its findings.
    severity : {'note', 'warning', 'error'}
        A note loses nothing; a warning is a guess, or a permanent loss; an error requires a decision by the user.
    reading : str
        The interpretation of a full reader.
    remedy : str, default ''
        The action of `repair`; empty: none.
    word : {'MUST', 'SHOULD', 'MAY'}
        The obligation of a writer.

    Examples
    --------
    >>> next(c for c in CONSTRAINTS if c.code == "fqn-wrong").sentence
    'the record of every group but the root has `fqn`, the FQN of the group'
    """

    sentence: str
    code: str
    severity: Severity
    reading: str
    remedy: str = ""
    word: Word = "MUST"


_FILLS = "[Fill values](nczarr-v3-storage.md#fill-values)"
_LABELS = "[Labels](nczarr-v3-storage.md#labels)"
_HINTS = "[Storage hints](nczarr-v3-storage.md#storage-hints)"
_RECORDS = "[core](nczarr-v3.md#groups-and-dimensions)"
_TYPES = "[Types](nczarr-v3.md#types)"
_NODES = "[Node names](nczarr-v3.md#node-names)"
_FORM = "as the other members say"

#: In the order of their numbers: the first is C1. A number never changes, so new constraints are last.
CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint(
        "`_nczarr_superblock.version` is there", "version-missing", "note", "a version 3", "write it"
    ),
    Constraint(
        "the keys are written as this version says (versions 3.0 and 3.1 are read)",
        "version-old", "note", "as that version says", "write them in the current version", "MAY",
    ),
    Constraint(
        "the object `nczarr` of an array and its `configuration` are objects, and of this version; the keys of an "
        "array are objects, `_nczarr_copy` is text; names are legal; references are FQNs or sizes",
        "key-unreadable", "error", "labels, plain Zarr",
    ),
    Constraint(
        f"the keys of groups are objects, and records have the form of the {_RECORDS}: names once, sizes, lists; "
        "sources have names, each once",
        "record-damaged", "warning", "the other parts", "write the parts that are understood",
    ),
    Constraint("every node that is listed exists", "node-missing", "warning", "dropped", "update the list"),
    Constraint("every node is listed", "node-unlisted", "note", "last in its group", "add it to the list"),
    Constraint(
        "no two variables of a group, and no two groups of a group, have the same name",
        "name-taken", "error", "the later one has another name",
    ),
    Constraint(
        "an array with dimensions has `dimension_references`", "references-missing", "warning", "labels", "write them"
    ),
    Constraint(
        "`dimension_references` has one entry for each dimension of the variable", "rank-mismatch", "error", "labels"
    ),
    Constraint(
        "every reference names a dimension or a type whose group exists",
        "reference-moved", "warning", "the nearest of its last name", "rewrite the reference",
    ),
    Constraint(
        "every dimension that is used is declared", "dimension-unlisted", "note", "declared last", "declare it"
    ),
    Constraint(
        "every type that an array declares is declared by its group", "type-unlisted", "note", "declared", "declare it"
    ),
    Constraint(
        "every type that an array has is declared somewhere; an array has a `type` if its data type implies none",
        "type-missing", "error", "the type of the data type",
    ),
    Constraint(
        f"declarations have the form of {_TYPES}, refer to types that are declared, and do not contain themselves",
        "type-damaged", "error", "left out",
    ),
    Constraint("an enum has members", "enum-empty", "warning", "an enum without members"),
    Constraint("no two members of an enum have the same name", "enum-duplicate", "error", "all members"),
    Constraint(
        "the array's data type and shape hold values of its type",
        "type-mismatch", "error", "the type of the data type",
    ),
    Constraint(
        "recorded sizes, and sizes of anonymous dimensions, are those of the arrays",
        "size-stale", "note", "the arrays", "update the record",
    ),
    Constraint(
        "arrays of one unlimited dimension are equally long",
        "length-differs", "warning", "the longest; the rest is fill", "extend its shape",
    ),
    Constraint(
        "arrays of one fixed dimension are equally long", "size-conflict", "error", "the others have other dimensions"
    ),
    Constraint(f"`fill_value` is that of {_FILLS}", "fill-value", "warning", "unwritten values as the array says"),
    Constraint(f"`dimension_names` are those of {_LABELS}", "labels", "note", "not used", "write them"),
    Constraint(
        f"storage hints have the form of {_HINTS}", "storage-damaged", "warning", "ignored", "drop it"
    ),
    Constraint(
        "every annotation has its attribute, and fits it: the type can represent the plain form",
        "annotation-stale", "note", "ignored", "drop the annotation",
    ),
    Constraint(
        "`order` has no name twice", "order-duplicate", "note", "the first place counts", "write it once"
    ),
    Constraint(
        "attributes have no bare NaN or infinity", "bare-nan", "warning", "the number", "write it as text"
    ),
    Constraint(
        "every group that needs keys has them: the root, groups that contain nodes, and groups for which a "
        "copy has keys",
        "keys-removed", "note", "the copy", "write the keys back",
    ),
    Constraint(
        "if a group lacks its keys, a copy has them",
        "record-lost", "warning", "the information in the arrays", "write the information of the arrays",
    ),
    Constraint(
        "consolidated metadata are those of the nodes",
        "consolidated-stale", "note", "the nodes' own documents", "consolidate",
    ),
    Constraint(
        "types, variables and attributes use types of their own group or of groups that precede it (not an error)",
        "type-forward", "note", "as it is", word="SHOULD",
    ),
    Constraint(
        "no document below the root breaks the Zarr specification, or requires an unknown element that must be "
        "understood; no array has the fill value null",
        "left-out", "warning", "left out and named",
    ),
    Constraint(
        "every node that names a dataset names this dataset", "node-foreign", "error", "plain Zarr, last in its group"
    ),
    Constraint(
        "if the root's keys are missing, no two records can be those of the root",
        "copy-unclear", "error", "the information in the arrays",
    ),
    Constraint(
        "the root's document is one of Zarr v3, its version is a version 3, and its keys are not those of netCDF-C's "
        "draft; a store that violates this constraint has no other finding",
        "metadata", "error", "refused",
    ),
    Constraint("no name has more than 256 bytes", "name-long", "warning", "as it is"),
    Constraint(
        "every dimension that an array has belongs to its group or to a group above that, if its group exists",
        "dimension-unreachable", "error", "a dimension of its own",
    ),
    Constraint(
        "`convention` of the superblock is the UUID of this convention", "convention-missing", "note", _FORM, "write it"
    ),
    Constraint(
        "the superblock, the records of all other groups, and `configuration` of arrays have `dataset`, text of one or "
        "more characters",
        "dataset-missing", "note", "a member of the dataset", "write it",
    ),
    Constraint(
        "the record of every group but the root has `fqn`, the FQN of the group",
        "fqn-wrong", "note", "the place of the group", "write it",
    ),
    Constraint(
        "every array has the object `nczarr`, or `arrays` of the superblock says that its keys are attributes",
        "object-missing", "warning", "plain Zarr by labels", "write it",
    ),
    Constraint(
        "the object `nczarr` of an array has `name` `nczarr` and `must_understand` false, and its `configuration` has "
        "a `version`",
        "object-damaged", "warning", _FORM, "write it",
    ),
    Constraint(
        "if the node name differs from the name, the record of the node has `name`",
        "name-missing", "note", "the escapes are reversed", "write it",
    ),
    Constraint(f"a name that {_NODES} forbid for nodes is escaped", "node-name", "warning", "the node name"),
    Constraint("names are in NFC", "name-not-nfc", "warning", "as it is"),
    Constraint(
        "every dimension of a record has a `size`", "size-missing", "note", "that of the arrays, or 0", "write it"
    ),
    Constraint(
        "`unlimited` of an array lists the unlimited dimensions among its references, and no others",
        "unlimited-wrong", "note", "as the group declares", "write it",
    ),
)  # fmt: skip

#: Findings that no document shows: about the place that is opened, listings, and the bytes of values.
BESIDE: tuple[Constraint, ...] = (
    Constraint("the store is a whole dataset", "group-alone", "warning", "the group as a dataset"),
    Constraint(
        "the index of a shard is whole", "index-torn", "warning", "its copy", "write it from its copy"
    ),
    Constraint("all nodes are known", "nodes-unsure", "note", "the nodes that are known", word="SHOULD"),
    Constraint("the values that were announced are stored", "values-unstored", "error", "fill values"),
)


def page_table() -> str:
    """Return the table of the constraints as the specification prints it.

    Examples
    --------
    >>> print(page_table().splitlines()[2])
    | C1 | MUST | `_nczarr_superblock.version` is there | a version 3 | write it | `version-missing` |
    """
    rows = ["| | word | constraint | read as | repair | code |", "|---|---|---|---|---|---|"]
    for number, c in enumerate(CONSTRAINTS, 1):
        repair = c.remedy or ("*error*" if c.severity == "error" else "*nothing*")
        rows.append(f"| C{number} | {c.word} | {c.sentence} | {c.reading} | {repair} | `{c.code}` |")
    return "\n".join(rows)
