"""An agent that asks a server for an agent, by a process that hides whose it is, and then plays another program.

Its arguments are a folder and the program to play. The folder has the request, and gets the depths and the answers.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

FOLDER = Path(sys.argv[1])


def ask(answer: Path) -> None:
    """Send the request, and write down the answer."""
    address, body, token = json.loads((FOLDER / "request").read_text())
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body.encode(), head)) as got:
            answer.write_text(str(got.status))
    except urllib.error.HTTPError as error:
        answer.write_text(f"{error.status} {error.read().decode()}")


if sys.argv[2] == "--ask":
    ask(Path(sys.argv[3]))
else:
    depth = os.environ["PENSTOCK_DEPTH"]
    with (FOLDER / "depths").open("a") as depths:
        depths.write(f"{depth}\n")
    read, write = os.pipe()
    if os.fork() == 0:  # a process of its own session, whose parent has ended
        os.close(read)
        os.setsid()
        if os.fork() == 0:
            os.set_inheritable(write, True)
            words = [sys.executable, "-S", __file__, str(FOLDER), "--ask", str(FOLDER / f"answer{depth}")]
            os.execve(words[0], words, {})
        os._exit(0)
    os.close(write)
    os.read(read, 1)  # until the process that asks has ended
    os.execv(sys.argv[2], sys.argv[2:])
