"""Show text on terminals: harmless, coloured, a screen at a time, with progress.

Nothing that a dataset has put into a name acts on the terminal. Colours and the pager come with libraries that are
loaded only where there is a screen; into a pipe goes plain text.
"""

from nczarr.cli.terminal.output import can_draw, say, table
from nczarr.cli.terminal.progress import progress_bar

__all__ = ["can_draw", "progress_bar", "say", "table"]
