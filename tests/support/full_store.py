"""A server whose disk becomes full: `full_store.py FOLDER PAGE`, with a small file system of its own in FOLDER.

It runs in a mount namespace that a test makes. The disk is filled while an agent works and while nothing happens, and
gets space again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from small_disk import use

SIZE = "size=6m"


def main(folder: Path, page: Path) -> int:
    """Fill the disk of the data directory, and empty it again."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{SIZE},mode=700", "tmpfs", str(data)], check=True)

    def fill() -> None:
        with (data / "fill").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass  # it is full

    use(folder, page, lambda _: fill(), lambda _: (data / "fill").unlink())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
