"""Program inside a confined run that opens ports of its loopback, hands them to Penstock, and becomes the agent.

It is run as a file (`python -I -S open_ports.py SOCKET PORT,… PROGRAM ARG…`), before the agent: no process of it is
left inside. Connections that come before Penstock serves a port wait in its queue.
"""

from __future__ import annotations

import _socket
import os
import sys
from array import array

BACKLOG = 128
"""Connections that may wait for Penstock at each port."""
NOT_FOUND, NOT_EXECUTED = 127, 126
"""Exit statuses of a shell for a program that does not exist, and for one that cannot be executed."""


def main(socket: int, ports: list[int], argv: list[str]) -> None:
    """Open the ports, hand them over, and execute the program."""
    control = _socket.socket(fileno=socket)
    opened = []
    for port in ports:
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
        opened.append(listener)
    fds = array("i", [listener.fileno() for listener in opened])
    control.sendmsg([b"ports"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
    control.close()
    for listener in opened:
        listener.close()
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"{argv[0]!r} cannot be executed where it is confined: {error.strerror}\n")
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTED)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(port) for port in sys.argv[2].split(",")], sys.argv[3:])
