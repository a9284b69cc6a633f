from __future__ import annotations

import asyncio

import pytest
from loop_desk import Desk

from penstock.loop import Loop
from penstock.loop.journal import Journal
from penstock.loop.rows import JournalRow, StepBegan
from penstock.loop.steps import RunAgent


@pytest.mark.slow
def test_a_program_follows_a_loop(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows come as they are written, the result has status and state, and the lock is released."""
    desk.agent("worker", 'touch done; reply "Add done"')
    monkeypatch.setenv("PENSTOCK_CONFIG", str(desk.config_file))

    async def follow() -> tuple[int, list[JournalRow]]:
        async with Loop(desk.prompt, desk.settings("worker"), name="l1", data=desk.data) as loop:
            rows = [row async for row in loop]
        return loop.result.status, rows

    status, rows = asyncio.run(follow())
    assert status == 0
    assert [row.n for row in rows] == list(range(2, len(rows) + 2))
    Journal.open(desk.data / "loops" / "l1").close()


@pytest.mark.slow
def test_leaving_the_block_stops_the_loop(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that leaves the block while an agent works ends the agent and the loop, which can be resumed."""
    desk.agent("worker", 'if [ ! -e "$DESK/go" ]; then sleep 1000; fi; touch done; reply "Add done"')
    monkeypatch.setenv("PENSTOCK_CONFIG", str(desk.config_file))

    async def leave() -> int:
        async with Loop(desk.prompt, desk.settings("worker"), name="l1", data=desk.data) as loop:
            async for row in loop:
                if isinstance(row, StepBegan) and isinstance(row.does, RunAgent):
                    break
        return loop.result.status

    assert asyncio.run(leave()) == 130
    (desk.scripts / "go").touch()
    status, _ = desk.resume()
    assert status == 0
