"""What there is to ask for: the one table that routes, checks and documents it."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.chat.gateway import bodies
from penstock.chat.record import Record
from penstock.chat.runtime.agents import AgentView
from penstock.chat.runtime.runtime import ChatView
from penstock.chat.runtime.workspaces import Workspace
from penstock.chat.views import Frame


class Address(NamedTuple):
    """One method of one address."""

    method: str
    path: str
    """`{chat}` and `{turn}` stand for an id and a number."""
    does: str
    """The method of `penstock.chat.gateway.api.Api` that answers."""
    summary: str
    body: type[bodies.Body] | None = None
    status: int = 200
    answers: Any = None
    """The type of the answer; a dict names its only field. None: it has no body."""
    refuses: tuple[int, ...] = ()
    """The statuses of its refusals, besides those that every address has."""
    public: bool = False
    """Whether anybody may ask."""
    media: str = "application/json"
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


C = "/api/chats/{chat}"

ADDRESSES = (
    Address("GET", "/healthz", "health", "Whether the server can be asked", None, 200, bodies.Health, (), True),
    Address("GET", "/metrics", "metrics", "Counters for Prometheus", None, 200, str, media="text/plain"),
    Address("GET", "/api/openapi.json", "document", "This document", None, 200, dict[str, Any]),
    Address("POST", "/api/login", "log_in", "Log in with the code of a link, or the token", bodies.Login, 204,
            refuses=(400, 429), public=True),
    Address("POST", "/api/logout", "log_out", "Sign this browser out, or all", bodies.Logout, 204, refuses=(400,)),
    Address("GET", "/api/browsers", "browsers", "The browsers that are signed in, the one used last first", None, 200,
            {"browsers": list[bodies.BrowserView]}),
    Address("DELETE", "/api/browsers/{browser}", "revoke", "Sign a browser out", None, 204, refuses=(404,)),
    Address("POST", "/api/link", "link", "Make a one-time link", bodies.NoBody, 200, bodies.Link, (400,)),
    Address("GET", "/api/about", "about", "What this server is", None, 200, bodies.About),
    Address("GET", "/api/agents", "agents", "The agents", None, 200, {"agents": list[AgentView]}),
    Address("GET", "/api/workspaces", "workspaces", "Where agents may work", None, 200, bodies.WorkspaceList),
    Address("POST", "/api/workspaces", "trust", "Trust a directory", bodies.Trust, 200, Workspace, (400,)),
    Address("GET", "/api/chats", "chats", "The chats, the one used last first", None, 200, {"chats": list[ChatView]}),
    Address("POST", "/api/chats", "create", "Begin a chat", bodies.NewChat, 201, ChatView, (400, 409, 429)),
    Address("GET", C, "chat", "A chat", None, 200, ChatView, (404,)),
    Address("PATCH", C, "change", "Change a chat", bodies.Changes, 200, ChatView, (400, 404)),
    Address("DELETE", C, "delete", "Stop what runs, and forget the chat", None, 204, refuses=(404,)),
    Address("POST", f"{C}/turns", "prompt", "Write to the agent", bodies.Prompt, 202, bodies.TurnNumber,
            (400, 404, 409, 429), headers=("Idempotency-Key",)),
    Address("GET", f"{C}/turns", "turns", "Turns, oldest first", None, 200, bodies.TurnPage, (400, 404),
            query=("before", "limit")),
    Address("GET", f"{C}/turns/{{turn}}/record", "record", "All that the agent did in a turn", None, 200, Record,
            (400, 404), query=("format",)),
    Address("POST", f"{C}/stop", "stop", "Stop a turn, or all", bodies.Stop, 202, bodies.TurnNumbers, (400, 404)),
    Address("POST", f"{C}/hints", "answer", "Answer a question of the agent", bodies.Answer, 202, bodies.TurnNumber,
            (400, 404, 409, 429)),
    Address("GET", f"{C}/events", "events", "The stream of a chat", None, 200, Frame, (404, 429),
            media="text/event-stream", query=("after", "delta"), headers=("Last-Event-ID",)),
)  # fmt: skip
"""All addresses but the page's files."""

PAGES = ("/", "/chats/{chat}", "/chats/{chat}/turns/{turn}")
"""Where the page is. What it shows there it says itself."""
