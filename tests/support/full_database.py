"""A database whose disk becomes full under two nodes: `full_database.py FOLDER DISK WHAT`, with a small disk at DISK.

It runs in a mount namespace that a test makes. WHAT is `tables` or `log`: the files that are on the small disk. If
PostgreSQL cannot write its log, it ends; it is started again once there is space, as a service manager does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
from crowd import Crowd, Watching
from machines import Cluster, Machine
from postgres import Server
from truth import folded, judge
from waiting import until

from penstock.chat.store.postgres.checking import check

SIZE, MORE = "size=64m", "size=512m"
"""Sizes of the file system: a new database or three files of its log fit into it, and all that comes."""

LEFT_BYTES = 2 * 1024 * 1024
"""Bytes that are left when the prompts begin."""

TEXT = "text " * 80_000
"""Text of a prompt, which needs new pages."""

MOST = 200
"""Prompts after which the disk has to be full."""


def main(folder: Path, disk: Path, what: str) -> int:
    """Fill the disk while agents work, and check that nothing acknowledged is lost and all goes on with more space."""
    _mount(disk, SIZE)
    disk.chmod(0o777)
    server = Server(disk / "log") if what == "log" else Server()
    try:
        url = server.database() if what == "log" else server.database_in(disk / "tables")
        cluster = Cluster(folder, url)
        try:
            use(cluster, server, disk)
        finally:
            cluster.close()
    finally:
        server.close()
    return 0


def use(cluster: Cluster, server: Server, disk: Path) -> None:
    """Prompt until the disk is full, and again once it has space."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    held, quick = gateway.chat("held"), gateway.chat("quick")
    with Crowd([Watching(chat, [node]) for chat in (held, quick) for node in (home, gateway)]) as crowd:
        gateway.prompt(held, "held")
        until(lambda: cluster.prompts() == ["held"])
        with (disk / "fill").open("wb") as file:
            file.write(bytes(shutil.disk_usage(disk).free - LEFT_BYTES))
        kept = _prompt_until_full(gateway, quick)
        assert "No space left on device" in (server.folder / "log").read_text()
        cluster.gate.touch()
        nodes = (home, gateway)

        def is_away() -> bool:
            _fill(disk)
            return _ready(gateway) == 503

        until(is_away, "the node that could not keep a prompt is not ready")
        _mount(disk, f"remount,{MORE}")
        after = until(lambda: _is_up(server) and _asked(gateway, quick, "after"), "prompts are accepted again")
        until(lambda: [_ready(node) for node in nodes] == [200, 200], "they are ready again")
        said = [node.errors.read_text() for node in nodes]
        for text in said:  # what little a node appends meanwhile may fit into pages that there are
            assert text.count("nothing can be kept") == text.count("the store works again"), text
        assert any("nothing can be kept" in text for text in said), said
        gateway.settled(quick)
        gateway.settled(held)
        rows = {chat: cluster.rows(chat) for chat in (held, quick)}
        crowd.reach({chat: len(found) for chat, found in rows.items()})
    turns = folded(rows[quick])
    assert [turns[turn]["prompt"] for turn in (*kept, after)] == [*kept.values(), "after"]
    assert all(turn["outcome"] for turn in (*turns.values(), *folded(rows[held]).values()))
    assert turns[after]["outcome"] == "ok"
    for chat, found in rows.items():
        judge(found, [it for it in crowd.watching if it.chat == chat])
    begun = cluster.prompts()
    assert len(begun) == len({*begun}), "a turn began twice"
    assert {*begun} <= {"held", *(turn["prompt"].strip() for turn in turns.values())}
    assert cluster.left_over() == []
    assert asyncio.run(check(cluster.url)).problems == []


def _fill(disk: Path) -> None:
    """Take all space of the disk, also what the database gives back: with a little space, small writes succeed."""
    with contextlib.suppress(OSError), (disk / "fill").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def _prompt_until_full(node: Machine, chat: str) -> dict[int, str]:
    """Send prompts until a request gets 503; return those that were acknowledged, by their turns."""
    kept: dict[int, str] = {}
    for number in range(MOST):
        text = f"{number} {TEXT}"
        turn = _asked(node, chat, text)
        if turn is None:
            return kept
        kept[turn] = text
        if until(lambda: _turns(node, chat), "the turn ends, or the disk is full") == "full":
            return kept
    raise AssertionError("the disk is not full")


def _turns(node: Machine, chat: str) -> str:
    """State of a chat's turns: "over", "full" if the store is away (a server whose log is full has ended), else ""."""
    with node.client() as client:
        answer = client.get(f"/api/chats/{chat}/turns")
    if answer.status_code == 503:
        return "full"
    return "over" if all(turn.get("finalized") for turn in answer.json()["turns"]) else ""


def _asked(node: Machine, chat: str, text: str) -> int | None:
    """Ask for a turn; return its number, or None if the store cannot keep it."""
    with node.client() as client, contextlib.suppress(httpx.TimeoutException):
        answer = client.post(f"/api/chats/{chat}/turns", json={"text": text})
        if answer.status_code in (200, 202):
            return int(json.loads(answer.text)["turn"])
        assert (answer.status_code, answer.json()["code"]) in ((503, "store_unavailable"), (429, "too_many_requests"))
        assert answer.status_code == 503, "the queue is full, and not the disk"
    return None


def _ready(node: Machine) -> int:
    with node.client() as client:
        return client.get("/readyz").status_code


def _is_up(server: Server) -> bool:
    """Start the server again, if it has ended."""
    if not server.is_running:
        server.start()
    return True


def _mount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
