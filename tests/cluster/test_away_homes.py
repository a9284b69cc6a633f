"""Homes that are away, and what nodes say of each other: as a person and a program see it at another node."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from signal import SIGTERM
from typing import TYPE_CHECKING

import pytest
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster

pytestmark = pytest.mark.slow

MODELS = ["qwen3:8b", "llama3.2:latest"]


@pytest.fixture
def ollama() -> Iterator[str]:
    """The place of a server that lists models as Ollama does."""

    class Tags(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"models": [{"name": name} for name in MODELS]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Tags) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_chat_whose_home_is_away(cluster: Cluster) -> None:
    """Other nodes say so and take prompts back; what still waits begins when the home returns."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gateway.chat("quick")
    assert not gateway.get(f"/api/chats/{chat}")["is_away"]
    assert home.end(SIGTERM) == 0
    until(lambda: gateway.get(f"/api/chats/{chat}")["is_away"])
    with gateway.client() as client:
        problem = client.post("/api/chats", json={"agent": "quick", "home": "a"}).json()
    assert problem["detail"] == "the node 'a' is away"
    gateway.prompt(chat, "first")
    gateway.prompt(chat, "second")
    (listed,) = gateway.get("/api/chats")["chats"]
    assert (listed["home"], listed["state"], listed["is_away"]) == ("a", "queued", True)
    gateway.post(f"/api/chats/{chat}/stop", {"turn": 1})
    assert gateway.turns(chat)[0]["outcome"] == "cancelled"
    home.start()
    until(lambda: not gateway.get(f"/api/chats/{chat}")["is_away"])
    assert [turn["outcome"] for turn in gateway.settled(chat, 2)] == ["cancelled", "ok"]
    assert cluster.prompts() == ["second"]


def test_a_chat_gets_the_model_of_its_home(cluster: Cluster, ollama: str) -> None:
    """An agent that needs a model gets the default one of the node where it works, unless one is named."""
    cluster.machine("a", environ={"OLLAMA_HOST": ollama})
    gateway = cluster.machine("b", works=False, environ={"OLLAMA_HOST": "127.0.0.1:1"})
    until(lambda: gateway.node("a")["about"]["models"] == {"ollama": MODELS})
    (offered,) = [agent for agent in gateway.get("/api/agents")["agents"] if agent["name"] == "ollama"]
    assert (offered["available"], offered["models"]) == (True, MODELS)
    assert gateway.get(f"/api/chats/{gateway.chat('ollama')}")["model"] == MODELS[0]
    assert gateway.get(f"/api/chats/{gateway.chat('ollama', model='other')}")["model"] == "other"
    assert gateway.get(f"/api/chats/{gateway.chat('quick')}")["model"] is None


def test_what_a_node_says_of_itself(cluster: Cluster) -> None:
    """Others see its chats by title, its slots in use, and at once a directory that is trusted there."""
    home, gateway = cluster.machine("a"), cluster.machine("b", works=False)
    deeper = home.work / "deeper"
    deeper.mkdir()
    gateway.post("/api/workspaces", {"path": str(deeper), "home": "a"})
    assert gateway.node("a")["about"]["trusted"] == [str(deeper), str(home.work)]
    chat = gateway.chat("stuck")
    gateway.prompt(chat, "Write a poem")
    until(lambda: gateway.node("a")["chats"] == [{"id": chat, "title": "Write a poem"}])
    until(lambda: gateway.node("a")["about"]["busy"] == 1)
