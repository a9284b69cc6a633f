"""The server of `penstock mcp` on stdin and stdout, whose server plays recordings as turns.

    played_mcp.py FILE

FILE has the entries of the turns by their names, as `entries` writes them.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from unittest import mock

from played_link import PlayedLink, Turns

from penstock.cli.mcp.server import ToolServer
from penstock.cli.stdio.link import StdioOptions


def command(turns: Turns, folder: Path) -> list[str]:
    """The words that start it with these turns."""
    file = folder / "turns"
    file.write_bytes(pickle.dumps(turns))
    return [sys.executable, __file__, str(file)]


def main() -> None:
    """Serve the client."""
    turns: Turns = pickle.loads(Path(sys.argv[1]).read_bytes())
    options = StdioOptions(agent="claude")
    with mock.patch("penstock.cli.mcp.server.ServerLink", return_value=PlayedLink(turns)):
        server = ToolServer(options, 0, 1, is_trusted=True)
    server.serve()


if __name__ == "__main__":
    main()
