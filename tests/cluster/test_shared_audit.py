"""The record of what people did at several nodes: in the database each line once, whatever is cut or killed."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from effort import at_most
from machines import Cluster, Machine
from waiting import until

from penstock.chat.cluster.shared_audit import MAX_LINES, SharedAudit, shared_records
from penstock.chat.people import persons
from penstock.chat.people.audit import AUDIT, Audit, files_of, records
from penstock.chat.store.postgres.connections import Database, Patience
from penstock.chat.store.protocol import StoreFailed

if TYPE_CHECKING:
    from slow_network import Proxy

pytestmark = pytest.mark.slow

SHORT = Patience(statement=0.5, connect=0.5, away=1.0)
"""Seconds after which a store gives up, where it is to do so."""

LONG = Patience(statement=0.5, connect=0.5, away=60.0)
"""Seconds of a store that gives up an attempt soon, and the call not at all."""


async def kept(url: str, node: str = "") -> list[str]:
    """What the database has, in its order; of one node, if it is named."""
    async with Database(url) as database:
        return [it.what async for it in shared_records(database) if node in ("", it.node)][::-1]


async def copied(url: str, folder: Path, patience: Patience = LONG, node: str = "paris") -> None:
    """Copy a record, as a node does that starts and ends."""
    async with Database(url, patience) as database:
        await SharedAudit(database, node, folder).copy()


def write(folder: Path, *numbers: int) -> None:
    """Write records of these numbers."""
    writer = Audit(folder)
    for number in numbers:
        writer.write("ana", f"did-{number}", details={"path": "/srv/\0"})  # PostgreSQL has no NUL in texts


def names(count: int) -> list[str]:
    """Names of so many records."""
    return [f"did-{number}" for number in range(count)]


def test_each_line_is_copied_once(database: str, tmp_path: Path) -> None:
    """More than fit into one copy, of two nodes; what no record is stays behind; lines that come later follow."""
    folder, count = tmp_path / AUDIT, MAX_LINES * 2 + 10
    write(folder, *range(count))
    with open(files_of(folder)[0], "ab") as file:
        file.write(b'{"no":"record"}\n' + b"x" * 200_000 + b"\n{\xff}\n\n")
    for _ in range(2):
        asyncio.run(copied(database, folder))
        assert asyncio.run(kept(database)) == names(count)
    asyncio.run(copied(database, folder, node="oslo"))
    write(folder, count)
    with open(files_of(folder)[0], "ab") as file:
        file.write(b'{"at":1,"person":"ana"')  # it is being written
    asyncio.run(copied(database, folder))
    assert asyncio.run(kept(database, "paris")) == names(count + 1)
    assert asyncio.run(kept(database, "oslo")) == names(count)


def test_a_copy_through_a_network_that_is_cut(database: str, proxy: Proxy, tmp_path: Path) -> None:
    """Each copy is cut once: after the first piece that passes, after the second, and so on to its end."""
    folder, count = tmp_path / AUDIT, at_most(12, 60)

    async def cut_after(pieces: int) -> None:
        while proxy.passed < pieces:
            await asyncio.sleep(0)
        proxy.cut()

    async def copying() -> None:
        for number in range(count):
            write(folder, number)
            cut = asyncio.create_task(cut_after(proxy.passed + number % 15 + 1))
            await copied(proxy.url(database), folder)
            cut.cancel()

    asyncio.run(copying())
    assert asyncio.run(kept(database)) == names(count)


def test_a_lost_acknowledgement(database: str, proxy: Proxy, tmp_path: Path) -> None:
    """The lines are in the database, and the node never gets to know: its next process does not copy them again."""
    folder = tmp_path / AUDIT
    write(folder, 0, 1, 2)

    async def lose() -> None:
        async with Database(proxy.url(database), SHORT) as first:
            await first.fetch("SELECT 1")
            audit = SharedAudit(first, "paris", folder)
            fetch = first.fetch

            async def held(query: Any, *values: Any) -> Any:
                if "INSERT" in query:
                    proxy.hold("to client")
                return await fetch(query, *values)

            first.fetch = held  # type: ignore[assignment]
            with pytest.raises(StoreFailed):
                await audit.copy()

    asyncio.run(lose())
    until(lambda: asyncio.run(kept(database)) == names(3), "the database has what it did not acknowledge")
    proxy.cut()
    proxy.hold()
    write(folder, 3)
    asyncio.run(copied(database, folder))
    assert asyncio.run(kept(database)) == names(4)


def test_a_restored_backup(database: str, tmp_path: Path) -> None:
    """What the database has lost is copied again. If a node's files are older, new lines are copied, and none twice."""
    folder = tmp_path / AUDIT
    write(folder, 0, 1)
    shutil.copytree(folder, tmp_path / "backup")
    write(folder, 2, 3)
    asyncio.run(copied(database, folder))

    async def restore() -> None:
        async with Database(database) as used:
            audit = SharedAudit(used, "paris", folder)
            await audit.copy()
            await used.fetch("DELETE FROM audit WHERE key > (SELECT min(key) FROM audit)")
            await audit.copy()
            assert await kept(database) == names(1), "nothing new: nothing is asked"
            write(folder, 4)
            await audit.copy()

    asyncio.run(restore())
    assert asyncio.run(kept(database)) == names(5)
    shutil.rmtree(folder)
    (tmp_path / "backup").rename(folder)
    write(folder, 5)
    asyncio.run(copied(database, folder))
    assert asyncio.run(kept(database)) == names(6)


