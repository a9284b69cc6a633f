"""Run a loop that kills itself: `killed_loop.py FOLDER ROW before|after`, or `FOLDER 0 never`.

It dies by SIGKILL before or after the row of this number is written, as at a loss of power.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from loop_desk import Watcher

from penstock.config.settings import load
from penstock.loop.engine import Engine
from penstock.loop.journal import Journal
from penstock.loop.loops import resume
from penstock.loop.rows import AnyRow


class DyingJournal(Journal):
    """Journal that kills its process at one row."""

    row = 0
    when = "never"

    def append(self, row: AnyRow) -> None:
        """Append a row, or die."""
        if row.n == self.row and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().append(row)
        if row.n == self.row and self.when == "after":
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, row: int, when: str) -> int:
    """Run the loop of a folder."""
    journal = DyingJournal.open(folder)
    assert isinstance(journal, DyingJournal)
    if len(journal.rows) > 1:
        resume(journal)
    journal.row, journal.when = row, when
    return Engine(journal, load(), Watcher()).run()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
