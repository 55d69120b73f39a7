"""Change the metadata of stored datasets by statements in CDL's words: attributes and names, many as one update."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from difflib import unified_diff

from nczarr.cdl import DumpOptions, dumps
from nczarr.cdl.read.edits import Edit, EditText
from nczarr.display import shown_location
from nczarr.errors import NCZarrError
from nczarr.formats import is_netcdf, local_path
from nczarr.model import Attribute, parse_fqn
from nczarr.netcdf4.opening import Opening
from nczarr.session import GroupNode, VariableNode
from nczarr.session.tree import EditedTree, freeze


@dataclass(frozen=True)
class Edited:
    """The changes that statements have made in a dataset, or would make.

    Parameters
    ----------
    changes : int
        The number of statements that change something; 0: the dataset was so before, and nothing is written.
    difference : str
        The lines of CDL that differ, as a unified difference.

    Examples
    --------
    >>> print(Edited(1, "-\\tv:units = \\"k\\" ;"))
    1 change
    """

    changes: int
    difference: str

    def __str__(self) -> str:
        return {0: "no change", 1: "1 change"}.get(self.changes, f"{self.changes} changes")


def edit(
    target: object,
    statements: str | Sequence[str],
    *,
    dry_run: bool = False,
    wait: float = 0.0,
    storage_options: Mapping[str, object] | None = None,
) -> Edited:
    """Change attributes and names of a stored dataset, by statements in CDL's words.

    All statements are tried before anything is written: if one is wrong, nothing is changed. The changes are then one
    update of the dataset.

    Parameters
    ----------
    target
        A Zarr hierarchy (a directory, a zip file, a store in memory, a URL) or a netCDF file.
    statements : str or sequence of str
        ``v:units = "K"`` sets an attribute, ``append :history = "…"`` adds text to one, ``delete v:units`` deletes
        one. ``rename v:unit to units``, ``rename variable v to w``, ``rename dimension x to lon`` and
        ``rename group /g to h`` rename. ``;`` ends a statement. A name is one of the root group, or a path:
        ``/g/v:units``. Types are those of CDL: ``string :title = "…"``, ``v:valid_max = 4.f``.
    dry_run : bool, default False
        Write nothing.
    wait : float, default 0
        Seconds to wait while another writer has the dataset open.
    storage_options : mapping, optional
        Options of the file system of a URL.

    Returns
    -------
    Edited
        The number of changes, and their difference as CDL.

    Raises
    ------
    CDLError
        If a statement is wrong, or the dataset cannot have the change; with line and column.
    NCZarrError
        If the dataset cannot be opened or written.

    Examples
    --------
    >>> import nczarr
    >>> store = {}
    >>> _ = nczarr.copy(nczarr.cdl.loads('netcdf a { variables: int v ; v:units = "k" ; }'), store)
    >>> print(nczarr.edit(store, ['v:units = "K"', "v:valid_min = 0s"]))
    2 changes
    >>> nczarr.Dataset(store)["v"].units
    'K'
    """
    text = statements if isinstance(statements, str) else " ;\n".join(statements)
    return edit_by(EditText(text), target, dry_run=dry_run, wait=wait, storage_options=storage_options)


def edit_by(
    statements: EditText,
    target: object,
    *,
    dry_run: bool = False,
    wait: float = 0.0,
    storage_options: Mapping[str, object] | None = None,
) -> Edited:
    """Change a dataset by statements whose syntax is right; see :func:`edit`."""
    path = local_path(target)
    # Only an editor of a netCDF file knows what the file cannot hold; a hierarchy knows it while it is read.
    is_file = path is not None and path.is_file() and is_netcdf(path)
    opening = Opening(
        target,
        "r" if dry_run and not is_file else "r+",
        storage_options=None if storage_options is None else dict(storage_options),
        wait=wait,
        create=False,
        # An editor changes a copy in memory where the file cannot be written.
        diskless=dry_run and path is not None and is_file and not os.access(path, os.W_OK),
    )
    with closing(opening.open()) as session:
        before = session.stored.dataset
        place = shown_location(session.name)
        # A wrong statement behind right ones changes nothing: all are tried on a copy of the tree.
        tree = session.trial()
        edits: list[Edit] = []
        now = before
        for number in range(len(statements)):
            made = statements.read(number, now)
            try:
                changed = _apply(tree, made)
            except NCZarrError as error:
                raise statements.error(made, error.message, error.hint) from error
            if changed:
                edits.append(made)
                now = freeze(tree.root, before.name, before.format)
        if edits:
            # The stored form refuses before the first byte is written.
            session.rules.check_model(now)
        if edits and not dry_run:
            with session.tree.lock:
                for made in edits:
                    _apply(session.tree, made)
    header = DumpOptions(header_only=True)
    old, new = (dumps(dataset, header).splitlines() for dataset in (before, now))
    return Edited(len(edits), "\n".join(unified_diff(old, new, place, place, lineterm="")))


def _apply(tree: EditedTree, edit: Edit) -> bool:
    """Change a tree; return False if it is so already. The rules are those of the interface of netCDF4-python."""
    node = _node_at(tree.root, edit.owner)
    if edit.kind != "attribute":
        assert isinstance(node, GroupNode)
        assert isinstance(edit.new, str)
        if edit.new != edit.name:
            getattr(node, f"rename_{edit.kind}")(edit.name, edit.new)
        return edit.new != edit.name
    if isinstance(edit.new, Attribute):
        # A job that sets the same again does not rewrite the metadata.
        if node.attributes.get(edit.name) == edit.new:
            return False
        _check_refill(node, edit.name)
        node.set_attribute(edit.new)
    elif edit.new is None:
        node.delete_attribute(edit.name)
    elif edit.new == edit.name:
        return False
    else:
        _check_refill(node, edit.new)
        node.rename_attribute(edit.name, edit.new)
    return True


def _check_refill(node: GroupNode | VariableNode, name: str) -> None:
    # Unwritten values would change with it.
    if name == "_FillValue" and isinstance(node, VariableNode):
        node.check_refill(has_values=node.stored_as is not None)


def _node_at(root: GroupNode, fqn: str) -> GroupNode | VariableNode:
    node: GroupNode | VariableNode = root
    for name in parse_fqn(fqn):
        assert isinstance(node, GroupNode)
        node = node.groups[name] if name in node.groups else node.variables[name]
    return node
