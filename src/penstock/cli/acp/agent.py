"""Agent of ACP: the methods of the protocol over the chats of a server. A session is a chat, with its id."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from penstock._version import __version__
from penstock.chat.service.agents.offered import AgentView
from penstock.chat.service.chats.chat_view import ChatView
from penstock.cli.acp import settings
from penstock.cli.acp.chats import ServerChats
from penstock.cli.acp.content import given_prompt
from penstock.cli.acp.parameters import (
    Authenticate,
    CancelRequest,
    Initialize,
    ListSessions,
    NewSession,
    OneSession,
    PromptParams,
    SetMode,
    SetOption,
    read,
)
from penstock.cli.acp.session import Active, Session
from penstock.cli.acp.turns import SessionTurns
from penstock.cli.console import notify
from penstock.cli.serve.client import Rejected
from penstock.cli.stdio.agents import agent_of, careful_level
from penstock.cli.stdio.link import ServerLink, StdioOptions
from penstock.cli.stdio.peer import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    FollowedResult,
    Peer,
    RpcError,
    Work,
)
from penstock.errors import UsageError
from penstock.run import inside

VERSION = 1
"""Version of the protocol."""

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Bytes of the longest line: two of the largest pictures in base64, or ten photographs of a phone."""

MAX_SESSIONS = 1000
"""Number of sessions that are open at once; an editor has a few."""

PAGE_SESSIONS = 100
"""Number of sessions in one list."""

LEAVE_SECONDS = 2.0
"""Seconds to finish what is being answered when the client has gone."""

SETUP = "setup"
"""Id of the way to log in: `penstock acp --setup` in a terminal."""

CODES = {"invalid": INVALID_PARAMS, "content_too_large": INVALID_PARAMS, "not_found": NOT_FOUND}
"""Codes of errors for those of the server; others are internal errors."""


