"""Declare the parts of the model that a stored form cannot hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Restrictions:
    """Restrictions of a file format or layout. An editor checks them before each change.

    Parameters
    ----------
    limited : frozenset of str
        Kinds of parts (``"attribute"``, ``"name"``, ``"type"``, ``"variable"``) of which the form cannot hold all
        that the model allows.
    one_name_space : bool
        Dimensions, variables, groups and types of a group share one name space.
    types_first : bool
        Readers go through the file group by group, and do not find types of later groups.
    renamed_last : bool
        A rename moves a variable or group to the end of its group.
    strings_end_at_nul : bool
        Strings end at the first NUL.
    strings_outside_chunks : bool
        Chunks of strings and sequences contain references only.
    without_shards : bool
        Chunks are not put into shards.
    reserved_names : frozenset of str
        Names of attributes that the form itself uses.
    omitted : frozenset of str
        FQNs of nodes that readers leave out. Their names are in use, and their groups keep their names.

    Examples
    --------
    >>> Restrictions(one_name_space=True).types_first
    False
    """

    limited: frozenset[str] = frozenset()
    one_name_space: bool = False
    types_first: bool = False
    renamed_last: bool = False
    strings_end_at_nul: bool = False
    strings_outside_chunks: bool = False
    without_shards: bool = False
    reserved_names: frozenset[str] = frozenset()
    omitted: frozenset[str] = frozenset()
