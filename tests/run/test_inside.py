"""A process below an agent is the agent's, whatever environment it has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.run import inside

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")

CLEARED = [sys.executable, "-c", "import os, sys; os.execve(sys.argv[1], sys.argv[1:], {})", sys.executable, "-c"]
"""Beginning of a command that runs code with an empty environment, in the process that had another one."""

DAEMON = "import os, sys\nif os.fork(): sys.exit(input() or 0)\n"
"""Beginning of code that goes on in a process below, while the one above waits."""


def below(code: str, *words: str, depth: str = "2") -> subprocess.Popen[str]:
    """Start code with an empty environment below a process with a depth."""
    env = {**os.environ, inside.DEPTH: depth}
    start = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"]
    return subprocess.Popen(
        [*start, *CLEARED, code, *words], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_the_own_depth() -> None:
    """It is that of the ancestors."""
    root = str(Path(inside.__file__).parents[2])
    process = below("import sys; sys.path.insert(0, sys.argv[1])\n" + DEPTH_HERE, root)
    found, _ = process.communicate()
    assert found.strip() == "2"


DEPTH_HERE = "from penstock.run import inside; print(inside.own_depth())"


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("daemon", ["", DAEMON])
def test_the_client_of_a_port(daemon: str, hides: bool) -> None:
    """It is found though its environment is empty, and though it does not show what it has open."""
    hidden = "import ctypes; ctypes.CDLL(None).prctl(4, 0)\n" if hides else ""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ask = f"import socket, time\none = socket.create_connection(('127.0.0.1', {port}))\none.recv(1)"
        process = below(daemon + hidden + ask)
        connection, (_, number) = server.accept()
        assert inside.depth_of_client(number, port) == 2
        with socket.create_connection(("127.0.0.1", port)) as mine:
            assert inside.depth_of_client(mine.getsockname()[1], port) == 0
        connection.close()
        process.communicate("\n")
    assert process.returncode == 0


def test_the_client_of_a_unix_socket(tmp_path: Path) -> None:
    """It is known by its process. One that has ended while its connection lives is taken for an agent's."""
    process = below("print(__import__('os').getpid(), flush=True); input()")
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert inside.depth_of_peer(pid) == 2
    process.communicate("\n")
    assert inside.depth_of_peer(pid) == inside.MAX_DEPTH
    assert inside.depth_of_peer(os.getpid()) == 0


def test_the_client_of_a_run_s_own_proxy() -> None:
    """Penstock's process asks, and its address has the depth of the agent; no other address has one."""
    assert inside.depth_of_proxied(inside.PROXIED.format(depth=2)) == 2
    for address in ("127.0.0.1", "127.112.101.x", "127.112.101.", "::1", "", "1127.112.101.2"):
        assert inside.depth_of_proxied(address) == 0