class AcpAgent:
    """The agent, as a client of ACP sees it."""

    def __init__(self, options: StdioOptions, source: int, sink: int) -> None:
        """`source` and `sink`: file descriptors of the client."""
        self._name = options.agent
        self._sessions: dict[str, Session] = {}
        self._prompts: dict[str | int, Session] = {}
        self._peer = Peer(source, sink, self._request, self._notified, MAX_LINE_BYTES)
        self._chats = ServerChats(ServerLink(options))
        self._turns = SessionTurns(self._peer, self._chats)
        self._methods: dict[str, Callable[[Any], Work]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_config_option": self._set_option,
            "session/set_mode": self._set_mode,
        }

    def serve(self) -> None:
        """Answer the client until it has gone. Its turns go on at the server."""
        self._peer.serve()
        self._peer.wait(LEAVE_SECONDS)

    def _request(self, id: str | int, method: str, params: Any) -> Work:
        does = self._methods.get(method)
        if does is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {method[:100]!r}", {"method": method[:100]})
        work = does({} if params is None else params)
        if method == "session/prompt":
            self._prompts[id] = self._require(read(params, PromptParams).session_id)

        def translated() -> Any:
            try:
                return work()
            except Rejected as error:
                code = CODES.get(error.code, INTERNAL_ERROR)
                raise RpcError(code, str(error), {"reason": error.code}) from error
            finally:
                self._prompts.pop(id, None)

        return translated

    def _notified(self, method: str, params: Any) -> None:
        session = None
        if method == "session/cancel":
            session = self._sessions.get(read(params, OneSession).session_id)
        elif method == "$/cancel_request":
            session = self._prompts.get(read(params, CancelRequest).request_id)
        if session is not None:
            self._turns.cancel(session)

    def _initialize(self, params: Any) -> Work:
        features = read(params, Initialize).client_capabilities
        elicitation = features.elicitation if features is not None else None
        shown = features.session if features is not None else None
        self._turns.has_notices = shown is not None and shown.notices is not None
        self._turns.has_compactions = shown is not None and shown.compaction is not None
        self._turns.starts_logins = features is not None and features.starts_logins
        self._turns.has_forms = elicitation is not None and elicitation.form is not None
        sessions: dict[str, Any] = {"list": {}, "resume": {}, "close": {}, "delete": {}}
        answer = {
            "protocolVersion": VERSION,
            "agentInfo": {"name": "penstock", "title": "Penstock", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": sessions,
            },
            "authMethods": [_login()] if self._turns.starts_logins else [],
        }
        return lambda: answer

    def _authenticate(self, params: Any) -> Work:
        """Acknowledge a login. It happened in a terminal; whether it succeeded is what the agent finds."""
        if read(params, Authenticate).method_id != SETUP:
            raise RpcError(INVALID_PARAMS, f"there is no such way to log in; expected {SETUP!r}")
        return dict

    # --- sessions ---

    def _new(self, params: Any) -> Work:
        given = read(params, NewSession)
        cwd = _directory(given.cwd)
        _warn(given.mcp_servers)

        def work() -> FollowedResult:
            agents = self._chats.agents()
            name = self._name or self._chats.default_agent()
            view = agent_of(agents, name)
            model = view.models[0] if view.models else None
            id = uuid.uuid4().hex
            session = Session(id, cwd, name, careful_level(name), model, is_new=True)
            self._keep(session)
            return self._ready(session, {"sessionId": id, **self._settings(session, agents)})

        return work

    def _load(self, params: Any) -> Work:
        given = read(params, OneSession)
        _warn(given.mcp_servers)

        def work() -> FollowedResult:
            session = self._opened(given.session_id)
            if not session.is_new:
                self._turns.replay(session)
            return self._ready(session, self._settings(session, self._chats.agents()))

        return work

    def _resume(self, params: Any) -> Work:
        given = read(params, OneSession)
        _warn(given.mcp_servers)

        def work() -> FollowedResult:
            session = self._opened(given.session_id)
            return self._ready(session, self._settings(session, self._chats.agents()))

        return work

    def _ready(self, session: Session, result: dict[str, Any]) -> FollowedResult:
        """Return the result that opens a session. Commands are sent after it: a client knows the session then."""
        known = session.commands  # before the result: a turn that the client begins after it may list newer ones
        return FollowedResult(result, lambda: self._turns.list_commands(session, known))

    def _opened(self, id: str) -> Session:
        """Return a session that is open, or opened now."""
        session = self._sessions.get(id)
        if session is not None and (session.is_new or session.active is not None):
            return session
        chat = self._chats.find(id)
        session = Session(id, chat.cwd, chat.agent, chat.allow, chat.model, is_new=False)
        session.title, session.effort, session.spent = chat.title, chat.effort, chat.spent
        self._keep(session)
        return session

    def _keep(self, session: Session) -> None:
        """Keep a session as open; if there are too many, close the oldest one that answers no prompt."""
        self._drop(session.id)
        self._sessions[session.id] = session
        if len(self._sessions) > MAX_SESSIONS:
            self._drop(next((it for it in [*self._sessions.values()] if it.active is None), session).id)

    def _drop(self, id: str) -> None:
        session = self._sessions.pop(id, None)
        if session is not None:
            session.is_open = False

    def _list(self, params: Any) -> Work:
        given = read(params, ListSessions)
        wanted = None if given.cwd is None else os.path.realpath(_directory(given.cwd))
        cursor = given.cursor or "0"
        if not (cursor.isdecimal() and cursor.isascii() and len(cursor) < 10):
            raise RpcError(INVALID_PARAMS, "this cursor was never given")
        start = int(cursor)

        def work() -> dict[str, Any]:
            chats = self._chats.all()
            if wanted is not None:
                chats = [chat for chat in chats if chat.cwd == wanted]
            found = [_info(chat) for chat in chats[start : start + PAGE_SESSIONS]]
            more = {"nextCursor": str(start + PAGE_SESSIONS)} if len(chats) > start + PAGE_SESSIONS else {}
            return {"sessions": found, **more}

        return work

    def _close(self, params: Any) -> Work:
        session = self._require(read(params, OneSession).session_id)
        self._turns.cancel(session)
        self._drop(session.id)
        return dict

    def _delete(self, params: Any) -> Work:
        id = read(params, OneSession).session_id

        def work() -> dict[str, Any]:
            session = self._sessions.get(id)
            if session is not None and session.is_new:
                self._turns.cancel(session)  # its first prompt may be about to create the chat
            else:
                self._chats.delete(id)
            self._drop(id)
            return {}

        return work

    def _require(self, id: str) -> Session:
        session = self._sessions.get(id)
        if session is None:
            what = "this session is not open; session/load opens one that session/list has"
            raise RpcError(NOT_FOUND, what, {"sessionId": id[:100]})
        return session

    def _options(self, session: Session, agents: list[AgentView]) -> list[Any]:
        return settings.listed(agents, session)

    def _settings(self, session: Session, agents: list[AgentView]) -> dict[str, Any]:
        options = self._options(session, agents)
        modes = settings.modes_of(options)
        return {"configOptions": options, **({"modes": modes} if modes else {})}

    def _set_mode(self, params: Any) -> Work:
        given = read(params, SetMode)
        chosen = {"sessionId": given.session_id, "configId": settings.LEVEL, "value": given.mode_id}
        work = self._set_option(chosen)

        def set_mode() -> dict[str, Any]:
            work()
            return {}

        return set_mode

    def _set_option(self, params: Any) -> Work:
        given = read(params, SetOption)
        session = self._require(given.session_id)

        def work() -> dict[str, Any] | FollowedResult:
            agents = self._chats.agents()
            options = {one["id"]: one for one in self._options(session, agents)}
            option = options.get(given.config_id)
            if option is None or given.value not in {value["value"] for value in option["options"]}:
                raise RpcError(INVALID_PARAMS, "this option cannot have this value; expected one that it lists")
            if given.value != option["currentValue"]:
                self._change(session, given.config_id, given.value, agents)
            result = {"configOptions": self._options(session, agents)}
            return self._ready(session, result) if given.config_id == settings.AGENT else result

        return work

    def _change(self, session: Session, option: str, value: str, agents: list[AgentView]) -> None:
        if option == settings.AGENT:
            view = agent_of(agents, value)
            session.allow = careful_level(value)
            session.agent, session.model, session.effort = value, view.models[0] if view.models else None, None
            return
        name = {settings.MODEL: "model", settings.EFFORT: "effort", settings.LEVEL: "allow"}[option]
        chosen = None if option == settings.EFFORT and value == settings.OWN_EFFORT else value
        if not session.is_new:
            self._chats.change(session.id, name, chosen)
        setattr(session, name, chosen)

    # --- turns ---

    def _prompt(self, params: Any) -> Work:
        given = read(params, PromptParams)
        session = self._require(given.session_id)
        prompt = given_prompt(given.prompt)
        if session.active is not None:
            raise RpcError(INVALID_REQUEST, "a prompt of this session is being answered; cancel it, or wait")
        active = session.active = Active()

        def work() -> dict[str, Any]:
            try:
                return self._turns.answer(session, active, prompt)
            finally:
                session.active = None

        return work


