"""Server of MCP: the methods of the protocol over the chats of a Penstock server.

Two generations of the protocol are served. Clients up to 2025-11-25 begin with `initialize`; those of 2026-07-28 send
their version with each request.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from queue import Empty, Queue
from typing import Any

import msgspec

from penstock._version import __version__
from penstock.chat.history.entries import FIRST_TURN
from penstock.chat.service.agents.offered import AgentView
from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.turn import Streaming
from penstock.chat.web.doors.turn_fold import TurnFold, failure_text, question_text
from penstock.chat.web.schemas import About, TurnNumber
from penstock.cli.mcp import tasks, tools
from penstock.cli.mcp.calls import Call
from penstock.cli.serve.client import Rejected
from penstock.cli.stdio.agents import AgentList, agent_of, careful_level
from penstock.cli.stdio.link import ServerLink, StdioOptions, TurnStep
from penstock.cli.stdio.peer import INVALID_PARAMS, METHOD_NOT_FOUND, Peer, RpcError, Unanswered, Work, is_id
from penstock.core.questions import REJECT
from penstock.errors import PenstockError, UsageError
from penstock.run import inside

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that a client agrees on by `initialize`, the newest last."""
VERSIONS = ("2026-07-28",)
"""Versions that a client sends with each request."""
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
"""Keys of `_meta` in 2026-07-28."""
UNSUPPORTED_VERSION = -32022

SERVER = {"name": "penstock", "title": "Penstock", "version": __version__}
INSTRUCTIONS = (
    "Other coding agents on this machine, as tools. They work in the directory of the client and see its files. They "
    "do not see this conversation, so a prompt has to say all that is needed."
)
PROGRESS_SECONDS = 1.0
"""Seconds between two notifications of progress, and the longest wait for the next step of a turn."""
REPEAT_SECONDS = 15.0
"""Seconds after which the same progress is sent again: some clients end a call that is silent."""
ASKS = "It asks a person, on the page of penstock serve"
"""Progress while a question waits."""
MAX_PROGRESS_CHARS = 200
"""Characters of a progress message that Claude Code shows."""
LEAVE_SECONDS = 10.0
"""Seconds to stop what is being answered when the client has gone. The server stops what is left then."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which a client or a terminal ends the server."""


