"""Routes of the gateway: the one table from which requests are routed, checked and documented."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from starlette.types import ASGIApp

from penstock.agents._models import AgentModel
from penstock.chat.history.activity import AgentActivity
from penstock.chat.history.changes import FileChanges
from penstock.chat.history.details import Details
from penstock.chat.history.entries import AttachedFile
from penstock.chat.history.frames import Frame
from penstock.chat.people.rights import Right
from penstock.chat.runs.timeline import RunFrame
from penstock.chat.runs.views import RoundChanges, RunDetails, RunView, StepOutput
from penstock.chat.service.agents.directories import DirectoryState, FoundDirectory
from penstock.chat.service.agents.offered import AgentView
from penstock.chat.service.agents.terminal import TerminalLines
from penstock.chat.service.agents.workspaces import Workspace
from penstock.chat.service.branches import Branch
from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.service.chats.costs import Costs
from penstock.chat.service.chats.search import SearchResult
from penstock.chat.service.conversations import ConversationView
from penstock.chat.service.files import FileNames, FileView
from penstock.chat.service.nodes import NodeView
from penstock.chat.service.prompts import StoredPrompt
from penstock.chat.service.share_view import MadeShare, ShareView
from penstock.chat.service.trees import LandedWork, LandingPlan
from penstock.chat.service.undo import TurnFiles
from penstock.chat.web import schemas
from penstock.chat.web.doors import bodies
from penstock.chat.web.handlers import (
    chats,
    files,
    logins,
    places,
    protocols,
    runs,
    server,
    shares,
    streams,
    turns,
)
from penstock.events import AgentCommand

Handler = Callable[..., Awaitable[ASGIApp]]
"""Function that handles a request: see `penstock.chat.web.handlers`."""


class Address(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    """Template of the path: `{browser}`, `{chat}`, `{attachment}`, `{share}` and `{run}` are ids, `{node}` and
    `{agent}` are names, the others are numbers."""
    right: Right
    """What the person who sends it needs."""
    handler: Handler
    summary: str
    body: type[schemas.Body] | None = None
    status: int = 200
    answers: Any = None
    """Type of the response; a dict names its only field. None: it has no body."""
    problems: tuple[int, ...] = ()
    """Statuses of its problems, besides those that every route has."""
    media: str = "application/json"
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    takes: str = ""
    """Media type of a body that is not JSON, whose bytes the handler reads; "" for JSON, or no body."""
    is_recorded: bool = True
    """True if a change by it is in the record of what people did."""

    @property
    def does(self) -> str:
        """Name of the operation: that of its handler."""
        return self.handler.__name__

    @property
    def public(self) -> bool:
        """Return whether it needs no authentication."""
        return self.right == "public"


C = "/api/chats/{chat}"
R = "/api/runs/{run}"

ADDRESSES = (
    Address("GET", "/healthz", "public", server.health, "Whether the process lives", None, 200, schemas.HealthStatus),
    Address("GET", "/readyz", "public", server.ready, "Whether requests should be sent here", None, 200,
            schemas.Readiness),
    Address("GET", "/metrics", "operate", server.metrics, "Counters for Prometheus", None, 200, str,
            media="text/plain"),
    Address("GET", "/api/openapi.json", "signed in", server.document, "This document", None, 200, dict[str, Any]),
    Address("POST", "/api/login", "public", logins.log_in, "Log in with the code of a link, or the token",
            schemas.Login, 204, problems=(400, 429)),
    Address("POST", "/api/logout", "signed in", logins.log_out, "Sign this browser out, or all", schemas.Logout, 204,
            problems=(400,)),
    Address("GET", "/api/browsers", "signed in", logins.browsers,
            "The browsers that are signed in, the one used last first", None, 200,
            {"browsers": list[schemas.BrowserView]}),
    Address("DELETE", "/api/browsers/{browser}", "signed in", logins.revoke, "Sign a browser out", None, 204,
            problems=(404,)),
    Address("POST", "/api/push/key", "signed in", logins.make_push_key, "The key for calls of this browser",
            schemas.NoBody, 200, schemas.PushKey, (409,)),
    Address("POST", "/api/push", "signed in", logins.subscribe, "Call this browser while its page is closed",
            schemas.NewPush, 204, problems=(400, 409)),
    Address("DELETE", "/api/push", "signed in", logins.unsubscribe, "Call this browser no more", None, 204,
            problems=(409,)),
    Address("POST", "/api/link", "signed in", logins.link, "Make a one-time link", schemas.NewLink, 200, schemas.Link,
            (400,)),
    Address("GET", "/api/about", "signed in", server.about, "Description of this server", None, 200, schemas.About),
    Address("GET", "/api/agents", "signed in", places.agents, "The agents", None, 200, {"agents": list[AgentView]}),
    Address("GET", "/api/agents/{agent}/models", "begin", places.agent_models, "The models that an agent lists", None,
            200, {"models": list[AgentModel]}, (400,)),
    Address("GET", "/api/prompts", "begin", places.prompts, "The prompts that the user has stored under names", None,
            200, {"prompts": list[StoredPrompt]}),
    Address("GET", "/api/agents/{agent}/commands", "begin", places.agent_commands,
            "The commands that an agent has listed in a directory", None, 200, {"commands": list[AgentCommand]},
            query=("cwd",)),
    Address("GET", "/api/workspaces", "signed in", places.workspaces, "Directories for agents", None, 200,
            schemas.WorkspaceList),
    Address("POST", "/api/workspaces", "operate", places.trust, "Trust a directory", schemas.Trust, 200, Workspace,
            (400,)),
    Address("GET", "/api/directories", "begin", places.directories, "Directories below the roots that continue a path",
            None, 200, {"directories": list[FoundDirectory]}, (400,), query=("q",)),
    Address("GET", "/api/directory", "begin", places.directory, "The state of a directory, and of its git repository",
            None, 200, DirectoryState, (400,), query=("path",)),
    Address("GET", "/api/sessions", "operate", places.sessions,
            "Conversations of terminals that a chat can continue, newest first", None, 200,
            {"sessions": list[ConversationView]}, (400,), query=("q",)),
    Address("GET", "/api/nodes", "signed in", places.nodes, "The nodes, if there are several machines", None, 200,
            {"nodes": list[NodeView]}),
    Address("DELETE", "/api/nodes/{node}", "operate", places.remove_node, "Remove a node that does not come back", None,
            204, problems=(404, 409)),
    Address("GET", "/api/chats", "signed in", chats.chats, "The chats, the one used last first", None, 200,
            schemas.ChatPage, (400,), query=("page", "cursor", "with")),
    Address("POST", "/api/chats", "begin", chats.create, "Begin a chat", schemas.NewChat, 201, ChatView,
            (400, 409, 429), headers=("Idempotency-Key",)),
    Address("POST", "/api/read", "signed in", chats.mark_read, "Note which turns the person has read",
            schemas.ReadChats, 204, problems=(400,), is_recorded=False),
    Address("GET", "/api/search", "signed in", chats.find, "Find turns and titles of chats by their words", None, 200,
            SearchResult, (400, 429), query=("q", "cursor")),
    Address("GET", "/api/costs", "signed in", chats.costs, "What turns have cost, by day, agent, chat or person", None,
            200, Costs, (400,), query=("by", "days")),
    Address("GET", C, "read", chats.chat, "A chat", None, 200, ChatView, (404,)),
    Address("GET", f"{C}/commands", "read", chats.commands, "The commands that the agent of a chat offers", None, 200,
            {"commands": list[AgentCommand]}, (404,)),
    Address("PATCH", C, "drive", chats.change, "Change a chat", schemas.Changes, 200, ChatView, (400, 404)),
    Address("DELETE", C, "manage", chats.delete, "Stop its run, and delete the chat", None, 204, problems=(404,)),
    Address("POST", f"{C}/turns", "drive", turns.prompt, "Write to the agent", schemas.Prompt, 202, schemas.TurnNumber,
            (400, 404, 409, 429), headers=("Idempotency-Key",)),
    Address("POST", f"{C}/attachments", "drive", files.attach, "Upload a picture or a file for a message", None, 201,
            AttachedFile, (400, 404, 429), query=("name",), takes="application/octet-stream"),
    Address("GET", f"{C}/attachments/{{attachment}}", "read", files.attachment, "A picture or a file of a message",
            None, 200, bytes, (404,), media="application/octet-stream"),
    Address("DELETE", f"{C}/attachments/{{attachment}}", "drive", files.detach,
            "Remove a file whose message was not sent", None, 204, problems=(404,)),
    Address("PATCH", f"{C}/turns/{{turn}}", "drive", turns.edit, "Change the text of a message that waits",
            schemas.EditedMessage, 202, schemas.TurnNumber, (400, 403, 404, 409)),
    Address("POST", f"{C}/turns/{{turn}}/branch", "drive", turns.branch,
            "Begin a new chat with the conversation before a message, and with another agent if one is named",
            schemas.NewBranch, 201, Branch, (400, 404, 409, 429), headers=("Idempotency-Key",)),
    Address("POST", f"{C}/turns/{{turn}}/now", "drive", turns.send_now,
            "Let a message that waits begin before the others, and stop the turn that runs", schemas.SendNow, 202,
            schemas.TurnNumber, (400, 404, 409)),
    Address("POST", f"{C}/turns/{{turn}}/steer", "drive", turns.steer,
            "Give a message that waits to the agent of the running turn", schemas.SteerTurn, 202, schemas.TurnNumber,
            (400, 404, 409)),
    Address("POST", f"{C}/queue", "drive", turns.move, "Put the messages that wait into another order", schemas.Order,
            202, schemas.TurnNumbers, (400, 404, 409)),
    Address("GET", f"{C}/turns", "read", turns.turns, "Turns, oldest first", None, 200, schemas.TurnPage, (400, 404),
            query=("before", "limit")),
    Address("GET", f"{C}/turns/{{turn}}/details", "read", turns.details, "All that the agent did in a turn", None, 200,
            Details, (400, 404), query=("format",)),
    Address("GET", f"{C}/turns/{{turn}}/changes", "read", turns.turn_changes, "The files that a turn changed", None,
            200, FileChanges, (404,)),
    Address("GET", f"{C}/turns/{{turn}}/undo", "drive", turns.undo_plan,
            "What would be done to take the changes of a turn back, or to make them again", None, 200, TurnFiles,
            (400, 404, 409), query=("redo",)),
    Address("POST", f"{C}/turns/{{turn}}/undo", "drive", turns.undo,
            "Take the changes of a turn back, or make them again", schemas.UndoTurn, 200, TurnFiles, (400, 404, 409),
            headers=("Idempotency-Key",)),
    Address("GET", f"{C}/changes", "read", turns.chat_changes, "The files that the newest turns changed", None, 200,
            FileChanges, (404,)),
    Address("GET", f"{C}/turns/{{turn}}/activity", "read", turns.activity, "What the agent of a turn does now", None,
            200, AgentActivity, (404,)),
    Address("GET", f"{C}/turns/{{turn}}/atif", "read", turns.trajectory,
            "A turn that has ended, as a trajectory (ATIF 1.7)", None, 200, dict[str, Any], (404, 409)),
    Address("GET", f"{C}/turns/{{turn}}/entries", "read", streams.turn_entries, "The entries of a turn, as they come",
            None, 200, str, (404, 429), media="text/event-stream", query=("after",)),
    Address("POST", f"{C}/turns/{{turn}}/entries", "drive", streams.followed_entries,
            "The same; the turn is stopped when its last client has left", schemas.NoBody, 200, str, (400, 404, 429),
            media="text/event-stream", query=("after",)),
    Address("GET", f"{C}/file", "drive", files.file, "Lines of a text file in the directory of the chat", None, 200,
            FileView, (400, 404, 409), query=("path", "line")),
    Address("GET", f"{C}/files", "drive", files.file_names,
            "Files in the directory of the chat, by a part of their paths", None, 200, FileNames, (400, 404, 409),
            query=("q",)),
    Address("GET", f"{C}/picture", "read", files.picture, "A picture in the directory of the chat", None, 200, bytes,
            (400, 404, 409), media="image/*", query=("path",)),
    Address("GET", f"{C}/export", "read", files.export, "The chat as a file: Markdown, or one HTML page", None, 200,
            str, (400, 404), media="text/markdown", query=("form", "details")),
    Address("GET", f"{C}/terminal", "drive", chats.terminal, "Lines that continue the conversation in a terminal", None,
            200, TerminalLines, (404,)),
    Address("GET", f"{C}/land", "manage", chats.land_plan, "What landing the work in the tree of a chat would do", None,
            200, LandingPlan, (400, 404, 409)),
    Address("POST", f"{C}/land", "manage", chats.land,
            "Merge the work in the tree of a chat into the branch from which it was made", schemas.LandChat, 200,
            LandedWork, (400, 404, 409)),
    Address("POST", f"{C}/stop", "drive", turns.stop, "Stop a turn, or all", schemas.Stop, 202, schemas.TurnNumbers,
            (400, 404, 409)),
    Address("POST", f"{C}/release", "drive", turns.release, "Release the turns that a stop holds back", schemas.NoBody,
            202, schemas.TurnNumbers, (400, 404)),
    Address("POST", f"{C}/questions", "drive", turns.answer, "Answer a question of the agent", schemas.AnswerBody, 202,
            schemas.TurnNumber, (400, 404, 409, 429)),
    Address("DELETE", f"{C}/rules/{{rule}}", "drive", chats.remove_rule,
            "Ask for a command again that was always allowed", None, 200, ChatView, (404,)),
    Address("GET", f"{C}/events", "read", streams.events, "The stream of a chat", None, 200, Frame, (404, 429),
            media="text/event-stream", query=("after", "times", "delta"), headers=("Last-Event-ID",)),
    Address("GET", "/api/events", "signed in", streams.all_events, "One stream of several chats, and of the list", None,
            200, schemas.PlacedFrame, (400, 429), media="text/event-stream", query=("chats", "at", "delta")),
    Address("GET", "/api/shares", "signed in", shares.list_shares, "The shares of the chats that the person may manage",
            None, 200, {"shares": list[ShareView]}),
    Address("POST", f"{C}/shares", "manage", shares.share, "Make a link that shows a chat to whoever has it",
            schemas.NewShare, 201, MadeShare, (400, 404, 429)),
    Address("DELETE", f"{C}/shares/{{share}}", "manage", shares.revoke_share, "Revoke a share", None, 204,
            problems=(404,)),
    Address("GET", "/api/shared", "public", shares.shared_chat, "What a share shows of its chat", None, 200,
            schemas.SharedChat, (400, 404), query=("before", "after", "limit"), headers=("X-Penstock-Share",)),
    Address("GET", "/api/shared/details", "public", shares.shared_details,
            "What the agent did in a turn, if the share shows it", None, 200, schemas.SharedDetails, (400, 403, 404),
            query=("turn",), headers=("X-Penstock-Share",)),
    Address("GET", "/api/shared/attachment", "public", shares.shared_attachment,
            "A picture or a file of a turn, if the share shows details", None, 200, bytes, (400, 403, 404),
            media="application/octet-stream", query=("turn", "id"), headers=("X-Penstock-Share",)),
    Address("GET", "/api/runs", "signed in", runs.list_runs, "The documents and loops, the one used last first", None,
            200, {"runs": list[RunView]}),
    Address("GET", R, "read", runs.run, "A document or loop", None, 200, RunDetails, (404,)),
    Address("PATCH", R, "manage", runs.change_run, "Change who sees a document or loop, or to whom it belongs",
            schemas.RunChanges, 200, RunDetails, (400, 404)),
    Address("GET", f"{R}/turns/{{turn}}/details", "read", runs.run_details, "All that the agent did in a turn of it",
            None, 200, Details, (400, 404), query=("format",)),
    Address("GET", f"{R}/steps/{{step}}/output", "read", runs.run_output, "The output of a command of a loop", None,
            200, StepOutput, (404,)),
    Address("GET", f"{R}/rounds/{{round}}/changes", "read", runs.run_changes, "The changes of a round of a loop", None,
            200, RoundChanges, (404,)),
    Address("GET", f"{R}/rounds/{{round}}/candidates/{{candidate}}/changes", "read", runs.run_candidate_changes,
            "The changes of a candidate in a round of a loop", None, 200, RoundChanges, (404,)),
    Address("POST", f"{R}/stop", "drive", runs.stop_run, "Ask a loop to end", schemas.StopRun, 202, RunDetails,
            (400, 404, 409)),
    Address("POST", f"{R}/land", "manage", runs.land_run,
            "Merge the result of a loop into the branch that is checked out", schemas.LandRun, 200, RunDetails,
            (400, 403, 404, 409)),
    Address("POST", f"{R}/messages", "drive", runs.message_run, "Write to the agents of a loop, or answer its question",
            schemas.LoopMessage, 202, RunDetails, (400, 404)),
    Address("GET", f"{R}/events", "read", streams.run_events, "The stream of a document or loop", None, 200, RunFrame,
            (404, 429), media="text/event-stream", query=("after", "times", "delta"), headers=("Last-Event-ID",)),
    Address("GET", "/v1/models", "signed in", protocols.models, "The agents, as models of OpenAI's interface", None,
            200, bodies.CompletionModels),
    Address("POST", "/v1/chat/completions", "begin", protocols.complete_chat,
            "A turn, as a chat completion of OpenAI's interface", bodies.CompletionRequest, 200, dict[str, Any],
            (403, 404, 429), query=("detail",), headers=("Idempotency-Key", "X-Penstock-Chat", "X-Penstock-Cwd")),
    Address("POST", "/ai", "begin", protocols.ui_chat, "A turn of the default agent, as the AI SDK's chat has it",
            bodies.UiRequest, 200, str, (400, 403, 404, 409, 429), media="text/event-stream", query=("detail", "sdk"),
            headers=("X-Penstock-Cwd",)),
    Address("POST", "/ai/{agent}", "begin", protocols.ui_chat_with, "A turn of an agent, as the AI SDK's chat has it",
            bodies.UiRequest, 200, str, (400, 403, 404, 409, 429), media="text/event-stream", query=("detail", "sdk"),
            headers=("X-Penstock-Cwd",)),
    Address("GET", "/ai/{foreign}/stream", "signed in", protocols.ui_stream,
            "The turn that runs, from its beginning; 204 if there is none", None, 200, str, (404, 429),
            media="text/event-stream", query=("detail", "sdk")),
    Address("POST", "/ai/{foreign}/stop", "begin", protocols.ui_stop, "Stop the turns of a chat of the AI SDK", None,
            202, schemas.TurnNumbers, (404,)),
    Address("POST", "/agui", "begin", protocols.agui_run, "A turn of the default agent, as a run of AG-UI",
            bodies.AgUiRequest, 200, str, (400, 403, 404, 409, 429), media="text/event-stream", query=("detail",),
            headers=("X-Penstock-Cwd",)),
    Address("POST", "/agui/{agent}", "begin", protocols.agui_run_with, "A turn of an agent, as a run of AG-UI",
            bodies.AgUiRequest, 200, str, (400, 403, 404, 409, 429), media="text/event-stream", query=("detail",),
            headers=("X-Penstock-Cwd",)),
)  # fmt: skip
"""All routes except the page and its files."""


def private_paths(addresses: Iterable[Address]) -> re.Pattern[str]:
    """Return the pattern of paths that need authentication: all that begin as that of a route which is not public."""
    begins = {address.path.split("/")[1] for address in addresses if not address.public}
    return re.compile(f"/({'|'.join(sorted(begins))})(/|$)")


PAGES = (
    "/",
    "/chats/{chat}",
    "/chats/{chat}/beside/{other}",
    "/chats/{chat}/changes",
    "/chats/{chat}/files",
    "/chats/{chat}/turns/{turn}",
    "/chats/{chat}/turns/{turn}/changes",
    "/runs/{run}",
    "/runs/{run}/turns/{turn}",
)
"""Paths of the page. The page itself decides what it shows at each."""
