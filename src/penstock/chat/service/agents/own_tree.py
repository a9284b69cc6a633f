"""Tree of a chat, as a run finds it: the directory is used only if it is still the one that was made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.chat.store.rows import ChatRow
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.repo.tree import TreeRecord


def record_of(data: Path, row: ChatRow) -> TreeRecord:
    """Return the record of a chat's tree. Its directory is checked: another one may be in its place.

    Raises:
        UsageError: it is not.
    """
    from penstock.repo.tree import read_record
    from penstock.repo.trees import home_of

    assert row.tree is not None
    record = read_record(home_of(data, row.tree.name))
    help = f"what was committed of it is on the branch {row.tree.branch}; begin another chat"
    if record is None:
        raise UsageError("the tree of this chat was removed", help=help)
    if record.problem:
        raise UsageError(f"the tree of this chat, {record.path}, {record.problem}", help=help)
    top = os.path.realpath(record.path)
    if os.path.realpath(row.cwd) != row.cwd or not Path(row.cwd).is_relative_to(top) or not os.path.isdir(row.cwd):
        raise UsageError(f"the directory {row.cwd} of this chat is gone, or a link is in its place", help=help)
    return record
