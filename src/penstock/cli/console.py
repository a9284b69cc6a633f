"""All writing to stdout and stderr, and the columns of tables.

This module lets nothing through that acts on a terminal: agents choose session ids, paths, titles and error texts, and
a database or a repository may be somebody else's. Output for people (`say`, `notify`, tables, everything on stderr) is
always sanitized. Output for programs (`Output` of a sink, `pass_on`) goes unchanged into a pipe or a file, and is
sanitized on a terminal.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # without importing `typing`: `--version` uses this module
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol, TextIO

    from penstock.errors import PenstockError

    class Below(Protocol):
        """Line below the output of a terminal, which is drawn anew after each output."""

        def before(self, fd: int, data: bytes) -> bytes:
            """Return this output with what has to be written before it, so that it does not meet the line."""
            ...

        def hide(self) -> None:
            """Erase the line, until it is drawn again."""
            ...


USUAL_COLUMNS = 80
"""Columns of a terminal whose width is unknown."""

_below: Below | None = None


def set_below(line: Below | None) -> None:
    """Set the line below the output; None: there is none."""
    global _below
    _below = line


def hide_below() -> None:
    """Erase the line below the output, if there is one, until it is drawn again."""
    if _below is not None:
        _below.hide()


def terminal_width(fd: int = 1) -> int | None:
    """Return the columns of the terminal at a file descriptor; None if it is not a terminal, or does not know them."""
    try:
        return os.get_terminal_size(fd).columns or None
    except (OSError, ValueError):
        return None


def columns(
    rows: Iterable[Sequence[str]], right_from: int | None = None, *, has_heads: bool = True, fd: int = 1
) -> str:
    """Return rows with the same number of cells as lines of aligned columns; columns from `right_from` on align right.

    A cell is always one line, whatever its text is, unless the table is too wide for the terminal. Its columns are
    those of a terminal: a Chinese character has two.

    Args:
        rows: the cells.
        right_from: first column of those that align right.
        has_heads: whether the first row has the headings.
        fd: file descriptor to which the table is written: a terminal there limits its width.
    """
    from penstock.cli.fitting import fitted_table

    return fitted_table(rows, terminal_width(fd), right_from=right_from, has_heads=has_heads)


def fitted(text: str, fd: int = 1) -> str:
    """Return text whose lines are wrapped at blanks if `fd`, to which it is written, is a terminal."""
    width = terminal_width(fd)
    if width is None:
        return text
    from penstock.cli.fitting import wrapped

    return wrapped(text, width)


class Output:
    """Unbuffered writer to a file descriptor: all data has been passed to the system when `write` returns.

    Args:
        fd: file descriptor.
        encoding: encoding of text.
        is_safe: whether to write nothing that acts on a terminal; None: only if `fd` is a terminal.
        is_styled: whether the codes of the text sink pass nevertheless: its colours, and sections of a CI log.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
        TransportError: the output cannot be written for another reason.
    """

    def __init__(
        self, fd: int, encoding: str = "utf-8", *, is_safe: bool | None = None, is_styled: bool = False
    ) -> None:
        self._fd = fd
        self._encoding = encoding
        self._is_safe = os.isatty(fd) if is_safe is None else is_safe
        self._is_styled = is_styled
        self._left = b""

    def write(self, text: str | bytes) -> None:
        """Write all of `text`, after the rest of an earlier write that was interrupted.

        Bytes are lines of a format for programs: unsafe characters in them are escaped as in JSON.
        """
        if self._is_safe:
            text = self._safe(text)
        data = text.encode(self._encoding, "replace") if isinstance(text, str) else text
        if _below is not None and data:
            data = _below.before(self._fd, data)
        waiting = memoryview(self._left + data if self._left else data)
        self._left = b""
        try:
            while waiting:
                try:
                    waiting = waiting[os.write(self._fd, waiting) :]
                except BlockingIOError:
                    self._wait()
        except BrokenPipeError:
            raise
        except OSError as error:
            from penstock.errors import TransportError

            what = f"the output cannot be written: {error.strerror}"
            raise TransportError(what, help="look at where stdout goes") from error
        finally:
            self._left = bytes(waiting)

    def _safe(self, text: str | bytes) -> str:
        from penstock.sinks.sanitize import clean, escaped

        if isinstance(text, bytes):
            return escaped(text.decode("utf-8", "replace").replace("\r\n", "\n"))
        if not self._is_styled:
            return clean(text)
        from penstock.sinks.text.own_codes import clean_styled

        return clean_styled(text)

    def _wait(self) -> None:
        # Another program that shares the terminal, such as node, may have made it non-blocking.
        import select

        select.select([], [self._fd], [])


def _encoding(stream: TextIO | None) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def sink_output(to: str) -> Output:
    """Return the output of a sink (`--to`) on stdout.

    Programs get UTF-8, as JSON requires; a person gets the encoding that the terminal can show.
    """
    is_text = to == "text"
    return Output(1, _encoding(sys.stdout) if is_text or os.isatty(1) else "utf-8", is_styled=is_text)


def errors_output() -> Output:
    """Return the output of text for people on stderr."""
    return Output(2, _encoding(sys.stderr), is_safe=True)


def say(text: str) -> int:
    """Write text for people to stdout; return 0, so that a command can return it as its exit status."""
    Output(1, _encoding(sys.stdout)).write(_for_people(text))
    return 0


def pass_on(text: str | bytes) -> int:
    """Write data for programs to stdout, where bytes are lines of JSON; return 0 as `say` does."""
    sink_output("data").write(text)
    return 0


def notify(text: str) -> None:
    """Write text to stderr; do nothing if stderr is closed."""
    data = _for_people(text).encode(_encoding(sys.stderr), errors="replace")
    try:
        os.write(2, data if _below is None else _below.before(2, data))
    except OSError:
        pass  # stderr has no reader


def notify_problem(text: str) -> None:
    """Write one line about this program to stderr."""
    notify(f"penstock: {one_line(text)}\n")


def notify_error(error: PenstockError) -> None:
    """Write an error to stderr: one line, or a line for each part if the terminal is too narrow for one.

    Advice stays one line, so that a command in it can be copied.
    """
    width = terminal_width(2)
    if width is not None and width < len(f"penstock: {error}"):
        what, *others = map(one_line, error.parts)
        notify(fitted(f"penstock: {what}\n", 2) + "".join(f"  {part}\n" for part in others))
    else:
        notify_problem(str(error))


def show_warnings() -> None:
    """Write what the package logs, such as that git takes long, to stderr as lines of this program."""
    import logging

    class Warnings(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notify_problem(record.getMessage())

    logger = logging.getLogger("penstock")
    if not logger.handlers:
        logger.addHandler(Warnings(logging.WARNING))


def _for_people(text: str) -> str:
    if text.isascii() and text.replace("\n", "").isprintable() and "::" not in text and "##" not in text:
        return text  # the usual case, without an import
    from penstock.sinks.sanitize import CommandFilter, clean

    return CommandFilter(at_start=True).feed(clean(text))


def one_line(text: str) -> str:
    """Return `text` as one line that does not move the cursor: file names and user input may have any characters."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def discard_stdout() -> None:
    """Send the rest of stdout to /dev/null."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
