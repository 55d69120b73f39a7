"""Write the header of a dataset as NcML, its XML form (``-x``)."""

from __future__ import annotations

from typing import TextIO
from xml.sax.saxutils import escape

from nczarr import model
from nczarr.cdl.words import special_float
from nczarr.cdl.write.numbers import with_point
from nczarr.cdl.write.options import HIDDEN, DumpOptions
from nczarr.cdl.write.values import ValueText, plain_path, refuse_slashes
from nczarr.errors import LossError
from nczarr.lazy import pattern

# The namespace's name; ncdump writes it with https.
_NAMESPACE = "http://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2"
# Characters that XML 1.0 excludes, even as references.
_NOT_XML = pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_CONTROL = {chr(code): f"&#{code};" for code in (*range(0x20), 0x7F)}
_ENTITIES = _CONTROL | {'"': "&quot;", "\n": "&#xA;", "\r": "&#xD;", "\t": "&#x9;"}


def write_ncml(dataset: model.Dataset, file: TextIO, options: DumpOptions) -> None:
    """Write the header of a dataset as NcML.

    Raises
    ------
    LossError
        If a text has a character that XML excludes; not in ncdump's style.

    Notes
    -----
    ncdump omits groups and user types from NcML. Its style omits them too; the default style writes them.

    Examples
    --------
    >>> import sys
    >>> from nczarr.model import Dataset, Dimension
    >>> write_ncml(Dataset("d", dimensions=(Dimension("x", 2),)), sys.stdout, DumpOptions(location="d.nc"))
    <?xml version="1.0" encoding="UTF-8"?>
    <netcdf xmlns="http://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2" location="d.nc">
      <dimension name="x" length="2" />
    </netcdf>
    """
    refuse_slashes(dataset, "NcML")
    location = options.location if options.location is not None else dataset.name
    namespace = _NAMESPACE.replace("http:", "https:") if options.ncdump else _NAMESPACE
    writer = _NcMLWriter(dataset, file, options)
    file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    file.write(f'<netcdf xmlns="{namespace}" location="{writer.name(location)}">\n')
    writer.group(dataset, "  ", root=True)
    file.write("</netcdf>\n")


def escape_text(text: str, *, ncdump: bool = False) -> str:
    """Return text as the value of an XML attribute.

    Raises
    ------
    LossError
        If XML excludes a character. In ncdump's style the character is written, as ncdump does.

    Examples
    --------
    >>> escape_text('a<b "c"')
    'a&lt;b &quot;c&quot;'
    """
    # XML parsers refuse a document with these characters.
    found = None if ncdump else _NOT_XML.search(text)
    # XML has no control characters, not even as references.
    if found is not None:
        raise LossError(
            f"NcML cannot hold the character U+{ord(found[0]):04X} in {text[:60]!r}",
            hint="write CDL, or ask for ncdump's style, which is not XML then",
        )
    return escape(text, _ENTITIES)


class _NcMLWriter:
    def __init__(self, dataset: model.Dataset, file: TextIO, options: DumpOptions) -> None:
        self._file = file
        self._options = options
        self._values = ValueText(dataset, options)

    def name(self, name: str) -> str:
        """Return a name; ncdump does not escape names."""
        return name if self._options.ncdump else escape_text(name)

    def text(self, text: str) -> str:
        """Return a text of the dataset as XML."""
        return escape_text(text, ncdump=self._options.ncdump)

    def group(self, group: model.Group, indent: str, root: bool = False) -> None:
        """Write the contents of a group."""
        write, full = self._file.write, not self._options.ncdump
        for type_ in group.types if full else ():
            if isinstance(type_, model.EnumType):
                write(f'{indent}<enumTypedef name="{self.name(type_.name)}" type="{_enum_kind(type_)}">\n')
                for name, value in type_.members:
                    write(f'{indent}  <enum key="{value}">{self.text(name)}</enum>\n')
                write(f"{indent}</enumTypedef>\n")
        for dimension in group.dimensions:
            unlimited = ' isUnlimited="true"' if dimension.unlimited else ""
            name = self.name(dimension.name)
            write(f'{indent}<dimension name="{name}" length="{dimension.size}"{unlimited} />\n')
        for attribute in group.attributes:
            if not (root and attribute.name in HIDDEN):
                self._attribute(attribute, indent)
        for variable in group.variables:
            self._variable(variable, indent)
        for child in group.groups if full else ():
            write(f'{indent}<group name="{self.name(child.name)}">\n')
            self.group(child, indent + "  ")
            write(f"{indent}</group>\n")

    def _variable(self, variable: model.Variable, indent: str) -> None:
        shape = " ".join(
            str(ref) if isinstance(ref, int) else self.name(model.split_fqn(ref)[1])
            for ref in variable.dimensions
        )
        shape = f' shape="{shape}"' if variable.dimensions else ""
        head = f'{indent}<variable name="{self.name(variable.name)}"{shape} {self._type(variable.type)}'
        if not variable.attributes:
            # ncdump closes the element at once only with -h, although it never writes data here.
            shut = self._options.header_only or not self._options.ncdump
            self._file.write(f"{head} />\n" if shut else f"{head}>\n{indent}</variable>\n")
            return
        self._file.write(f"{head}>\n")
        for attribute in variable.attributes:
            self._attribute(attribute, indent + "  ")
        self._file.write(f"{indent}</variable>\n")

    def _type(self, type_: model.Type) -> str:
        if type_.is_atomic:
            return f'type="{type_.name}"'
        if isinstance(type_, model.EnumType):
            return f'type="{_enum_kind(type_)}" typedef="{self.name(type_.name)}"'
        return f'type="{self.name(plain_path(getattr(type_, "fqn", "/" + type_.name)))}"'

    def _attribute(self, attribute: model.Attribute, indent: str) -> None:
        head = f'{indent}<attribute name="{self.name(attribute.name)}"'
        if attribute.type == model.CHAR:
            self._file.write(f'{head} value="{self.text(attribute.text.rstrip(chr(0)))}" />\n')
            return
        if attribute.type == model.STRING:
            texts = [self.text(v or "") for v in attribute.values]
            # ncdump writes the first string only.
            if self._options.ncdump or len(texts) == 1:
                self._file.write(f'{head} type="string" value="{"".join(texts[:1])}" />\n')
                return
            self._file.write(f'{head} type="string">\n')
            for text in texts:
                self._file.write(f"{indent}  <value>{text}</value>\n")
            self._file.write(f"{indent}</attribute>\n")
            return
        text = " ".join([self._number(v, attribute.type) for v in attribute.values])
        self._file.write(f'{head} {self._type(attribute.type)} value="{text}" />\n')

    def _number(self, value: object, type_: model.Type) -> str:
        if type_.name not in ("float", "double") or not type_.is_atomic:
            return self.text(self._values.of(type_)(value))
        number = float(value)  # type: ignore[arg-type]
        if self._options.ncdump:
            return with_point(number, self._values.precision[type_.name][0])
        return special_float(number, False) or self._values.of(type_)(value)


def _enum_kind(type_: model.EnumType) -> str:
    return f"enum{type_.base.dtype.itemsize}"
