"""Colour the output of commands with Pygments and Rich, if they are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, TextIO

#: Callable that writes a piece of text in colours.
Painter = Callable[[str], object]

# Styles use the terminal's sixteen standard colours, which suit dark and light themes.
_STYLES = {
    "Keyword": "bold",
    "Keyword.Type": "cyan",
    "Keyword.Constant": "magenta",
    "Name.Namespace": "bold blue",
    "Name.Variable": "green",
    "Name.Attribute": "yellow",
    "Name.Tag": "blue",
    "Literal.String": "red",
    "Literal.Number": "",
    "Literal.Date": "dim",
    "Comment": "dim",
    "Generic.Heading": "bold",
    "Generic.Deleted": "red",
    "Generic.Inserted": "green",
    "Generic.Error": "bold red",
}


def wants_colour(choice: str, is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """Return True if the output uses colours, from the user's choice, the terminal and environment variables.

    Examples
    --------
    >>> wants_colour("auto", True, {"TERM": "xterm"}), wants_colour("auto", True, {"NO_COLOR": "1"})
    (True, False)
    >>> wants_colour("auto", False, {}), wants_colour("always", False, {"NO_COLOR": "1"})
    (False, True)
    """
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"


def painter(kind: str, stream: TextIO) -> Painter | None:
    """Return a callable that writes text of a kind (``cdl``, ``tree``, ``json`` …) in colours.

    Return None if the extra ``cli`` is not installed.
    """
    if importlib.util.find_spec("rich") is None:
        return None
    from pygments.lexers import get_lexer_by_name
    from rich.console import Console
    from rich.text import Text

    from nczarr.cli.terminal.lexers import LEXERS

    class Stream(Console):
        """A console that propagates BrokenPipeError to its caller."""

        def on_broken_pipe(self) -> None:
            raise

    lexer: Any = LEXERS[kind]() if kind in LEXERS else get_lexer_by_name(kind)
    console = Stream(
        file=stream, force_terminal=True, no_color=False, color_system="standard", soft_wrap=True, width=10**6
    )
    known: dict[Any, str] = {}

    def paint(text: str) -> None:
        shown = Text(end="")
        for _, token, piece in lexer.get_tokens_unprocessed(text):
            if (style := known.get(token)) is None:
                style = known[token] = _style(token)
            shown.append(piece, style)
        console.print(shown, soft_wrap=True, highlight=False, markup=False, emoji=False, end="")

    return paint


def _style(token: Any) -> str:
    """Return the style of a token type, or of its nearest parent type with a style."""
    name = str(token).removeprefix("Token").removeprefix(".")
    while name:
        if name in _STYLES:
            return _STYLES[name]
        name = name.rpartition(".")[0]
    return ""