def _directory(path: str) -> str:
    """Return a directory of the client.

    Raises:
        RpcError: it is not an absolute path.
    """
    if not os.path.isabs(path) or "\0" in path:
        raise RpcError(INVALID_PARAMS, "cwd is not a directory; expected an absolute path")
    return path


def _login() -> dict[str, Any]:
    """Return the way to log in, as the protocol has it and, in `_meta`, as clients had it before."""
    command = {"command": sys.executable, "args": ["-m", "penstock", "acp", "--setup"], "label": "Penstock"}
    text = "Shows which agents are logged in, and starts the login of one."
    login = {"id": SETUP, "name": "Log in to an agent", "description": text, "type": "terminal", "args": ["--setup"]}
    return {**login, "_meta": {"terminal-auth": command}}


def _warn(servers: list[Any]) -> None:
    if servers:
        notify("penstock: MCP servers of the client are not passed on; configure them for the agent\n")


def _info(chat: ChatView) -> dict[str, Any]:
    at = datetime.fromtimestamp(chat.used_at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"sessionId": chat.id, "cwd": chat.cwd, "updatedAt": at, **({"title": chat.title} if chat.title else {})}


def serve(options: StdioOptions, sink: int) -> None:
    """Answer the client at stdin and `sink` until it has gone.

    Raises:
        UsageError: the options cannot be used, or this process belongs to an agent that may ask for no other one.
    """
    if inside.own_depth() >= inside.MAX_DEPTH:
        raise UsageError("an agent asks for another one, which may not", expected="an editor as the client")
    AcpAgent(options, 0, sink).serve()
