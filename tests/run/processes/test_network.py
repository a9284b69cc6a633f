"""Runs with a restricted network: what is reached from inside, and what is said of the rest."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.events import Notice
from penstock.run.agent import agent

pytestmark = pytest.mark.usefixtures("_bubblewrap")

TRY = """
import os, socket, sys
for port in map(int, sys.argv[1:]):
    try:
        with socket.create_connection(("127.0.0.1", port), 3) as made:
            print(port, made.recv(20).decode(), flush=True)
    except OSError as error:
        print(port, type(error).__name__, flush=True)
with open("seen", "w") as file:
    print(*sorted(name for _, name in socket.if_nameindex()), file=file)
    print(*sorted(os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in os.listdir("/proc/self/fd") if
        os.path.exists(f"/proc/self/fd/{fd}")), file=file)
try:
    with socket.create_connection(("127.0.0.1", 3128), 3) as asked:
        asked.sendall(b"CONNECT evil.test:443 HTTP/1.1\\r\\n\\r\\n")
        print(asked.recv(12).decode(), flush=True)
except OSError as error:
    print("proxy", type(error).__name__, flush=True)
"""


@pytest.fixture
def greeter() -> Iterator[int]:
    """The port of a server on this machine that greets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    made, _ = listener.accept()
                    made.sendall(b"hello")
                    made.close()
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def tried(shop: Path, *ports: int, **options: Any) -> tuple[list[str], list[str]]:
    """What a program inside got from these ports and from the proxy, and the warnings of the run."""
    script = shop / "try.py"
    script.write_text(TRY)
    command = [sys.executable, str(script), *map(str, ports)]
    with agent("demo", command=command, adapter="generic", cwd=shop, sandbox="auto", **options).run("hi") as started:
        events = list(started)
    notices = [event for event in events if type(event) is Notice]
    return (
        [notice.text for notice in notices if notice.code == "noise"],
        [notice.text for notice in notices if notice.code == "permission"],
    )


def test_only_what_is_named_is_reached(shop: Path, greeter: int) -> None:
    """A port of this machine that is named, at the same port inside; any other address is refused and reported."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        said, refused = tried(
            shop, greeter, other.getsockname()[1], network="agent", network_hosts=[f"127.0.0.1:{greeter}"]
        )
        assert said == [f"{greeter} hello", f"{other.getsockname()[1]} ConnectionRefusedError", "HTTP/1.1 403"]
    assert refused == ["this run may not connect to evil.test:443"]
    interfaces, descriptors = (shop / "seen").read_text().splitlines()
    assert interfaces == "lo"
    assert "socket" not in descriptors


def test_no_network(shop: Path, greeter: int) -> None:
    """Nothing is reached, the loopback of this machine neither."""
    said, refused = tried(shop, greeter, network="none")
    assert said == [f"{greeter} ConnectionRefusedError", "proxy ConnectionRefusedError"]
    assert refused == []


def test_the_end_of_a_run_with_a_proxy(shop: Path) -> None:
    """Statuses and signals are those of other runs, and the proxy ends with the run."""
    before = threading.active_count()
    command = ["sh", "-c", "kill -9 $$"]
    started = agent("demo", command=command, adapter="generic", cwd=shop, sandbox="on", network="agent").run("hi")
    with started:
        started.wait()
    assert started.exit_status == -9
    assert threading.active_count() <= before


@pytest.mark.parametrize("sandbox", ["own", "off"])
def test_a_network_needs_the_whole_confinement(shop: Path, sandbox: Any) -> None:
    """With less, sockets of other programs would be a way out: it is rejected before the start."""
    with pytest.raises(UsageError, match="restricted with --sandbox on alone"):
        agent("demo", command=["true"], adapter="generic", cwd=shop, network="none", sandbox=sandbox).run("hi")


def test_it_is_never_left_out(shop: Path, tmp_path: Path) -> None:
    """Where nothing can be confined, `auto` would go on without; a network that was asked for is an error."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/true").symlink_to("/bin/true")
    env = {"PATH": str(tmp_path / "bin")}
    with pytest.raises(UsageError, match="needs bubblewrap"):
        agent("demo", command=["true"], cwd=shop, sandbox="auto", network="agent", env=env).run("hi")
