"""Turns as spans: below the trace of the request that asks for one, at each address where that can be done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import AGENTS, Gateway
from waiting import until

from penstock.run import telemetry
from penstock.run.collector import TIMEOUT_VARIABLE, TelemetryOptions

collector = pytest.importorskip("collector", reason="needs the extra otel")

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/v1/chat/completions", {"model": "scripted", "messages": [{"role": "user", "content": "Hello"}]}),
    "ai sdk": (
        "/ai/scripted",
        {"id": "a", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}]},
    ),
    "ag-ui": (
        "/agui/scripted",
        {"threadId": "a", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hello"}]},
    ),
}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A collector to which this process sends its runs."""
    made = collector.Collector()
    monkeypatch.setenv(TIMEOUT_VARIABLE, "60")
    telemetry.set_up(TelemetryOptions(endpoint=made.url))
    yield made
    telemetry.finish()
    made.close()


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """A gateway with agents that play recordings."""
    (tmp_path / "agents.toml").write_text(AGENTS)
    made = Gateway(tmp_path, page)
    yield made
    made.close()


def roots(collected: Any) -> list[Any]:
    """The spans of runs."""
    return [span for span in collected.spans if span.name.startswith("invoke_agent")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*ASKS, "own"])
def test_a_request_with_a_trace(collected: Any, gateway: Gateway, kind: str) -> None:
    """The turn is below it. An odd or a second header is as none: the turn begins a trace of its own."""
    many = [("traceparent", f"00-{TRACE}-{SPAN}-01"), ("traceparent", f"00-{TRACE}-{SPAN}-01")]
    with gateway.client() as one:
        for number, headers in enumerate(
            ([("traceparent", f"00-{TRACE}-{SPAN}-01"), ("tracestate", "a=1"), ("tracestate", "b=2")], many,
             [("traceparent", "x" * 5_000)], []), 1,
        ):  # fmt: skip
            if kind == "own":
                made = one.post("/api/chats", json={"agent": "scripted", "cwd": str(gateway.root)}).json()["id"]
                path, body = f"/api/chats/{made}/turns", {"text": "Hello"}
            else:
                path, body = ASKS[kind]
                if "id" in body:
                    body = {**body, "id": f"a{number}"}
                if "runId" in body:
                    body = {**body, "runId": f"r{number}"}
            assert one.post(path, json=body, headers=headers).status_code in (200, 202)
            until(lambda number=number: len(roots(collected)) == number)
    first, *others = roots(collected)
    assert (first.trace_id.hex(), first.parent_span_id.hex(), first.trace_state) == (TRACE, SPAN, "a=1,b=2")
    assert len({span.trace_id for span in (first, *others)}) == 4
    assert {span.parent_span_id for span in others} == {b""}
    found = collector.attributes(first)
    assert found["penstock.turn"] == 1
    with gateway.client() as one:
        assert found["gen_ai.conversation.id"] in {chat["id"] for chat in one.get("/api/chats").json()["chats"]}