def shown(cluster: Cluster, *options: str) -> list[dict[str, Any]]:
    """What `penstock audit` shows of all machines."""
    command = [sys.executable, "-m", "penstock", "audit", f"--store={cluster.url}", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_node(machine: Machine) -> list[Any]:
    """The record in the files of a machine."""
    return [(it.at, it.person, it.what, it.status) for it in records(machine.folder / "data" / AUDIT)]


def in_database(cluster: Cluster, name: str) -> list[Any]:
    """The record of a machine in the database."""

    async def read() -> list[Any]:
        async with Database(cluster.url) as database:
            found = [it async for it in shared_records(database) if it.node == name]
        return [(it.at, it.person, it.what, it.status) for it in reversed(found)]

    return asyncio.run(read())


def client_of(machine: Machine, token: str) -> httpx.Client:
    """A program of the person who has this token."""
    client = machine.client()
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def test_a_node_that_is_killed_while_the_database_is_away(cluster: Cluster, proxy: Proxy) -> None:
    """What was answered before is in the record of all machines, once and in its order, when both are back."""
    paris, oslo = cluster.machine("paris", url=proxy.url(cluster.url)), cluster.machine("oslo", works=False)
    token = persons.add(paris.folder / "data", "ben", "viewer", 0)
    proxy.hold("to server", "to client")
    proxy.cut()
    with client_of(paris, token) as ben:
        for number in range(10):
            assert ben.delete(f"/api/nodes/try-{number}").status_code == 403
    paris.end(SIGKILL)
    oslo.post("/api/link", {})
    left = of_node(paris)
    assert [it[1:] for it in left[-10:]] == [("ben", "remove_node", 403)] * 10
    assert not {*left[-10:]} & {*in_database(cluster, "paris")}, "the database was away"
    proxy.hold()
    paris.start()
    with client_of(paris, token) as ben:
        assert ben.delete("/api/nodes/again").status_code == 403
    until(lambda: in_database(cluster, "paris") == of_node(paris), "the record of the node is in the database")
    tried = [it["details"]["node"] for it in shown(cluster, "--refused", "--person=ben")]
    assert tried == [*(f"try-{number}" for number in range(10)), "again"]
    until(lambda: in_database(cluster, "oslo") == of_node(oslo), "so is that of the other node")
    assert {it["node"] for it in shown(cluster)} == {"paris", "oslo"}
