"""One file of an open directory, replaced, removed or made in one step, if it is as it is expected to be.

The new file is written beside the old one, and the two exchange their names. What comes out is compared with what was
expected, and put back if it differs: what another program saves meanwhile is never lost.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys

from penstock.config.regular_files import open_regular
from penstock.repo.left_files import FoundFile, NotAPlainFile, read_in

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
"""Flags of `renameat2`, from Linux' `fs.h`."""

RENAME_EXCL, RENAME_SWAP = 4, 2
"""Flags of `renameatx_np` on macOS, from its `stdio.h`."""

UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Error numbers of a system or a file system without this kind of renaming."""

PREFIX = ".penstock-undo-"
"""Beginning of the names of files that are there for a moment only."""


class Changed(Exception):
    """The file is not as it was expected. Nothing was changed."""


def replace_file(folder: int, name: str, before: FoundFile, content: bytes, mode: int | None = None) -> None:
    """Give a file another content; its mode, owner and extended attributes stay, unless there is a `mode`.

    Raises:
        Changed: it is not as `before`.
        OSError: it cannot be written. Nothing is changed then.
    """
    made = _write(folder, content, mode, before, name)
    is_ours = True
    try:
        try:
            _rename(folder, made, name, RENAME_EXCHANGE, RENAME_SWAP)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise Changed from error
            if error.errno not in UNSUPPORTED:
                raise
            _check(folder, name, before)  # the smallest gap that this file system allows
            os.rename(made, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
            return
        try:
            _check(folder, made, before)
        except (Changed, OSError):
            is_ours = False  # until it is known that nobody has saved between the two exchanges
            _rename(folder, made, name, RENAME_EXCHANGE, RENAME_SWAP)
            with contextlib.suppress(NotAPlainFile):
                found = read_in(folder, made)
                is_ours = found is not None and found.content == content
            raise
        os.fsync(folder)
    finally:
        if is_ours:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(made, dir_fd=folder)


def make_file(folder: int, name: str, content: bytes, mode: int | None = None) -> None:
    """Make a file that is not there. Without `mode` it has the permissions of new files.

    Raises:
        Changed: there is one.
        OSError: it cannot be written. There is none then.
    """
    made = _write(folder, content, mode, None, name)
    try:
        _rename_to_free(folder, made, name)
        os.fsync(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made, dir_fd=folder)


def remove_file(folder: int, name: str, before: FoundFile) -> None:
    """Remove a file.

    Raises:
        Changed: it is not as `before`.
        OSError: it cannot be removed. It is still there then.
    """
    out = _free_name()
    try:
        _rename_to_free(folder, name, out)
    except FileNotFoundError as error:
        raise Changed from error
    try:
        _check(folder, out, before)
    except (Changed, OSError):
        _rename_to_free(folder, out, name)  # if another one has its name by now, it keeps the name that it has here
        raise
    os.unlink(out, dir_fd=folder)
    os.fsync(folder)


def _check(folder: int, name: str, before: FoundFile) -> None:
    try:
        found = read_in(folder, name)
    except NotAPlainFile as error:
        raise Changed from error
    if found is None or found.content != before.content:
        raise Changed


def _free_name() -> str:
    return PREFIX + secrets.token_hex(8)


def _write(folder: int, content: bytes, mode: int | None, model: FoundFile | None, name: str) -> str:
    """Write a new file, and return its name. `model`: the file `name`, whose owner and attributes it gets."""
    made = _free_name()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(made, flags, 0o666 if model is None else 0o600, dir_fd=folder)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        if model is not None:
            _make_like(fd, folder, name, model.status)
            mode = stat.S_IMODE(model.status.st_mode) if mode is None else mode
        if mode is not None:
            os.fchmod(fd, mode)  # after the owner, whose change clears bits of the mode
        os.fsync(fd)
    except BaseException:
        os.close(fd)
        os.unlink(made, dir_fd=folder)
        raise
    os.close(fd)
    return made


def _make_like(fd: int, folder: int, name: str, status: os.stat_result) -> None:
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(fd, status.st_uid, status.st_gid)
    if sys.platform != "linux":
        return
    model = open_regular(name, within=folder)
    try:
        for attribute in os.listxattr(model):
            os.setxattr(fd, attribute, os.getxattr(model, attribute))
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(model)


def _rename_to_free(folder: int, name: str, to: str) -> None:
    """Rename a file to a name that no other has.

    Raises:
        FileNotFoundError: there is none.
        Changed: another file has the name.
    """
    try:
        _rename(folder, name, to, RENAME_NOREPLACE, RENAME_EXCL)
    except FileExistsError as error:
        raise Changed from error
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        try:
            os.link(name, to, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise Changed from error
        os.unlink(name, dir_fd=folder)


def _rename(folder: int, name: str, to: str, linux: int, macos: int) -> None:
    """Rename a file of a directory with these flags, or exchange two.

    Raises:
        OSError: it is not possible; with a number of `UNSUPPORTED` if it never is here.
    """
    import ctypes  # only an undo needs it

    libc = ctypes.CDLL(None, use_errno=True)
    one, other = os.fsencode(name), os.fsencode(to)
    ctypes.set_errno(0)
    try:
        if sys.platform == "darwin":
            failed = libc.renameatx_np(folder, one, folder, other, ctypes.c_uint(macos))
        else:
            failed = libc.renameat2(folder, one, folder, other, ctypes.c_uint(linux))
    except AttributeError:  # the C library does not have the function
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name) from None
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name, None, to)
