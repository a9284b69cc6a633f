"""Options that name the store in PostgreSQL, and the rules for its URL: a password must not be on a command line."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import shlex
import sys
from pathlib import Path

from penstock._version import DISTRIBUTION
from penstock.cli.options import string
from penstock.config.rules import PATH
from penstock.config.secrets import take_variable
from penstock.errors import UsageError

STORE_VARIABLE = "PENSTOCK_STORE"
"""Variable with the URL of the store. It is removed from the environment, so that no agent finds it."""

MAX_URL_BYTES = 4096
"""Bytes of the longest URL: a larger file is something else."""

PACKAGES = ("psycopg", "psycopg_pool", "procrastinate")


class StoreOptions(argparse.Namespace):
    """Options that name the store."""

    store: str | None
    store_file: Path | None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the store."""
    add = parser.add_argument
    text = "PostgreSQL for the chats of several machines, without a password"
    add("--store", metavar="URL", help=text)
    text = f"file with the URL of the store, which may have a password; {STORE_VARIABLE} has it too"
    add("--store-file", type=lambda word: Path(string(PATH)(word)), metavar="F", help=text)


def store_url(options: StoreOptions) -> str | None:
    """Return the URL of the store in PostgreSQL, and remove it from the environment; None if no store is named.

    Raises:
        UsageError: the URL cannot be used, two are named, or the extra is not installed.
    """
    given = take_variable(STORE_VARIABLE)
    if options.store is not None and options.store_file is not None:
        raise UsageError("--store and --store-file cannot be used together", expected="one of them")
    url = given
    if options.store is not None:
        url = options.store
    elif options.store_file is not None:
        url = _read(options.store_file)
    if url is None:
        return None
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"a store in PostgreSQL needs {', '.join(missing)}", help=f"install with: {_install_command()}"
        )
    _check(url, may_have_password=options.store is None)
    return url


def _install_command() -> str:
    """Return the command that installs the packages of the extra `cluster` for this Penstock.

    It names these packages and not Penstock, which is in no registry: a package of the same name there is somebody
    else's.
    """
    needed = [text.partition(";") for text in importlib.metadata.requires(DISTRIBUTION) or ()]
    packages = [name.strip() for name, _, condition in needed if "extra ==" in condition and "cluster" in condition]
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def required_store_url(options: StoreOptions) -> str:
    """Return the URL of the store in PostgreSQL, as `store_url`.

    Raises:
        UsageError: as `store_url`, or no store is named.
    """
    url = store_url(options)
    if url is None:
        raise UsageError("no store is named", expected=f"--store URL, --store-file F or {STORE_VARIABLE}")
    return url


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_URL_BYTES + 1)[: MAX_URL_BYTES + 1].decode("utf-8", "replace").strip()
    except OSError as error:
        raise UsageError(f"the file of the store {path} cannot be read: {error.strerror}") from error


def _check(url: str, *, may_have_password: bool) -> None:
    from penstock.chat.store.postgres.connections import has_password

    if has_password(url) and not may_have_password:
        raise UsageError(
            "--store has a password, which everybody on this machine can see",
            expected="a URL without one",
            help=f"put the URL into a file for --store-file, or into {STORE_VARIABLE}; PGPASSFILE works as well",
        )
