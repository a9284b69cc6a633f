"""Agent of ACP: the methods of the protocol over the chats of a server. A session is a chat, with its id."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock._version import __version__
from penstock.adapter import Allow
from penstock.chat.history.frames import TurnView
from penstock.chat.service.agents.offered import AgentView
from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.web.doors.acp import FIELD, AcpTurn, form_of, is_permission, notice, stop_reason, usage_of
from penstock.chat.web.doors.turn_fold import failure_text, question_text
from penstock.chat.web.schemas import About, TurnNumber
from penstock.cli.acp import settings
from penstock.cli.acp.content import prompt_text
from penstock.cli.acp.parameters import (
    CancelRequest,
    FilledForm,
    Initialize,
    ListSessions,
    NewSession,
    OneSession,
    Permission,
    PromptParams,
    SetMode,
    SetOption,
    read,
)
from penstock.cli.chats import ID, ChatList, SomeTurns
from penstock.cli.console import notify
from penstock.cli.serve.client import Rejected
from penstock.cli.stdio.agents import AgentList, agent_of, careful_level
from penstock.cli.stdio.link import ServerLink, StdioOptions
from penstock.cli.stdio.peer import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    Peer,
    RpcError,
    Work,
)
from penstock.core.questions import REJECT, OpenQuestion
from penstock.errors import PenstockError, UsageError
from penstock.run import inside

VERSION = 1
"""Version of the protocol."""

MAX_SESSIONS = 1000
"""Number of sessions that are open at once; an editor has a few."""

PAGE_TURNS, PAGE_SESSIONS = 200, 100
"""Number of turns in one request to the server, and of sessions in one list."""

LEAVE_SECONDS = 2.0
"""Seconds to finish what is being answered when the client has gone."""

CODES = {"invalid": INVALID_PARAMS, "content_too_large": INVALID_PARAMS, "not_found": NOT_FOUND}
"""Codes of errors for those of the server; others are internal errors."""


class Active:
    """Prompt that is being answered."""

    def __init__(self) -> None:
        self.turn: int | None = None
        self.cancelled: threading.Event = threading.Event()


class ShownTurn:
    """Turn that is shown, up to an entry."""

    def __init__(self, turn: int, cwd: str, *, has_notices: bool = False) -> None:
        self.shown: AcpTurn = AcpTurn(turn, cwd, has_notices=has_notices)
        self.number: int = 0
        """Number of the last entry that was shown."""
        self.answered: str | None = None
        """Id of the question that the prompt has answered."""
        self.declined: str | None = None
        """Id of the question for which the person did not fill in the form."""


class Session:
    """Session of the client. Its chat is created with the first prompt."""

    def __init__(self, id: str, cwd: str, agent: str, allow: Allow, model: str | None, *, is_new: bool) -> None:
        self.id = id
        self.cwd = cwd
        self.agent = agent
        self.allow = allow
        self.model = model
        self.is_new = is_new
        self.title: str | None = None
        self.active: Active | None = None
        self.waiting: ShownTurn | None = None
        """Turn whose question is answered by the next prompt."""
        self.replayed: int | None = None
        """Turn that ran when the session was loaded, while it is shown."""
        self.lock: threading.Lock = threading.Lock()
        """Lock of the one turn that is shown."""


class AcpAgent:
    """The agent, as a client of ACP sees it."""

    def __init__(self, options: StdioOptions, source: int, sink: int) -> None:
        """`source` and `sink`: file descriptors of the client."""
        self._link = ServerLink(options)
        self._name = options.agent
        self._depth = inside.depth(os.environ)
        self._has_forms = self._has_notices = False
        self._sessions: dict[str, Session] = {}
        self._prompts: dict[str | int, Session] = {}
        self._peer = Peer(source, sink, self._request, self._notified)
        self._methods: dict[str, Callable[[Any], Work]] = {
            "initialize": self._initialize,
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
            self._prompts[id] = self._require(read(params, OneSession).session_id)

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
            self._cancel(session)

    # --- the server ---

    def _initialize(self, params: Any) -> Work:
        features = read(params, Initialize).client_capabilities
        elicitation = features.elicitation if features is not None else None
        shown = features.session if features is not None else None
        self._has_notices = shown is not None and shown.notices is not None
        self._has_forms = elicitation is not None and elicitation.form is not None
        sessions: dict[str, Any] = {"list": {}, "resume": {}, "close": {}, "delete": {}}
        answer = {
            "protocolVersion": VERSION,
            "agentInfo": {"name": "penstock", "title": "Penstock", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": sessions,
            },
            "authMethods": [],
        }
        return lambda: answer

    def _agents(self) -> list[AgentView]:
        return self._link.ask("GET", "/api/agents", AgentList).agents

    def _chat(self, id: str) -> ChatView:
        """Return a chat.

        Raises:
            RpcError: there is none.
        """
        if ID.fullmatch(id) is not None:
            try:
                return self._link.ask("GET", f"/api/chats/{id}", ChatView)
            except Rejected as error:
                if error.code != "not_found":
                    raise
        raise RpcError(NOT_FOUND, "there is no such session", {"sessionId": id[:100]})

    # --- sessions ---

    def _new(self, params: Any) -> Work:
        given = read(params, NewSession)
        cwd = _directory(given.cwd)
        _warn(given.mcp_servers)

        def work() -> dict[str, Any]:
            agents = self._agents()
            name = self._name or self._link.ask("GET", "/api/about", About).default_agent
            view = agent_of(agents, name)
            model = view.models[0] if view.models else None
            id = uuid.uuid4().hex
            session = Session(id, cwd, name, careful_level(name), model, is_new=True)
            self._keep(session)
            return {"sessionId": id, **self._settings(session, agents)}

        return work

    def _load(self, params: Any) -> Work:
        given = read(params, OneSession)
        _warn(given.mcp_servers)

        def work() -> dict[str, Any]:
            session = self._opened(given.session_id)
            turns = [] if session.is_new else self._turns(session.id)
            for turn in turns:
                if session.active is None or session.active.turn != turn.turn:
                    self._replay(session, turn)
            return self._settings(session, self._agents())

        return work

    def _resume(self, params: Any) -> Work:
        given = read(params, OneSession)
        _warn(given.mcp_servers)

        def work() -> dict[str, Any]:
            return self._settings(self._opened(given.session_id), self._agents())

        return work

    def _opened(self, id: str) -> Session:
        """Return a session that is open, or opened now."""
        session = self._sessions.get(id)
        if session is not None and (session.is_new or session.active is not None):
            return session
        chat = self._chat(id)
        session = Session(id, chat.cwd, chat.agent, chat.allow, chat.model, is_new=False)
        session.title = chat.title
        self._keep(session)
        return session

    def _keep(self, session: Session) -> None:
        """Keep a session as open; if there are too many, close the oldest one that answers no prompt."""
        self._sessions[session.id] = session
        if len(self._sessions) > MAX_SESSIONS:
            idle = next((it for it in [*self._sessions.values()] if it.active is None), session)
            self._sessions.pop(idle.id, None)

    def _list(self, params: Any) -> Work:
        given = read(params, ListSessions)
        wanted = None if given.cwd is None else os.path.realpath(_directory(given.cwd))
        cursor = given.cursor or "0"
        if not (cursor.isdecimal() and cursor.isascii() and len(cursor) < 10):
            raise RpcError(INVALID_PARAMS, "this cursor was never given")
        start = int(cursor)

        def work() -> dict[str, Any]:
            chats = self._link.ask("GET", "/api/chats", ChatList).chats
            if wanted is not None:
                chats = [chat for chat in chats if chat.cwd == wanted]
            found = [_info(chat) for chat in chats[start : start + PAGE_SESSIONS]]
            more = {"nextCursor": str(start + PAGE_SESSIONS)} if len(chats) > start + PAGE_SESSIONS else {}
            return {"sessions": found, **more}

        return work

    def _close(self, params: Any) -> Work:
        session = self._require(read(params, OneSession).session_id)
        self._cancel(session)
        del self._sessions[session.id]
        return dict

    def _delete(self, params: Any) -> Work:
        id = read(params, OneSession).session_id

        def work() -> dict[str, Any]:
            session = self._sessions.get(id)
            if session is None or not session.is_new:
                self._chat(id)
                self._link.ask("DELETE", f"/api/chats/{id}", type(None))
            self._sessions.pop(id, None)
            return {}

        return work

    def _require(self, id: str) -> Session:
        session = self._sessions.get(id)
        if session is None:
            what = "this session is not open; session/load opens one that session/list has"
            raise RpcError(NOT_FOUND, what, {"sessionId": id[:100]})
        return session

    def _options(self, session: Session, agents: list[AgentView]) -> list[Any]:
        return settings.listed(agents, session.agent, session.model, session.allow, is_new=session.is_new)

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

        def work() -> dict[str, Any]:
            agents = self._agents()
            options = {one["id"]: one for one in self._options(session, agents)}
            option = options.get(given.config_id)
            if option is None or given.value not in {value["value"] for value in option["options"]}:
                raise RpcError(INVALID_PARAMS, "this option cannot have this value; expected one that it lists")
            if given.value != option["currentValue"]:
                self._change(session, given.config_id, given.value, agents)
            return {"configOptions": self._options(session, agents)}

        return work

    def _change(self, session: Session, option: str, value: str, agents: list[AgentView]) -> None:
        if option == settings.AGENT:
            view = agent_of(agents, value)
            session.allow = careful_level(value)
            session.agent, session.model = value, view.models[0] if view.models else None
            return
        name = "model" if option == settings.MODEL else "allow"
        if not session.is_new:
            self._link.ask("PATCH", f"/api/chats/{session.id}", ChatView, {name: value})
        setattr(session, name, value)

    # --- turns ---

    def _prompt(self, params: Any) -> Work:
        given = read(params, PromptParams)
        session = self._require(given.session_id)
        text = prompt_text(given.prompt)
        if session.active is not None:
            raise RpcError(INVALID_REQUEST, "a prompt of this session is being answered; cancel it, or wait")
        active = session.active = Active()

        def work() -> dict[str, Any]:
            try:
                return self._answer(session, active, text)
            finally:
                session.active = None

        return work

    def _answer(self, session: Session, active: Active, text: str) -> dict[str, Any]:
        if session.is_new:
            self._create(session)
        self._check_depth(session)
        waiting, session.waiting = session.waiting, None
        question = waiting.shown.question if waiting is not None else None
        if waiting is not None and question is not None:
            active.turn = waiting.shown.turn
            waiting.answered = question.id
            try:
                is_answer = self._answered(session, question.id, text)
            except Rejected:
                session.waiting = waiting
                raise
            with session.lock:
                if is_answer:
                    return self._follow(session, active, waiting)
                if not self._show(session, active, waiting):  # somebody else has answered it
                    session.waiting = waiting
                    return {"stopReason": "end_turn"}
            active.turn = None
        if active.cancelled.is_set():
            return {"stopReason": "cancelled"}
        active.turn = self._submit(session, text)
        self._say_held(session, active.turn)
        if active.cancelled.is_set():
            self._stop(session, active.turn)
        with session.lock:
            shown = ShownTurn(active.turn, session.cwd, has_notices=self._has_notices)
            return self._follow(session, active, shown)

    def _say_held(self, session: Session, turn: int) -> None:
        """Say that the turn waits, if it does so for messages that a stop on the page holds back."""
        held = self._chat(session.id).held
        if held:
            text = f"Waiting for {held} earlier messages, which the page of penstock serve can release or take back."
            content = {"type": "text", "text": text}
            thought = {"sessionUpdate": "agent_thought_chunk", "content": content, "messageId": f"t{turn}.held"}
            self._update(session, notice("warning", text) if self._has_notices else thought)

    def _check_depth(self, session: Session) -> None:
        """Check that an agent does not use a chat to which a person has allowed more than to an agent's.

        Raises:
            RpcError: it does.
        """
        if self._depth and self._chat(session.id).allow != careful_level(session.agent):
            raise RpcError(INTERNAL_ERROR, "a person has changed the permission of this chat; begin another one")

    def _create(self, session: Session) -> None:
        """Create the chat of a session; if its directory is not trusted, ask the person at the client."""
        body: dict[str, Any] = {"id": session.id, "agent": session.agent, "cwd": session.cwd}
        body |= {"model": session.model, "allow": session.allow, "depth": self._depth}
        for is_trusted in (False, True):
            try:
                chat = self._link.ask("POST", "/api/chats", ChatView, body)
            except Rejected as error:
                if error.code == "conflict":  # an attempt whose answer was lost
                    chat = self._chat(session.id)
                elif error.code != "untrusted_directory" or is_trusted:
                    raise
                else:
                    self._trust(session)
                    continue
            session.cwd, session.is_new = chat.cwd, False
            return

    def _trust(self, session: Session) -> None:
        """Ask the person at the client whether to trust the directory of a session.

        Raises:
            RpcError: the person does not trust it.
        """
        text = "Its own settings may start programs. Penstock asks once for each directory."
        call = {
            "toolCallId": "trust",
            "title": f"Trust {session.cwd}?",
            "kind": "other",
            "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": text}}],
        }
        options = [
            {"optionId": "trust", "name": "Trust this directory", "kind": "allow_always"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        _, answer = self._peer.ask(
            "session/request_permission", {"sessionId": session.id, "toolCall": call, "options": options}
        )
        if _option(answer) != "trust":
            what = f"{session.cwd} is not trusted, so no agent works there"
            raise RpcError(INTERNAL_ERROR, what, {"reason": "untrusted_directory"})
        self._link.ask("POST", "/api/workspaces", dict[str, Any], {"path": session.cwd})

    def _submit(self, session: Session, text: str) -> int:
        key = uuid.uuid4().hex
        return self._link.ask("POST", f"/api/chats/{session.id}/turns", TurnNumber, {"text": text}, key=key).turn

    def _answered(self, session: Session, question: str, answer: str) -> bool:
        """Answer a question of the agent; return False if it is no longer open.

        Raises:
            Rejected: this is not an answer to it.
        """
        try:
            self._link.answer(session.id, question, answer)
        except Rejected as error:
            if error.code != "conflict":
                raise
            return False
        return True

    def _stop(self, session: Session, turn: int) -> None:
        self._link.ask("POST", f"/api/chats/{session.id}/stop", dict[str, list[int]], {"turn": turn})

    def _cancel(self, session: Session) -> None:
        active = session.active
        turn = session.waiting.shown.turn if session.waiting is not None else None
        if turn is None:
            turn = session.replayed
        if active is not None:
            active.cancelled.set()
            turn = active.turn if active.turn is not None else turn
        if turn is not None:
            number = turn
            threading.Thread(target=self._stop, args=(session, number), daemon=True).start()

    def _follow(self, session: Session, active: Active | None, followed: ShownTurn) -> dict[str, Any]:
        """Show a turn to its end, or to a question for the next prompt; return the result of the prompt.

        Raises:
            RpcError: the turn failed.
        """
        if not self._show(session, active, followed):
            session.waiting = followed
            return {"stopReason": "end_turn"}
        end = followed.shown.fold.completed
        assert end is not None
        self._retitle(session)
        reason = stop_reason(end)
        if reason is None:
            data = {"outcome": end.outcome, "reason": end.reason, "cause": end.cause}
            raise RpcError(INTERNAL_ERROR, failure_text(end) or end.outcome, data)
        usage = usage_of(followed.shown.fold.usage)
        return {"stopReason": reason, **({"usage": usage} if usage else {})}

    def _show(
        self,
        session: Session,
        active: Active | None,
        followed: ShownTurn,
        on_live: Callable[[], None] = lambda: None,
    ) -> bool:
        """Send the updates of a turn; return False if a question waits for the next prompt."""
        asking: tuple[str, int, Future[Any]] | None = None
        is_live = followed.number > 0
        shown = followed.shown
        try:
            for step in self._link.follow(session.id, shown.turn, followed.number):
                for update in shown.take(step.rows):
                    self._update(session, update)
                if active is None and self._sessions.get(session.id) is not session:
                    return True  # it was closed, or is loaded again
                if step.rows:
                    followed.number = step.rows[-1].number
                if step.is_live:
                    is_live = True
                    on_live()
                question = shown.question
                if asking is not None and (question is None or question.id != asking[0]):
                    self._peer.withdraw(asking[1])
                    asking = None
                elif asking is not None and asking[0] == followed.declined:
                    asking = None
                if question is None or not is_live or asking is not None or question.id == followed.answered:
                    continue
                if not is_permission(question) and (not self._has_forms or followed.declined == question.id):
                    self._say(session, shown.turn, question)
                    return False
                asking = self._ask(session, followed, question)
        finally:
            if asking is not None:
                self._peer.withdraw(asking[1])
        return True

    def _ask(self, session: Session, followed: ShownTurn, question: OpenQuestion) -> tuple[str, int, Future[Any]]:
        if is_permission(question):
            method, more = "session/request_permission", followed.shown.permission(question)
        else:
            method, more = "elicitation/create", form_of(question)
        number, answer = self._peer.ask(method, {"sessionId": session.id, **more})

        def done(found: Future[Any]) -> None:
            if not found.cancelled():
                threading.Thread(target=self._passed_on, args=(session, followed, question, found), daemon=True).start()

        answer.add_done_callback(done)
        return question.id, number, answer

    def _passed_on(self, session: Session, followed: ShownTurn, question: OpenQuestion, answer: Future[Any]) -> None:
        """Pass an answer on to the agent. A client that cannot answer rejects a permission, and declines a form."""
        text = _filled_in(answer)
        if is_permission(question):
            offered = {option["optionId"] for option in followed.shown.permission(question)["options"]}
            chosen = _option(answer)
            text = chosen if chosen in offered else REJECT
        try:
            if text is None:
                followed.declined = question.id
            else:
                self._answered(session, question.id, text)
        except PenstockError as error:
            followed.declined = question.id
            notify(f"penstock: the answer was not accepted: {error}\n")

    def _say(self, session: Session, turn: int, question: OpenQuestion) -> None:
        content = {"type": "text", "text": question_text(question)}
        update = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": f"t{turn}.{question.id}"}
        self._update(session, update)

    def _say_end(self, session: Session, followed: ShownTurn) -> None:
        """Say why a turn of before ended, if it failed or was stopped: it has no result that says so."""
        end = followed.shown.fold.completed
        if end is None:
            return
        text = failure_text(end) or (end.reason or "stopped" if end.outcome == "cancelled" else None)
        if text is not None:
            content = {"type": "text", "text": f"[{text}]"}
            message = f"t{end.turn}.end"
            self._update(session, {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message})

    def _update(self, session: Session, update: dict[str, Any]) -> None:
        self._peer.notify("session/update", {"sessionId": session.id, "update": update})

    def _retitle(self, session: Session) -> None:
        """Tell the client the title of the chat, if it is new."""
        try:
            title = self._chat(session.id).title
        except PenstockError:
            return  # the chat is gone, and the turn was shown nevertheless
        if title != session.title:
            session.title = title
            self._update(session, {"sessionUpdate": "session_info_update", "title": title})

    # --- turns of before ---

    def _turns(self, chat: str) -> list[TurnView]:
        """Return all turns of a chat, the oldest first."""
        found: list[TurnView] = []
        path = f"/api/chats/{chat}/turns?limit={PAGE_TURNS}"
        page = self._link.ask("GET", path, SomeTurns)
        found = page.turns
        while page.earlier and page.turns:
            page = self._link.ask("GET", f"{path}&before={page.turns[0].turn}", SomeTurns)
            found = [*page.turns, *found]
        return found

    def _replay(self, session: Session, turn: TurnView) -> None:
        """Show a turn of before. One that runs is shown so far, and then as it goes on."""
        content = {"type": "text", "text": turn.prompt}
        prompt = {"sessionUpdate": "user_message_chunk", "content": content, "messageId": f"t{turn.turn}.prompt"}
        self._update(session, prompt)
        live = threading.Event()
        followed = ShownTurn(turn.turn, session.cwd)

        def show() -> None:
            try:
                with session.lock:
                    session.replayed = turn.turn
                    if not self._show(session, None, followed, live.set):
                        session.waiting = followed
                    self._say_end(session, followed)
            except PenstockError as error:
                notify(f"penstock: the turn cannot be shown: {error}\n")
            finally:
                session.replayed = None
                live.set()

        if turn.state == "completed":
            show()
        else:
            threading.Thread(target=show, daemon=True).start()
            live.wait()


def _directory(path: str) -> str:
    """Return a directory of the client.

    Raises:
        RpcError: it is not an absolute path.
    """
    if not os.path.isabs(path) or "\0" in path:
        raise RpcError(INVALID_PARAMS, "cwd is not a directory; expected an absolute path")
    return path


def _warn(servers: list[Any]) -> None:
    if servers:
        notify("penstock: MCP servers of the client are not passed on; configure them for the agent\n")


def _info(chat: ChatView) -> dict[str, Any]:
    at = datetime.fromtimestamp(chat.used_at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"sessionId": chat.id, "cwd": chat.cwd, "updatedAt": at, **({"title": chat.title} if chat.title else {})}


def _option(answer: Future[Any]) -> str | None:
    """Return the option that the client has chosen; None if it has chosen none, or failed."""
    try:
        chosen = msgspec.convert(answer.result(), Permission).outcome
    except (CancelledError, RpcError, msgspec.ValidationError, RecursionError):
        return None
    return chosen.option_id if chosen.outcome == "selected" else None


def _filled_in(answer: Future[Any]) -> str | None:
    """Return what the person has entered in a form; None if nothing, or the client failed."""
    try:
        form = msgspec.convert(answer.result(), FilledForm)
    except (CancelledError, RpcError, msgspec.ValidationError, RecursionError):
        return None
    value = (form.content or {}).get(FIELD)
    return value if form.action == "accept" and isinstance(value, str) and value.strip() else None


def serve(options: StdioOptions, sink: int) -> None:
    """Answer the client at stdin and `sink` until it has gone.

    Raises:
        UsageError: the options cannot be used, or this process belongs to an agent that may ask for no other one.
    """
    if inside.depth(os.environ) >= inside.MAX_DEPTH:
        raise UsageError("an agent asks for another one, which may not", expected="an editor as the client")
    AcpAgent(options, 0, sink).serve()
