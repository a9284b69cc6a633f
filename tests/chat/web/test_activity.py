"""What the agent of a running turn does now, over the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import AGENTS, Gateway, held_and_asking
from waiting import until


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """A gateway with an agent that follows a plan and prints while it works."""
    (tmp_path / "agents.toml").write_text(AGENTS + held_and_asking(tmp_path / "go"))
    started = Gateway(tmp_path, page)
    yield started
    started.close()


@pytest.mark.slow
def test_what_the_agent_does_now(gateway: Gateway) -> None:
    """While a turn runs, its open calls and its plan are told; of one that is over or waits, nothing, and no error."""
    with gateway.client() as client:
        tell(client, gateway.chat("peer"))


def tell(client: httpx.Client, chat: str) -> None:
    """Follow a turn from before its beginning to its end."""
    path = f"/api/chats/{chat}/turns"
    assert client.get(f"{path}/1/activity").status_code == 404
    for text in ("build", "later"):
        client.post(path, json={"text": text})

    def now() -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"{path}/1/activity").json()
        return found

    until(lambda: "line 3" in "".join(call.get("output", "") for call in now()["calls"]))
    (call,) = now()["calls"]
    assert (call["title"], call["tool_kind"]) == ("make all", "execute")
    assert call["output"].startswith("line 0")
    assert [item["status"] for item in now()["plan"]] == ["completed", "in_progress", "pending"]
    assert client.get(path).json()["turns"][0]["plan"] == {"done": 1, "all": 3}
    assert client.get(f"{path}/2/activity").json() == {"calls": [], "plan": []}
    client.post(f"/api/chats/{chat}/stop", json={})
    until(lambda: client.get(path).json()["turns"][0].get("finalized"))
    assert now() == {"calls": [], "plan": []}
    assert "plan" not in client.get(path).json()["turns"][0]
