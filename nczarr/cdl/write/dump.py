"""Print a dataset as CDL: the header of each group, then its data."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TextIO

from nczarr import model
from nczarr.cdl.write.data import NEWLINE, VariableWriter, WrappedLines
from nczarr.cdl.write.numbers import attribute_number
from nczarr.cdl.write.options import HIDDEN, DumpOptions, global_specials, kind_name, variable_specials
from nczarr.cdl.write.times import TimeTexts
from nczarr.cdl.write.values import ValueText, escape_name, escape_path, quote, refuse_slashes
from nczarr.errors import ArgumentTypeError, CDLError, LossError, error_context
from nczarr.grammar import words
from nczarr.model.anonymous import name_anonymous
from nczarr.model.names import find_nearest
from nczarr.model.typed import parse_typed, similar_name
from nczarr.model.types import NullText
from nczarr.options import named
from nczarr.rooms import Door
from nczarr.system.warning import warn

#: The room that opens datasets of other kinds than the model.
front = Door("nczarr.convert.front")
_SECTIONS = frozenset({"types", "dimensions", "variables", "data", "group"})
_LONG = 1 << 32
_DEFAULT = DumpOptions()


@cache
def _type_words() -> frozenset[str]:
    """Return the reserved words that begin a declaration."""
    return frozenset(
        word
        for terminal in ("PRIMITIVE", "ENUM", "OPAQUE", "COMPOUND")
        for word in words("cdl.lark", terminal)
    )


def dump(dataset: object, file: TextIO, options: DumpOptions = _DEFAULT) -> None:
    """Print a dataset as CDL.

    Values are read and written a block at a time: memory does not grow with the variables.

    Parameters
    ----------
    dataset : Dataset, path, or what :func:`nczarr.open` takes
        A dataset of the model is resolved, for ncdump's style and a header. A variable without data is declared only.
    file : TextIO
        Text that is not UTF-8 comes as surrogate escapes in ncdump's style (open the file with
        ``errors="surrogateescape"``), and as octal escapes in the default style.
    options : DumpOptions

    Raises
    ------
    CDLError
        If the options name a variable or a group that is not there.
    ModelError
        If the dataset breaks a rule of the model; not in ncdump's style, and not for a header.
    LossError
        If a type is used before the group that declares it, or a string contains a NUL, which CDL cannot say; not in
        ncdump's style, and not for a header.

    Notes
    -----
    The language is that of ``ncgen``. Names that are reserved words, or have a ``?``, can be written but not be
    read by ncgen; so can empty attributes of other types than char, and enum values that have no name.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from nczarr.model import INT, Dataset, Dimension, RepeatedSource, Variable
    >>> zeros = RepeatedSource(0, (3,), np.dtype("i4"))
    >>> v = Variable("v", INT, ("/x",), data=zeros)
    >>> file = io.StringIO()
    >>> dump(Dataset("d", dimensions=(Dimension("x", 3),), variables=(v,)), file)
    >>> print(file.getvalue().expandtabs(4))
    netcdf d {
    dimensions:
        x = 3 ;
    variables:
        int v(x) ;
    data:
    <BLANKLINE>
     v = 0, 0, 0 ;
    }
    <BLANKLINE>
    """
    if not isinstance(dataset, model.Dataset):
        with front.open(dataset) as opened:
            dump(opened, file, options)
        return
    if not hasattr(file, "write"):
        raise ArgumentTypeError(
            f"dump writes to an open file, not to {type(file).__name__}", hint="open the file, or use dumps"
        )
    if options.kind:
        file.write(kind_name(dataset) + "\n")
    elif options.ncml:
        from nczarr.cdl.write.ncml import write_ncml

        write_ncml(dataset, file, options)
    else:
        # ncgen knows only types that are declared before their use.
        if not (options.header_only or options.ncdump):
            dataset = model.resolve(dataset)
            for fqn, type_ in model.forward_references(dataset):
                raise LossError(
                    f"CDL cannot use the type {type_.fqn} before the group that declares it",
                    fqn=fqn,
                    hint="declare the type in the root group",
                )
        _Dump(dataset, file, options).run()


def dumps(dataset: object, options: DumpOptions = _DEFAULT) -> str:
    """Return what :func:`dump` prints.

    Examples
    --------
    >>> dumps(model.Dataset("empty"))
    'netcdf empty {\\n}\\n'
    """
    file = io.StringIO()
    dump(dataset, file, options)
    return file.getvalue()


def dumped_variables(dataset: model.Dataset, options: DumpOptions = _DEFAULT) -> tuple[str, ...]:
    """Return the full names of the variables whose values :func:`dump` prints.

    Raises
    ------
    CDLError
        If the options name a variable or a group that is not there.

    Examples
    --------
    >>> from nczarr.model import INT, Dataset, Dimension, Variable
    >>> d = Dataset("d", dimensions=(Dimension("x", 3),), variables=(Variable("x", INT, ("/x",)), Variable("v", INT)))
    >>> dumped_variables(d), dumped_variables(d, DumpOptions(coordinates=True))
    (('/x', '/v'), ('/x',))
    """
    variables = set(_wanted(options.variables, dataset.all_variables, "variable"))
    groups = set(_wanted(options.groups, dataset.all_groups, "group"))
    if options.kind or options.ncml or options.header_only:
        return ()
    return tuple(
        fqn
        for fqn, variable in dataset.all_variables.items()
        if (not variables or fqn in variables)
        and (not groups or model.split_fqn(fqn)[0] in groups)
        and (not options.coordinates or _is_coordinate(dataset, fqn, variable))
    )


def _is_coordinate(dataset: model.Dataset, fqn: str, variable: model.Variable) -> bool:
    return len(variable.dimensions) == 1 and bool(
        dataset.find_dimension(variable.name, model.split_fqn(fqn)[0])
    )


class _Dump:
    """The state of one dump."""

    def __init__(self, dataset: model.Dataset, file: TextIO, options: DumpOptions) -> None:
        # ncdump's language has no anonymous dimensions.
        self._dataset = name_anonymous(dataset) if options.ncdump else dataset
        if options.ncdump:
            refuse_slashes(dataset, "ncdump")
        self._options = options
        self._line = WrappedLines(file, options.line_length, 0)
        self._values = ValueText(self._dataset, options)
        self._times = TimeTexts(options)
        self._with_data = set(dumped_variables(self._dataset, options))
        self._groups = set(_wanted(options.groups, self._dataset.all_groups, "group"))

    def run(self) -> None:
        name = self._dataset.name if self._options.name is None else self._options.name
        self._print(f"netcdf {self._escape(name)} {{\n")
        self._group("/", self._dataset)
        self._print("}\n")

    def _print(self, text: str) -> None:
        self._line.file.write(" " * self._line.indent + text)

    def _escape(self, name: str) -> str:
        return escape_name(name, percent=not self._options.ncdump)

    def _group(self, fqn: str, group: model.Group) -> None:
        if group.types:
            self._print("types:\n")
            self._line.indent += 2
            for type_ in model.ordered_types(group.types):
                self._type(fqn, type_)
            self._line.indent -= 2
        if group.dimensions:
            self._print("dimensions:\n")
        for dimension in group.dimensions:
            size = self._size(model.join_fqn(fqn, dimension.name), dimension)
            self._print(f"\t{self._escape(dimension.name)} = {size}\n")
        if group.variables:
            self._print("variables:\n")
        for variable in group.variables:
            self._variable(fqn, variable)
        self._global_attributes(fqn, group)
        if not self._options.header_only and (not self._groups or fqn in self._groups):
            self._group_data(fqn, group)
        for child in group.groups:
            name = self._escape(child.name)
            self._line.file.write("\n")
            self._print(f"group: {name} {{\n")
            self._line.indent += 2
            self._group(model.join_fqn(fqn, child.name), child)
            self._print(f"}} // group {name}\n")
            self._line.indent -= 2

    def _size(self, fqn: str, dimension: model.Dimension) -> str:
        unlimited = dimension.unlimited
        if not (unlimited or dimension.size):
            if not self._options.ncdump:
                return "FIXED(0) ;"
            # In netCDF and its language, 0 is the size of unlimited dimensions only.
            warn(
                f"the dimension {fqn} of size 0 is fixed; ncdump's language has no such dimension, and prints it "
                f"as unlimited: omit {named('ncdump', True)}",
                UserWarning,
            )
            unlimited = True
        if unlimited:
            return f"UNLIMITED ; // ({dimension.size} currently)"
        return f"{dimension.size}{'LL' * (dimension.size >= _LONG and not self._options.ncdump)} ;"

    # Types.

    def _type(self, fqn: str, type_: model.UserType) -> None:
        name = self._escape(type_.name)
        if isinstance(type_, model.EnumType):
            self._enum(type_, name)
        elif isinstance(type_, model.OpaqueType):
            self._print(f"opaque({type_.size}) {name} ;\n")
        elif isinstance(type_, model.VlenType):
            self._print(f"{self._type_name(type_.base, fqn)}(*) {name} ;\n")
        elif isinstance(type_, model.CompoundType):
            self._print(f"compound {name} {{\n")
            for field in type_.fields:
                shape = f"({', '.join(map(str, field.shape))})" if field.shape else ""
                self._print(f"  {self._type_name(field.type, fqn)} {self._escape(field.name)}{shape} ;\n")
            self._print(f"}}; // {name}\n")

    def _enum(self, type_: model.EnumType, name: str) -> None:
        line = self._line
        self._print("")
        if not self._options.ncdump:
            line.position = line.indent
        line.put(f"{type_.base.name} enum {name} {{")
        # ncdump counts the end of the line as well.
        end = "} ;\n"
        for i, (member, value) in enumerate(type_.members):
            shown = value
            if self._options.ncdump and value >= 1 << 63:  # as ncdump, print signed numbers
                shown -= 1 << 64
            # ncdump counts the end of the line, too.
            line.put(f"{self._escape(member)} = {shown}{', ' if i < len(type_.members) - 1 else end}")

    def _type_name(self, type_: model.Type, group: str) -> str:
        """Return the reference to a type from a group: a path if the simple name is shadowed there."""
        if not isinstance(type_, model.UserType):
            return type_.name
        name, fqn, dataset = type_.name, type_.fqn, self._dataset
        nearest = find_nearest(name, group, dataset.all_types)
        # ncdump prints a path only where no visible type has the name.
        if self._options.ncdump:
            return self._path(fqn) if nearest is None else self._escape(name)
        # ncgen resolves the name of a variable between the groups to that variable.
        others = [
            find_nearest(name, group, nodes) for nodes in (dataset.all_variables, dataset.all_dimensions)
        ]
        is_hidden = nearest != fqn or any(other is not None and len(other) > len(fqn) for other in others)
        return self._path(fqn) if is_hidden or name in _type_words() else self._escape(name)

    def _path(self, fqn: str) -> str:
        return escape_path(model.parse_fqn(fqn), percent=not self._options.ncdump)

    # Variables and attributes.

    def _variable(self, fqn: str, variable: model.Variable) -> None:
        # A reference is a path if the simple name is shadowed in the group; an anonymous dimension is its size.
        dimensions = []
        for ref in variable.dimensions:
            if isinstance(ref, int):
                dimensions.append(str(ref))
                continue
            simple = model.split_fqn(ref)[1]
            plain = self._dataset.find_dimension(simple, fqn) == ref
            dimensions.append(self._escape(simple) if plain else self._path(ref))
        shape = f"({', '.join(dimensions)})" if dimensions else ""
        name = self._escape(variable.name)
        self._print(f"\t{self._type_name(variable.type, fqn)} {name}{shape} ;\n")
        for attribute in variable.attributes:
            self._attribute(fqn, attribute, variable)
        if self._options.special:
            gap = " " if variable.name in _SECTIONS and not self._options.ncdump else ""
            for special, text in variable_specials(self._dataset, variable, self._options):
                self._print(f"\t\t{name}{gap}:{special} = {text} ;\n")

    def _global_attributes(self, fqn: str, group: model.Group) -> None:
        root = fqn == "/"
        attributes = [a for a in group.attributes if not (root and a.name in HIDDEN)]
        if attributes or self._options.special:
            self._line.file.write("\n")
            self._print(f"// {'global' if root else 'group'} attributes:\n")
        for attribute in attributes:
            self._attribute(fqn, attribute, None)
        if root and self._options.special:
            for special, text in global_specials(self._dataset, self._options):
                self._print(f"\t\t:{special} = {text} ;\n")

    def _attribute(self, fqn: str, attribute: model.Attribute, variable: model.Variable | None) -> None:
        line, options = self._line, self._options
        type_ = attribute.type
        # A value prints with its type where the text alone is ambiguous.
        typed = type_.is_user_defined or type_ == model.STRING
        typed |= not len(attribute.values) and not options.ncdump
        # Without a type, a fill value is read back as a value of its variable's type.
        other = variable is not None and attribute.name == "_FillValue" and type_ != variable.type
        typed |= other and not options.ncdump
        head = f"\t\t{self._type_name(type_, fqn)} " if typed else "\t\t"
        if variable is not None:
            # A variable named like a type needs its path: "int:a" is an attribute of the group.
            typelike = variable.name in _type_words() and not options.ncdump
            owner = model.join_fqn(fqn, variable.name)
            head += self._path(owner) if typelike else self._escape(variable.name)
            head += " " * (variable.name in _SECTIONS)
        head += f":{self._escape(attribute.name)} = "
        self._print(head)
        if not options.ncdump:
            line.position = line.indent + 14 + len(head)
        place = fqn if variable is None else model.join_fqn(fqn, variable.name)
        with error_context(fqn=f"{place}@{attribute.name}"):
            if type_.is_nested and len(attribute.values):
                to_text = self._values.of(type_)
                for value in attribute.values[:-1]:
                    line.put(to_text(value) + ", ")
                line.put(to_text(attribute.values[-1]))
            else:
                line.file.write(self._attribute_text(attribute))
        line.file.write(" ;")
        if variable is not None:
            self._times.note_bounds(variable, attribute)
            line.file.write(self._times.attribute_comment(variable, attribute, line.indent))
        line.file.write("\n")

    def _attribute_text(self, attribute: model.Attribute) -> str:
        options, type_, values = self._options, attribute.type, attribute.values
        if not len(values):
            # ncdump prints "" for each empty attribute, which loses its type.
            return '""' if options.ncdump else ""
        if type_ == model.CHAR:
            return self._char_attribute(attribute.text)
        if type_ == model.STRING and options.ncdump:
            return ", ".join(["NIL" if isinstance(v, NullText) else self._char_attribute(v) for v in values])
        if type_.is_atomic and type_ != model.STRING:
            precision = self._values.precision.get(type_.name, (0, False))
            return ", ".join([attribute_number(v, type_.name, *precision) for v in values])
        to_text = self._values.of(type_)
        if type_.kind == "enum" and options.ncdump:
            return ", ".join([self._escape(to_text(v)) for v in values])
        return ", ".join([to_text(v) for v in values])

    def _char_attribute(self, text: str) -> str:
        if not self._options.ncdump:
            return quote(text)
        quoted = quote(text.rstrip("\0"), ncdump=True)
        if self._dataset.format not in (None, "netCDF-4"):
            # In classic files a text continues in a new literal after a newline.
            quoted = NEWLINE.sub(r'\1\\n",\n\t\t\t"', quoted)
        return quoted

    # Data.

    def _group_data(self, fqn: str, group: model.Group) -> None:
        if group.variables:
            self._print("data:\n")
        for variable in group.variables:
            at = model.join_fqn(fqn, variable.name)
            if at in self._with_data:
                dates = self._times.of(variable)
                with error_context(fqn=at):
                    VariableWriter(variable, self._line, self._values, dates).write()


def _wanted(names: Sequence[str], known: Mapping[str, object], what: str) -> Iterator[str]:
    """Return the FQNs that names, relative paths or absolute paths match; each must match at least one."""
    paths = {fqn: model.parse_fqn(fqn) for fqn in known}
    for name in names:
        wanted = parse_typed(name)
        absolute = name.startswith("/") or not wanted
        found = [
            fqn
            for fqn, path in paths.items()
            if path == wanted or not (absolute or path[-len(wanted) :] != wanted)
        ]
        if not found:
            raise CDLError(f"there is no {what} '{name}'", hint=similar_name(name, known))
        yield from found
