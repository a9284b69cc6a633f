"""The exit status of a command in a line that the agent itself adds to the output.

Such a line is recognised by its place and its whole form, as the output of a command may have one like it anywhere.
"""

from __future__ import annotations

import re


def split_status(text: str, own_line: re.Pattern[str]) -> tuple[str, int | None]:
    r"""Return the output without the agent's own line, and the exit status in it; None if there is no such line.

    `own_line` is anchored at the start or the end of the text (`\A`, `\Z`); its first group is the status.
    """
    found = own_line.search(text)
    return (text[: found.start()] + text[found.end() :], int(found[1])) if found is not None else (text, None)
