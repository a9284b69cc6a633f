"""An agent that plays the next of the recordings in a folder at each start, at once: `parrot.py FOLDER [ANYTHING…]`."""

import sys
from pathlib import Path

folder = Path(sys.argv[1])
count = folder / "count"
number = int(count.read_text("ascii")) if count.is_file() else 0
count.write_text(str(number + 1), "ascii")
sys.stdout.buffer.write((folder / str(number) / "input.ndjson").read_bytes())
