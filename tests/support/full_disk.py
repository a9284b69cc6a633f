"""Loops on a disk that becomes full: `full_disk.py FOLDER WHEN`, with a small file system of its own at FOLDER.

It runs in a mount namespace that a test makes, fills the disk while the agent works, while a check runs, or before the
loop, and compares what is there afterwards.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from loop_desk import Desk

from penstock.loop.fold import fold
from penstock.loop.journal import process_of, read_rows

SIZE = "size=32m"
"""Size of the file system: the repository, the data directory and git's objects fit into it with space to spare."""
FILL = 'dd if=/dev/zero of="{0}/fill" bs=64k 2> /dev/null; dd if=/dev/zero of="{0}/fill2" bs=1 2> /dev/null'
"""Commands that fill a disk to the last byte."""


def main(folder: Path, when: str) -> int:
    """Fill the disk at some time, and check that nothing is lost and that the loop goes on when there is space."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", SIZE, "tmpfs", str(folder)], check=True)
    desk = Desk(folder)
    fill = FILL.format(desk.scripts)
    once = f"if [ $(count {when}) = 1 ]; then {fill}; fi; "
    work = 'if [ ! -e half ]; then echo a > half; else echo b > done; fi; reply "Add a part"'
    desk.agent("worker", (once if when == "agent" else "") + work)
    script = f'DESK="{desk.scripts}"; . "$DESK/frames.sh" < /dev/null > /dev/null; {once if when == "check" else ""}'
    check = f"{script} test -e done"
    before = desk.user.state()
    if when == "before":
        subprocess.run(["sh", "-c", fill], check=False)
    first = run(desk, "PROMPT.md", "--work=worker", f"--check={check}", "--name=l1")
    assert first.returncode == 2, first.stderr
    assert any(words in first.stderr for words in ("No space left on device", "Out of diskspace"))
    assert "Traceback" not in first.stderr
    assert "run: penstock loop resume l1" in first.stderr or when == "before"
    assert desk.user.state() == before
    has_begun = (desk.data / "loops" / "l1" / "journal.ndjson").exists()
    rows = read_rows(desk.data / "loops" / "l1") if when != "before" and has_begun else []
    assert bool(rows) == (when != "before")
    for name in ("fill", "fill2"):
        (desk.scripts / name).unlink(missing_ok=True)
    words = ["resume", "l1"] if rows else ["PROMPT.md", "--work=worker", f"--check={check}", "--name=l1"]
    second = run(desk, *words)
    assert second.returncode == 0, second.stderr
    after = read_rows(desk.data / "loops" / "l1")
    assert after[: len(rows)] == rows
    assert fold(after).used.rounds == len(fold(after).rounds)
    assert {"half", "done"} <= set(desk.files())
    assert desk.user.state() == before
    assert process_of(desk.data / "loops" / "l1") is None
    return 0


def run(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a loop."""
    argv = [sys.executable, "-m", "penstock", "loop", *words]
    return subprocess.run(argv, cwd=desk.user.root, env=desk.environment, capture_output=True, text=True, timeout=100)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
