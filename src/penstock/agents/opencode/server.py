"""opencode through its server: `opencode serve`, its requests and its event stream.

The bridge (`penstock.run.http_bridge`) starts the server and makes lines of both: `{"event": …}`, and `{"id", "status",
"body"}` for each request of ours. All sessions of a server share one stream; an event of another session belongs to a
sub-agent, named by its `task` call. See `docs/agents/opencode.md`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request, as_json_text, not_taken, nothing_is_inside
from penstock.agents._commands import commands_of
from penstock.agents._json import (
    as_dict,
    as_int,
    as_list,
    id_of,
    text_in,
    text_of,
    text_or,
    words_of,
)
from penstock.agents.opencode.commands import (
    CALLED,
    LISTED,
    CommandCall,
    call_body,
    call_of,
    command_of,
    obstacle,
)
from penstock.agents.opencode.errors import cause_of, failure, reason_of, retry
from penstock.agents.opencode.inputs import (
    allowed_unasked,
    mcp_servers,
    message_body,
    model_of,
    permission_rules,
    permission_variable,
    prompt_body,
)
from penstock.agents.opencode.parts import (
    Part,
    answer_of,
    read_call,
    read_finish,
    read_part,
    read_tool,
    status_of,
)
from penstock.agents.opencode.questions import Questions
from penstock.agents.opencode.steers import OpenCodeSteers
from penstock.core.decoding import fit
from penstock.events import Kind
from penstock.updates import (
    Answer,
    Failure,
    MessageStart,
    Notice,
    Result,
    RoundEnd,
    RunStart,
    Text,
    Traits,
    Unknown,
    Update,
)

BEGIN, PROMPT, PREPARE, AGENTS = 1, 2, 0, -1
"""Ids of the requests that must succeed: the one that returns the session, the prompt, and each of those between."""
COMMANDS, CALL = -2, -3
"""Ids of the request for the list of commands, which may fail, and of a call, whose answer comes after the turn."""

KINDS: dict[str, Kind] = {"text": "text", "reasoning": "thinking"}
SILENT_PARTS = frozenset({"agent", "compaction", "file", "patch", "retry", "snapshot", "subtask"})
SILENT = frozenset(
    {
        "catalog", "command", "file", "global", "installation", "integration", "lsp", "mcp", "models-dev",
        "permission", "plugin", "project", "pty", "question", "reference", "server", "session", "todo", "tui", "vcs",
        "workspace", "worktree",
    }
)  # fmt: skip
"""First words of all kinds of events that a server of version 1.18.33 lists. Those without a reader have no content."""

REMOVED = frozenset({"message.removed", "message.part.removed"})
"""Events about what a person took back. Other kinds that begin with `message` may have text: they are not ignored."""

Fields = dict[str, Any]

_BEFORE_INPUT = frozenset({"message.part.updated", "message.part.delta", "message.updated", "permission.asked"})
"""Kinds of events that may come between a permission and the input of its call. After any other, the server's
heartbeat at the latest, the question waits no longer for that input."""


class OpenCodeServer:
    """Dialogue with `opencode serve` through the bridge, or reader of a recorded one."""

    name: ClassVar[str] = "opencode"
    traits: ClassVar[Traits] = Traits(block_ends=True, asks_for_all=True)
    wire: ClassVar[Any] = Any

    def __init__(self, request: Request | None = None) -> None:
        self.over: bool = False
        self._request = request
        self._said: list[bytes] = []
        self._requests = PROMPT
        self._preparing: deque[tuple[str, Fields, str]] = deque()  # requests between the session and the prompt
        self._call: CommandCall | None = None  # waits for the list of commands
        self._asked_for_commands = request is None
        self._session: str | None = None
        self._lanes: dict[str, str | None] = {}  # sessions of this run, ours and those of its sub-agents
        self._users: set[str] = set()  # messages that are not a model's
        self._parts: dict[str, tuple[Kind, str | None]] = {}  # texts that are being written: kind, message
        self._given_up: set[str] = set()  # parts of attempts that were retried
        self._steps: dict[str | None, str | None] = {}  # by lane, the message whose model call goes on
        edits = request is not None and request.allow == "edits"
        self._questions = Questions(request.stays_inside if request is not None and edits else nothing_is_inside)
        self._busy = self._cancelling = self._aborted = self._replied = False
        self._writing = ""  # the model's message that is not completed
        self._answer: Result | None = None
        self._trouble = Failure("the turn ended without an answer")
        self._last_error = ""  # the last error of the session
        self._steers = OpenCodeSteers()
        self._calling: set[str] = set()  # parts of our session that are calls without a result
        self._handlers: dict[str, Callable[[Fields], Sequence[Update]]] = {
            "message.part.delta": self._delta,
            "message.part.updated": self._part,
            "message.updated": self._message,
            "session.created": self._created,
            "session.idle": self._idle,
            "session.error": self._error,
            "permission.asked": self._permission,
            "permission.replied": lambda said: self._questions.settled(said, self._lane(said)),
            "question.asked": lambda said: self._questions.question(said, self._lane(said)),
            "question.replied": lambda said: self._questions.settled(said, self._lane(said)),
            "question.rejected": lambda said: self._questions.settled(said, self._lane(said)),
        }
        if request is not None:
            self._begin(request)

    @staticmethod
    def command(request: Request) -> Command:
        """Return the bridge, which starts the server. Everything else follows as requests."""
        model_of(request.model)
        bridge = (sys.executable, "-P", "-m", "penstock.run.http_bridge", "serve", "/event", "--")
        server = ("opencode", "serve", "--port=0", "--hostname=127.0.0.1", *request.args)
        return Command(argv=(*bridge, *server), program=len(bridge), env=permission_variable(request.allow))

    def take(self) -> bytes:
        """Return the requests to make now, a line each, and forget them."""
        said, self._said = self._said, []
        return b"".join(said)

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question; the server confirms it by an event. See `Questions.reply`."""
        self._post(*self._questions.reply(answer))
        return ()

    def cancel(self) -> bool:
        """Abort the turn, at once or as soon as it has begun."""
        if self._session is None or self.over:
            return False
        if not self._cancelling:
            self._cancelling = True
            self._questions.forget()
            if self._busy:
                self._abort()
        return True

    def steer(self, id: str, text: str) -> Sequence[Update]:
        """Give opencode a message in its turn, at its next call of a tool."""
        if self.over or self._replied or self._cancelling:
            return (not_taken(id, "the turn has ended"),)
        self._steers.add(id, as_json_text(text))
        self._send_steers()
        return ()

    def _send_steers(self) -> None:
        """Send messages while a tool runs: the server begins another turn with one that comes after the last call."""
        if self._calling and self._request is not None and not self._cancelling:
            for id, text in self._steers.to_send():
                self._steers.sent(id, self._requests + 1)
                body = message_body(self._request, [{"type": "text", "text": text}])
                self._post(f"/session/{self._session}/prompt_async", body)

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line of the bridge into updates."""
        line = as_dict(event)
        if "status" in line and "event" not in line:
            return self._answered(line)
        reported = as_dict(line.get("event"))
        kind = text_or(reported.get("type"), "")
        early = self._questions.early() if kind not in _BEFORE_INPUT else ()
        updates = self._reported(kind, reported)
        return (*early, *updates) if early else updates

    def _reported(self, kind: str, reported: Fields) -> Sequence[Update]:
        if kind == "session.status":
            return self._status(as_dict(reported.get("properties")), text_or(reported.get("id"), ""))
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler(as_dict(reported.get("properties")))
        return () if kind in REMOVED or kind.partition(".")[0] in SILENT else (_unknown(kind, reported),)

    # --- our requests ----------------------------------------------------------------------------------

    def _begin(self, request: Request) -> None:
        session = request.session_id
        if session is None:
            rules = permission_rules(request)
            self._post("/session", {"permission": rules} if rules else {}, id=BEGIN)
        elif request.fork:
            self._post(f"/session/{session}/fork", {}, id=BEGIN)
        else:
            self._post(f"/session/{session}", None, "GET", id=BEGIN)

    def _post(self, path: str, body: Any, method: str = "POST", *, id: int | None = None, **more: Any) -> None:
        """Make a request; `more` is for the bridge."""
        self._requests += id is None
        line: Fields = {"id": self._requests if id is None else id, "method": method, "path": path, **more}
        self._said.append(msgspec.json.encode(line if body is None else {**line, "body": body}) + b"\n")

    def _abort(self) -> None:
        self._post(f"/session/{self._session}/abort", {})

    def _answered(self, line: Fields) -> Sequence[Update]:
        """Read the server's answer to a request."""
        status, body, number = as_int(line.get("status")) or 0, line.get("body"), as_int(line.get("id"))
        if 200 <= status < 300:
            if number == COMMANDS:
                return (*self._commands_known(as_list(body)), commands_of(body))
            return self._agents_known(as_list(body)) if number == AGENTS else self._succeeded(number, as_dict(body))
        if number == COMMANDS:
            return self._commands_known([])
        reason = reason_of(body) if body else text_of(line.get("error")) or f"the server answered with status {status}"
        if (rejected := self._steers.rejected(number, reason)) is not None:
            return rejected
        if number == CALL and self._busy:
            return ()  # events report how the turn ends
        if number not in (BEGIN, PROMPT, PREPARE, AGENTS, CALL):
            return (Notice("error", reason, "warning"),)
        self.over = self._replied = True
        return (Result(is_error=True, reason=reason, session_id=self._session, cause=cause_of(body)),)

    def _succeeded(self, number: int | None, body: Fields) -> Sequence[Update]:
        if number == BEGIN:
            return self._begun(body)
        if number != PREPARE:
            return ()
        self._proceed()
        states = ((name, as_dict(state)) for name, state in body.items())  # of MCP servers
        failed = [(name, text_of(state.get("error"))) for name, state in states if state.get("status") == "failed"]
        return [Notice("status", f"the MCP server {name} does not work: {why}", "warning") for name, why in failed]

    def _proceed(self) -> None:
        """Send the next request of those before the prompt, else the prompt."""
        if self._preparing:
            path, body, method = self._preparing.popleft()
            self._post(path, body, method, id=PREPARE)
        elif self._request is not None:
            self._call = call_of(self._request)
            if self._call is not None:  # only then the prompt waits for the list
                self._list_commands(CALLED)
            else:
                self._send_prompt(self._request)

    def _send_prompt(self, request: Request) -> None:
        self._post(f"/session/{self._session}/prompt_async", prompt_body(request), id=PROMPT)

    def _list_commands(self, fields: Sequence[str]) -> None:
        self._asked_for_commands = True
        self._post("/command", None, "GET", id=COMMANDS, fields=fields)

    def _commands_known(self, commands: list[Any]) -> Sequence[Update]:
        """Send the prompt if it waits for the list: as the call of a command if it names one."""
        call, self._call = self._call, None
        if call is None or self._request is None:
            return ()
        command = command_of(call, commands)
        why = obstacle(self._request, call, command) if command is not None else None
        if command is None or why is not None:
            self._send_prompt(self._request)
            return (Notice("status", why, "warning"),) if why is not None else ()
        self._post(f"/session/{self._session}/command", call_body(self._request, call), id=CALL, patient=True)
        return ()

    def _begun(self, session: Fields) -> Sequence[Update]:
        id = text_or(session.get("id"), "")
        if not id:
            self.over = True
            return (Result(is_error=True, reason="the server returned no session"),)
        self._enter(id)
        if self._request is not None:
            rules = permission_rules(self._request) if self._request.session_id is not None else []
            if rules:
                self._preparing.append((f"/session/{id}", {"permission": rules}, "PATCH"))
            self._preparing.extend(("/mcp", server, "POST") for server in mcp_servers(self._request))
            if permission_variable(self._request.allow):
                self._post("/agent", None, "GET", id=AGENTS)
            else:
                self._proceed()
        directory, version = text_or(session.get("directory"), ""), text_or(session.get("version"), "")
        return (RunStart(id, cwd=directory or None, version=version or None),)

    def _agents_known(self, agents: list[Any]) -> Sequence[Update]:
        """Go on if no agent of the configuration may do unasked what the level of the run rules out."""
        free = allowed_unasked(agents)
        if not free:
            self._proceed()
            return ()
        self.over = self._replied = True
        level = self._request.allow if self._request is not None else ""
        reason = f"opencode's configuration allows {free} without asking, so that it does not keep --allow {level}: "
        reason += "remove that, or use --allow own or --allow all"
        return (Result(is_error=True, reason=reason, session_id=self._session),)

    def _enter(self, session: str) -> None:
        self._session = session
        self._lanes[session] = None

    # --- sessions --------------------------------------------------------------------------------------

    def _created(self, said: Fields) -> Sequence[Update]:
        """Note a sub-agent's session; its own id is its lane until its call names the session."""
        info = as_dict(said.get("info"))
        id = text_or(info.get("id"), "")
        if id and text_or(info.get("parentID"), "") in self._lanes:
            self._lanes.setdefault(id, id)
        return ()

    def _of(self, said: Fields, inner: str = "") -> str:
        """Return the session of an event; "" if it does not belong to this run."""
        session = text_or(said.get("sessionID"), "") or text_or(as_dict(said.get(inner)).get("sessionID"), "")
        return session if session in self._lanes else ""

    def _status(self, said: Fields, event: str) -> Sequence[Update]:
        if self._session is None and (id := text_or(said.get("sessionID"), "")):  # a recording of the events alone
            self._enter(id)
            return (RunStart(id), *self._status(said, event))
        session, status = self._of(said), as_dict(said.get("status"))
        if not session:
            return ()
        kind, ours = status.get("type"), session == self._session
        if ours and kind in ("busy", "retry") and not self._busy:
            # Earlier events are the history that a fork repeats, and the prompt.
            self._busy = True
            if self._cancelling:
                self._abort()
            elif not self._asked_for_commands:
                self._list_commands(LISTED)  # beside the turn, which does not wait for it
        if kind != "retry":
            return ()
        again = retry(status, event, self._lanes[session])
        if ours:
            self._trouble = Failure(again.text, again.cause, again.resets_at)
        return (again,)

    def _idle(self, said: Fields) -> Sequence[Update]:
        """Read the end of a turn. The text in progress is finished after it, and the event comes a second time."""
        if not self._busy or self._of(said) != self._session:
            return ()
        if self._replied:
            self.over = True
            return ()
        return self._reply()

    def _reply(self) -> Sequence[Update]:
        self._replied = True
        self.over = not self._writing
        left = self._steers.end()
        if self._answer is not None:
            return (*left, self._answer)
        if self._aborted or self._cancelling:
            return (*left, Result(cancelled=True))
        trouble = self._trouble
        return (*left, Result(is_error=True, reason=trouble.reason, cause=trouble.cause, resets_at=trouble.resets_at))

    def _error(self, said: Fields) -> Sequence[Update]:
        session = self._of(said) if "sessionID" in said else self._session
        if not session:
            return ()
        lane, ours, error = self._lanes[session], session == self._session, said.get("error")
        if as_dict(error).get("name") == "MessageAbortedError":
            self._aborted = self._aborted or ours
            return ()
        failed = failure(error)
        notice = Notice("error", failed.reason, "error", lane, cause=failed.cause)
        if not ours:
            return (notice,)
        # Some are told twice, such as a model that does not exist: the second time with a stack trace.
        again, self._trouble, self._last_error = failed.reason == self._last_error, failed, failed.reason
        # A prompt that never becomes a turn has no idle.
        return (*(() if again else (notice,)), failed, *(() if self._busy or self._replied else self._reply()))

    # --- messages --------------------------------------------------------------------------------------

    def _message(self, said: Fields) -> Sequence[Update]:
        info = as_dict(said.get("info"))
        session = self._of(said, "info")
        if session and info.get("role") == "user":
            self._users.add(text_or(info.get("id"), ""))
            return ()
        if session != self._session or not self._busy:
            return ()
        if info.get("structured") is not None:  # the reply by a schema; the model call ends with a call of a tool
            self._answer = Result(reply=msgspec.json.encode(info["structured"]).decode())
        if as_dict(info.get("time")).get("completed"):
            self._writing = ""
            self.over = self.over or self._replied  # the last parts have come
        else:
            self._writing = text_or(info.get("id"), "")
        taken = self._steers.answering(text_or(info.get("parentID"), ""))
        provider, model = text_or(info.get("providerID"), ""), text_or(info.get("modelID"), "")
        return (*taken, RunStart(model=f"{provider}/{model}" if provider else model)) if model else taken

    def _delta(self, said: Fields) -> Sequence[Update]:
        session, text = self._of(said), text_or(said.get("delta"), "")
        message = text_or(said.get("messageID"), "") or None
        part = id_of(said.get("partID"), "a piece of text") or self._latest_part(message)
        if not text or said.get("field") != "text" or not self._is_shown(session, message, part):
            return ()
        kind, message = self._parts.get(part or "") or self._parts.get("") or ("text", message)
        return (Text(kind, "delta", text, part, message, self._lanes[session]),)

    def _latest_part(self, message: str | None) -> str | None:
        """Return the part of a message that was begun last and is still written; None if there is none."""
        return next((id or None for id, (_, its) in reversed(self._parts.items()) if its == message), None)

    def _is_shown(self, session: str, message: str | None, part: str | None) -> bool:
        """Return whether a part belongs to this turn and is not the user's."""
        if not session or (session == self._session and not self._busy):
            return False
        return message not in self._users and part not in self._given_up

    def _part(self, said: Fields) -> Sequence[Update]:
        fields = as_dict(said.get("part"))
        session = self._of(said, "part")
        part: Part = fit(fields, Part)
        kind = text_or(fields.get("type"), "")
        synthetic = part.synthetic is True and kind == "text"
        if kind == "text" and not synthetic and session == self._session and self._busy:
            self._note_steer(part)
        if not self._is_shown(session, None if synthetic else part.message_id, part.id):
            return ()
        lane = self._lanes[session]
        if kind in KINDS:
            return self._text(KINDS[kind], part, as_dict(fields.get("time")), lane)
        match kind:
            case "tool":
                return self._tool(part, lane)
            case "step-start":
                return self._step_start(part, lane)
            case "step-finish":
                return self._step_finish(part, lane)
        return () if kind in SILENT_PARTS else (Unknown(f"part {kind}", text_of(part.text) or None, lane),)

    def _text(self, kind: Kind, part: Part, time: Fields, lane: str | None) -> Sequence[Update]:
        if time.get("end") is not None:
            self._parts.pop(part.id or "", None)
            return read_part(kind, part, lane)
        if part.synthetic is True or not time:
            return ()
        id_of(part.message_id, "a part")
        self._parts[id_of(part.id, "a part")] = (kind, part.message_id)
        text = words_of(part.text)
        return (Text(kind, "snapshot", text, part.id, part.message_id, lane),) if text else ()

    def _step_start(self, part: Part, lane: str | None) -> Sequence[Update]:
        if self._steps.get(lane) == part.message_id:  # begun again: a retry, with new parts
            given_up = [id for id, (_, message) in self._parts.items() if message == part.message_id]
            self._given_up.update(given_up)
            for id in given_up:
                del self._parts[id]
        self._steps[lane] = part.message_id
        if lane is None:
            self._answer = None
        return (MessageStart(part.message_id, lane),)

    def _step_finish(self, part: Part, lane: str | None) -> Sequence[Update]:
        self._steps.pop(lane, None)
        if lane is None:
            self._answer = answer_of(part.reason)
        return (*read_finish(part, lane), RoundEnd(lane))

    def _tool(self, part: Part, lane: str | None) -> Sequence[Update]:
        state = as_dict(part.state)
        if lane is None:
            self._follow_call(part.id or "", text_of(state.get("status")))
        metadata = as_dict(state.get("metadata"))
        child = metadata.get("sessionId")
        if part.tool == "task" and isinstance(child, str) and part.call_id and child != self._session:
            self._lanes[child] = part.call_id
        match status_of(state):
            case "completed" | "error":
                updates = read_tool(part, lane)
                if lane is None:
                    self._trouble = next((it for it in updates if isinstance(it, Failure)), self._trouble)
                    return updates
                return [it for it in updates if not isinstance(it, Failure)]
            case "running":
                self._questions.note_call(part.call_id, as_dict(state.get("input")))
                call, output = read_call(part, lane), text_of(metadata.get("output"))
                shown = Text("tool_output", "snapshot", output, lane=lane, call_id=call.call_id)
                asked = self._questions.early(part.call_id)
                return (call, *([shown] if output else []), *asked)
        return ()

    def _note_steer(self, part: Part) -> None:
        """Note a text of the user that the server reports while the agent works."""
        if part.message_id is not None and part.message_id in self._users:
            self._steers.seen(part.message_id, text_of(part.text), is_recorded=self._request is None)

    def _follow_call(self, id: str, status: str) -> None:
        if status in ("pending", "running"):
            self._calling.add(id)
            self._send_steers()
        else:
            self._calling.discard(id)

    # --- questions -------------------------------------------------------------------------------------

    def _permission(self, said: Fields) -> Sequence[Update]:
        updates, granted = self._questions.permission(said, self._lane(said))
        if granted:
            self.answer(Answer(text_or(said.get("id"), ""), "allow", "once"))
        return updates

    def _lane(self, said: Fields) -> str | None:
        return self._lanes.get(self._of(said))


def _unknown(kind: str, reported: Fields) -> Unknown:
    return Unknown(kind or None, text_in(as_dict(reported.get("properties"))) or None)