class ToolServer:
    """The server, as a client of MCP sees it. A client reaches the chats that it has begun, and no others."""

    def __init__(self, options: StdioOptions, source: int, sink: int, *, is_trusted: bool) -> None:
        """`source` and `sink`: file descriptors of the client. `is_trusted`: agents may work in this directory."""
        self._link = ServerLink(options)
        self._name = options.agent
        self._is_trusted = is_trusted
        self._depth = inside.own_depth()
        self._chats: dict[str, str] = {}
        """Chats that the client has begun, with their levels of permission."""
        self._calls: dict[str | int, Call] = {}
        self._tasks = tasks.ClientTasks()
        self._peer = Peer(source, sink, self._request, self._notified)
        self._tools: dict[str, Callable[[Any, Call], dict[str, Any]]] = {
            "list_agents": self._list_agents,
            "ask_agent": self._ask_agent,
            "start_turn": self._start_turn,
            "wait_turn": self._wait_turn,
            "stop_turn": self._stop_turn,
        }

    def serve(self) -> None:
        """Answer the client until it has gone. What it was waiting for is stopped; what it only started goes on."""
        before = {number: signal.getsignal(number) for number in ENDING}
        try:
            # Some clients end their servers by a signal, without closing stdin first.
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.default_int_handler)
            with contextlib.suppress(KeyboardInterrupt):
                self._peer.serve()
            # The next signal of an impatient client does not end this before its turns are stopped.
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
            for call in list(self._calls.values()):
                call.cancel()
            self._tasks.cancel_all(LEAVE_SECONDS)
            self._peer.wait(LEAVE_SECONDS)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # --- the protocol ---

    def _request(self, id: str | int, method: str, params: Any) -> Work:
        given = {} if params is None else params
        if not isinstance(given, dict):
            raise RpcError(INVALID_PARAMS, "the parameters are not an object")
        is_new = self._has_version(given)
        work = self._work(id, method, given, is_new=is_new)
        if not is_new:
            return work
        more: dict[str, Any] = {"resultType": "complete", "_meta": {SERVER_KEY: SERVER}}
        if method in ("server/discover", "tools/list"):
            more |= {"ttlMs": 0, "cacheScope": "private"}
        return lambda: {**more, **work()}

    def _work(self, id: str | int, method: str, params: dict[str, Any], *, is_new: bool) -> Work:
        """Return the work of a request; `is_new`: of a client of 2026-07-28.

        Raises:
            RpcError: there is no such method or tool.
        """
        match method:
            case "initialize":
                return lambda: _initialized(params)
            case "server/discover":
                return lambda: {"supportedVersions": [*VERSIONS], **_introduced({"extensions": {tasks.EXTENSION: {}}})}
            case "ping":
                return dict
            case "tools/list":
                return lambda: {"tools": tools.listed(has_tasks=not is_new)}
            case "tools/call":
                return self._call(id, params, is_new=is_new)
            case _ if method.startswith("tasks/"):
                return lambda: self._tasks.handle(method, params, is_new=is_new)
        raise RpcError(METHOD_NOT_FOUND, f"there is no method {method[:100]!r}", {"method": method[:100]})

    def _has_version(self, params: dict[str, Any]) -> bool:
        """Return whether a request is of the generation that sends its version with each.

        Raises:
            RpcError: it is of a version that this server does not have.
        """
        meta = params.get("_meta")
        version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        if version is None:
            return False
        if not isinstance(version, str):
            raise RpcError(INVALID_PARAMS, f"{VERSION_KEY} is not a string")
        if version not in VERSIONS:
            data = {"supported": [*VERSIONS], "requested": version[:100]}
            raise RpcError(UNSUPPORTED_VERSION, "this version of the protocol is not supported", data)
        return True

    def _notified(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            id = params.get("requestId")
            call = self._calls.get(id) if is_id(id) else None
            if call is not None:
                call.cancel()

    def _call(self, id: str | int, params: dict[str, Any], *, is_new: bool) -> Work:
        name, meta = params.get("name"), params.get("_meta")
        if not isinstance(name, str) or name not in self._tools:
            what = f"there is no tool {name[:100]!r}" if isinstance(name, str) else "the call names no tool"
            raise RpcError(INVALID_PARAMS, f"{what}; expected one of {', '.join(self._tools)}")
        does = self._tools[name]
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        call = Call(token if is_id(token) else None)
        if tasks.is_task(name, tools.WITH_TASKS, params, is_new=is_new):
            return lambda: self._task(call, lambda: self._answer(does, name, params, call), is_new=is_new)
        self._calls[id] = call

        def work() -> dict[str, Any]:
            try:
                return self._answer(does, name, params, call)
            finally:
                self._calls.pop(id, None)

        return work

    def _answer(
        self, does: Callable[[Any, Call], dict[str, Any]], name: str, params: dict[str, Any], call: Call
    ) -> dict[str, Any]:
        """Return the result of a call.

        Raises:
            Unanswered: the client has given up.
        """
        try:
            return does(msgspec.convert(params.get("arguments") or {}, tools.TOOLS[name].arguments), call)
        except (msgspec.ValidationError, RecursionError) as error:
            return _failed(f"the arguments are not valid: {error}")
        except Unanswered:
            raise
        except PenstockError as error:
            return _failed(str(error))

    def _task(self, call: Call, work: Callable[[], dict[str, Any]], *, is_new: bool) -> dict[str, Any]:
        """Begin a task, and return it as the result of its call."""
        if is_new:
            call.token = None  # its client reads what the agent does from the task
        task = self._tasks.start(call, work).view(is_new=is_new)
        for name in ("result", "error"):
            task.pop(name, None)
        return {"resultType": "task", **task} if is_new else {"task": task}

    # --- tools ---

    def _list_agents(self, given: tools.ListAgents, call: Call) -> dict[str, Any]:
        agents = [agent for agent in self._agents() if agent.available and _level(agent.name) is not None]
        rows = [{"name": agent.name, "models": agent.models, "resumes": agent.resumes} for agent in agents]
        default = self._default()
        lines = [f"{row['name']}{' (default)' if row['name'] == default else ''}" for row in rows]
        text = "\n".join(lines) or "No agent that can be asked is installed on this machine."
        return {**_said(text), "structuredContent": {"agents": rows, "default": default}}

    def _ask_agent(self, given: tools.AskAgent, call: Call) -> dict[str, Any]:
        chat, turn = self._begin(given)
        return self._followed(chat, turn, call, stops=True)

    def _start_turn(self, given: tools.AskAgent, call: Call) -> dict[str, Any]:
        chat, turn = self._begin(given)
        text = f"Turn {turn} of chat {chat} works. Call wait_turn for its reply."
        return _said(text, {"chat": chat, "turn": turn, "state": "working"})

    def _wait_turn(self, given: tools.WaitTurn, call: Call) -> dict[str, Any]:
        self._check_chat(given.chat)
        return self._followed(given.chat, given.turn, call, stops=False, seconds=given.seconds)

    def _stop_turn(self, given: tools.StopTurn, call: Call) -> dict[str, Any]:
        self._check_chat(given.chat)
        self._stop(given.chat, given.turn)
        ended = self._followed(given.chat, given.turn, call, stops=False, seconds=tools.MAX_WAIT_SECONDS)
        return {**ended, "isError": False}

    # --- turns ---

    def _agents(self) -> list[AgentView]:
        return self._link.ask("GET", "/api/agents", AgentList).agents

    def _default(self) -> str:
        return self._name or self._link.ask("GET", "/api/about", About).default_agent

    def _check_chat(self, chat: str) -> None:
        """Check that this client has begun a chat.

        Raises:
            UsageError: it has not.
        """
        if chat not in self._chats:
            raise UsageError(f"there is no chat {chat[:100]!r} of this client", expected="one of an earlier result")

    def _begin(self, given: tools.AskAgent) -> tuple[str, int]:
        """Begin a turn, in a new chat if none is named.

        Raises:
            PenstockError: the server rejects it.
        """
        if given.chat is None:
            return self._create(given), FIRST_TURN
        self._check_chat(given.chat)
        found = self._link.ask("GET", f"/api/chats/{given.chat}", ChatView)
        if found.allow != self._chats[given.chat]:
            raise UsageError("a person has changed the permission of this chat", help="begin another one")
        return given.chat, self._submit(given.chat, given.prompt)

    def _submit(self, chat: str, prompt: str) -> int:
        key = uuid.uuid4().hex
        return self._link.ask("POST", f"/api/chats/{chat}/turns", TurnNumber, {"text": prompt}, key=key).turn

    def _create(self, given: tools.AskAgent) -> str:
        """Create a chat with its first turn, and return its id; neither is there if the server rejects it."""
        agent = agent_of(self._agents(), given.agent or self._default())
        cwd = given.cwd or os.getcwd()
        if not os.path.isabs(cwd) or "\0" in cwd:
            raise UsageError("cwd is not a directory", expected="an absolute path")
        allow = careful_level(agent.name)
        if given.allow == "read" and any(level.allow == "read" for level in agent.allows):
            allow = "read"
        elif given.allow not in (None, allow):
            raise UsageError(f"{agent.name} cannot be started at {given.allow}", expected=allow)
        id = uuid.uuid4().hex
        model = given.model or (agent.models[0] if agent.models else None)
        body = {"id": id, "agent": agent.name, "cwd": cwd, "model": model, "allow": allow, "depth": self._depth}
        body["text"] = given.prompt
        try:
            self._link.ask("POST", "/api/chats", ChatView, body, key=id)
        except Rejected as error:
            if error.code == "untrusted_directory":
                self._trust(cwd)
                self._link.ask("POST", "/api/chats", ChatView, body, key=id)
            elif error.code != "conflict":  # an attempt whose answer was lost
                raise
        self._chats[id] = allow
        return id

    def _trust(self, cwd: str) -> None:
        """Trust the directory in which this program was started, if its user said so.

        Raises:
            UsageError: the user did not, or it is another one.
        """
        if not self._is_trusted or os.path.realpath(cwd) != os.path.realpath(os.getcwd()):
            raise UsageError(
                f"{cwd} is not trusted, so no agent works there",
                help="a person can trust it on the page of penstock serve, or start this as penstock mcp --trust in it",
            )
        self._link.ask("POST", "/api/workspaces", dict[str, Any], {"path": cwd})

    def _stop(self, chat: str, turn: int) -> None:
        self._link.ask("POST", f"/api/chats/{chat}/stop", dict[str, list[int]], {"turn": turn})

    def _followed(
        self, chat: str, turn: int, call: Call, *, stops: bool, seconds: float | None = None
    ) -> dict[str, Any]:
        """Follow a turn to its end, or for some seconds, and return the result of the call.

        If it `stops`, a turn whose reply is no longer waited for is stopped before this returns or raises.

        Raises:
            Unanswered: the client has given up.
        """
        fold = TurnFold(turn)
        end = None if seconds is None else time.monotonic() + seconds
        try:
            status = self._follow(chat, turn, fold, call, end, stops=stops)
        finally:
            if stops and fold.completed is None:
                self._stop(chat, turn)
        if call.is_cancelled:
            raise Unanswered
        facts: dict[str, Any] = {"chat": chat, "turn": turn, "state": "working"}
        if fold.completed is None:
            if fold.question is not None:
                facts["state"] = "asks"
                status = f"{question_text(fold.question)}\n\nA person has to answer this on the page of penstock serve."
            return _said(status, facts)
        ended = fold.completed
        facts |= {"state": "ended", "outcome": ended.outcome}
        facts |= {"usage": msgspec.to_builtins(fold.usage)} if fold.usage is not None else {}
        failure = failure_text(ended)
        if ended.outcome == "cancelled":
            failure = ended.reason or "the turn was stopped"
        remark = failure or (ended.reason if ended.outcome == "empty" else None)
        text = "\n\n".join(filter(None, (ended.message, remark and f"[{remark}]")))
        return {**_said(text or "(no reply)", facts), "isError": failure is not None}

    def _follow(self, chat: str, turn: int, fold: TurnFold, call: Call, end: float | None, *, stops: bool) -> str:
        """Follow a turn until it has ended, the time is up or the client gives up; return what it does then."""
        self._read(chat, turn, call.steps, stops=stops)
        status, said, said_at = "Working…", "", -PROGRESS_SECONDS
        asked = ""
        while not call.is_cancelled and (end is None or time.monotonic() < end):
            left = PROGRESS_SECONDS if end is None else min(PROGRESS_SECONDS, max(0.0, end - time.monotonic()))
            try:
                step = call.steps.get(timeout=left)
            except Empty:
                step = TurnStep([])
            if step is None:
                break
            if isinstance(step, PenstockError):
                raise step
            for event in fold.take(step.rows):
                if isinstance(event, Streaming):
                    status = event.status
            if fold.question is not None and fold.question.id != asked:
                asked = fold.question.id
                self._asked(chat, asked)
            line = ASKS if fold.question is not None else status
            waited = time.monotonic() - said_at
            if waited >= (PROGRESS_SECONDS if line != said else REPEAT_SECONDS):
                said, said_at = line, time.monotonic()
                self._report(call, line)
        return status

    def _read(self, chat: str, turn: int, steps: Queue[TurnStep | PenstockError | None], *, stops: bool) -> None:
        """Put the steps of a turn as they come, the error that ended them if any, and None after its end."""

        def read() -> None:
            try:
                for step in self._link.follow(chat, turn, stops=stops):
                    steps.put(step)
                steps.put(None)
            except PenstockError as error:
                steps.put(error)

        threading.Thread(target=read, daemon=True).start()

    def _asked(self, chat: str, question: str) -> None:
        """Leave a question to a person at the page; reject it where there is none. The client never answers it."""
        if self._link.is_hidden():
            try:
                self._link.answer(chat, question, REJECT)
            except Rejected as error:
                if error.code != "conflict":  # it is no longer open
                    raise

    def _report(self, call: Call, line: str) -> None:
        """Notify the client what the turn does. Most clients wait as long as notifications arrive."""
        call.line = line
        if call.token is None:
            return
        call.said += 1
        params = {"progressToken": call.token, "progress": call.said, "message": line[:MAX_PROGRESS_CHARS]}
        self._peer.notify("notifications/progress", params)


def _initialized(params: dict[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return {"protocolVersion": version, "serverInfo": SERVER, **_introduced({"tasks": tasks.OLD_CAPABILITY})}


def _introduced(more: dict[str, Any]) -> dict[str, Any]:
    return {"capabilities": {"tools": {}, **more}, "instructions": INSTRUCTIONS}


def _level(agent: str) -> str | None:
    """Return the level at which an agent is asked; None if it acts without asking."""
    try:
        return careful_level(agent)
    except RpcError:
        return None


def _said(text: str, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a result with its text, and its facts with the text: some clients show the model nothing but the facts."""
    said: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    return said if facts is None else {**said, "structuredContent": {**facts, "text": text}}


def _failed(text: str) -> dict[str, Any]:
    return {**_said(text), "isError": True}


def serve(options: StdioOptions, sink: int, *, is_trusted: bool) -> None:
    """Answer the client at stdin and `sink` until it has gone.

    Raises:
        UsageError: the options cannot be used, or this process belongs to an agent that may ask for no other one.
    """
    if inside.own_depth() >= inside.MAX_DEPTH:
        raise UsageError("an agent asks for another one, which may not", expected="a client that no such agent starts")
    ToolServer(options, 0, sink, is_trusted=is_trusted).serve()
