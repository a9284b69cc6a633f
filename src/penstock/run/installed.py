"""Installed programs of agents: their versions, and the kinds of lines that they can print."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from penstock.agents import kinds
from penstock.agents._facts import KindSource
from penstock.agents.kinds import Content
from penstock.config.regular_files import NotRegular, open_regular
from penstock.errors import TransportError

MAX_BYTES = 1 << 30
"""Size in bytes of the largest file that is read: executables with a runtime of their own have some hundred MB."""
MAX_FILES = 5000
"""Number of files of one program that are read: the largest bundle has some hundred."""
MAX_PARENTS = 8
"""Number of folders above a program in which the description of its package is looked for."""

_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")


class Unreadable(Exception):
    """The kinds that a program can print cannot be read; the text is the reason."""


class _Package(msgspec.Struct):
    """Fields of `package.json`."""

    name: str
    version: str


def where(program: str) -> str | None:
    """Return the path of a program, or None if it is not installed."""
    return shutil.which(program) if program else None


def version(path: str, seconds: float, source: KindSource | None = None) -> str | None:
    """Return the version of a program: that of its package, else what `--version` prints in time.

    source: place of its kinds, which names its package if that is one of Python.
    """
    if source is not None and source.python:
        found = _python_package(path, source.python)
        return _version_in(found[1]) if found is not None else printed_version(path, seconds)
    package = _package(path)
    if package is not None:
        return _version_in(package[1].version)
    return printed_version(path, seconds)


def printed_version(path: str, seconds: float) -> str | None:
    """Return the version that `--version` prints; None if it prints none in time. Nothing is left running."""
    from penstock.run.process import output_of

    try:
        _, said = output_of([path, "--version"], os.environ, None, seconds)
    except TransportError:
        return None
    return _version_in(said)


def _version_in(text: str) -> str | None:
    found = _VERSION.search(text)
    return found[0].rstrip(".")[:64] if found else None


def printable(path: str, source: KindSource, seconds: float) -> set[str]:
    """Return the names of the kinds of lines that a program can print.

    Raises:
        Unreadable: they cannot be read, or not in time.
    """
    end = time.monotonic() + seconds
    if source.schema:
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            _write_schema(path, source, folder, seconds)
            return _in_files(_matching(Path(folder), source.files), source, end)
    if not source.files:
        return _in_files(iter([Path(os.path.realpath(path))]), source, end)
    if source.python:
        found = _python_package(path, source.python)
        if found is None:
            raise Unreadable("its Python package, whose files name them, was not found")
        return _in_files(_matching(found[0], source.files), source, end)
    package = _package(path)
    if package is None:
        raise Unreadable("it is not installed as an npm package, whose files have them")
    return _in_files(_matching(package[0], source.files), source, end)


def _write_schema(path: str, source: KindSource, folder: str, seconds: float) -> None:
    from penstock.run.process import output_of

    words = [word.replace("{folder}", folder) for word in source.schema]
    try:
        status, _ = output_of([path, *words], os.environ, folder, seconds)
    except TransportError as error:
        raise Unreadable(str(error)) from error
    if status != 0:
        what = "ends in time" if status is None else f"succeeds (status {status})"
        raise Unreadable(f"its command `{' '.join(source.schema[:2])}`, which writes its schema, no longer {what}")


def _in_files(files: Iterator[Path], source: KindSource, end: float) -> set[str]:
    found: set[str] = set()
    for number, file in enumerate(files):
        if number >= MAX_FILES or time.monotonic() > end:
            raise Unreadable("its files are too many, or too slow, to be read in time; a second try may be faster")
        with _content(file) as content:
            try:
                found |= kinds.printable(content, source)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                raise Unreadable(f"{file.name} has another form than expected") from error
    if not found:
        raise Unreadable("it no longer has them in a form that Penstock knows")
    return found


def _matching(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())


@contextmanager
def _content(file: Path) -> Iterator[Content]:
    """Open a file for reading. It must be a regular one: any other might never have an end."""
    try:
        fd = open_regular(file, follows=True)
    except NotRegular as error:
        raise Unreadable(f"{file.name} is not a file") from error
    except OSError as error:
        raise Unreadable(f"{file.name} cannot be read: {error.strerror}") from error
    try:
        size = os.fstat(fd).st_size
        if size > MAX_BYTES:
            raise Unreadable(f"{file.name} is larger than {MAX_BYTES >> 30} GiB")
        if size == 0:
            yield b""
            return
        with mmap(fd, 0, access=ACCESS_READ) as content:
            yield content
    except OSError as error:
        raise Unreadable(f"{file.name} cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)


def _package(path: str) -> tuple[Path, _Package] | None:
    """Return the folder and the description of the npm package that a program belongs to; None if it is in none."""
    program = Path(os.path.realpath(path))
    if "node_modules" not in program.parts:
        return None
    for folder in list(program.parents)[:MAX_PARENTS]:
        if folder.name == "node_modules":
            return None
        try:
            with _content(folder / "package.json") as content:
                return folder, msgspec.json.decode(bytes(content), type=_Package)
        except (Unreadable, msgspec.DecodeError):
            continue  # a folder inside the package, perhaps with a description of its own that has no version
    return None


def _python_package(path: str, name: str) -> tuple[Path, str] | None:
    """Return the folder of the packages that a program of Python belongs to, and the version of the one of this name.

    None if it is not there: then the program is of an environment with another form.
    """
    above = Path(os.path.realpath(path)).parent.parent
    for metadata in sorted(above.glob(f"lib/python3*/*-packages/{name}-*.dist-info")):
        return metadata.parent, metadata.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return None
