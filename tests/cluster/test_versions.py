"""Nodes of two versions on one database, and databases that are older or newer than a node."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING, Any

import pytest
from newer import KIND, VERSION
from waiting import until

from penstock.chat.store.postgres.connections import Database
from penstock.chat.store.postgres.migrate import migrations, newest

if TYPE_CHECKING:
    from machines import Cluster, Machine

pytestmark = pytest.mark.slow

NEWER = Path(__file__).parents[1] / "support" / "newer.py"


def _change(url: str, query: Any) -> None:
    """Run one statement."""

    async def run() -> None:
        database = Database(url)
        try:
            await database.fetch(query)
        finally:
            await database.close()

    asyncio.run(run())


def _use(cluster: Cluster, here: Machine, there: Machine) -> str:
    """Use a chat of one machine from the other; return it once both show it in the same way."""
    chat = there.chat("held", home=here.name)
    cluster.gate.unlink(missing_ok=True)
    with there.watching(chat) as frames:
        there.prompt(chat, f"first {chat}")
        until(lambda: f"first {chat}" in cluster.prompts())
        there.prompt(chat, f"second {chat}")
        there.prompt(chat, f"third {chat}")
        there.post(f"/api/chats/{chat}/stop", {"turn": 3})
        cluster.gate.touch()
        found = there.settled(chat, 3)
        until(lambda: frames.kinds().count("finalized") == 3, "the stream shows the ends")
    assert [turn["outcome"] for turn in found] == ["ok", "ok", "cancelled"]
    until(lambda: here.turns(chat) == found, "both machines show the same")
    details = f"/api/chats/{chat}/turns/1/details"
    assert here.get(details) == there.get(details)
    return chat


def test_an_older_node_beside_a_newer(cluster: Cluster) -> None:
    """Each shows, runs, stops and ends the turns of the other; what the older one does not know is passed over."""
    newer, older = cluster.machine("newer", program=NEWER), cluster.machine("older")
    first, second = _use(cluster, newer, older), _use(cluster, older, newer)
    assert KIND in [row.data for row in cluster.rows(first)]
    assert newer.turns(first)[0]["message"] == older.turns(second)[0]["message"]
    assert {node["about"]["version"] for node in older.get("/api/nodes")["nodes"]} > {VERSION}
    nodes = [sys.executable, "-m", "penstock", "nodes", f"--store={cluster.url}"]
    assert VERSION in subprocess.run(nodes, capture_output=True, text=True, timeout=60, check=True).stdout
    seen = older.turns(first)
    assert older.end(SIGTERM) == 0
    older.start()
    assert older.turns(first) == seen
    lost = older.chat("stuck", home="newer")
    older.prompt(lost, "for ever")
    until(lambda: "for ever" in cluster.prompts())
    newer.end(SIGKILL)
    (turn,) = older.settled(lost)
    assert (turn["outcome"], turn["reason"]) == ("cut_off", "its machine was lost")
    newer.start()
    older.prompt(first, "again")
    assert older.settled(first, 4)[3]["outcome"] == "ok"


def test_a_newer_database(cluster: Cluster) -> None:
    """A node whose database has a migration that it does not know starts and works."""
    _change(cluster.url, "INSERT INTO migrations (number, name) VALUES (9999, 'newer')")
    machine = cluster.machine("a")
    chat = machine.chat("quick")
    machine.prompt(chat, "hi")
    assert machine.settled(chat)[0]["outcome"] == "ok"


def test_an_older_database(cluster: Cluster) -> None:
    """A node ends at once, and says which migration the database has, which one it needs, and how to make it."""
    _change(cluster.url, f"DELETE FROM migrations WHERE number = {newest()}")
    serve = [sys.executable, "-m", "penstock", "serve", "--port=0", f"--store={cluster.url}", "--node=a"]
    data = f"--data={cluster.folder / 'data'}"
    done = subprocess.run([*serve, data], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"the database has the tables of migration {migrations()[-2].number}" in done.stderr
    assert f"migration {newest()}" in done.stderr
    assert "penstock store migrate" in done.stderr
    assert "Traceback" not in done.stderr
