"""acp: any agent with the Agent Client Protocol, version 1, on its stdin and stdout.

JSON-RPC 2.0, one message a line. Text comes in chunks only: no snapshot, no final, and from most agents no message id.
The answer to `session/prompt` is the end. See `docs/agents/acp.md`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Request
from penstock.agents._json import (
    as_dict,
    as_int,
    as_list,
    object_of,
    text_in,
    text_of,
    text_or,
    word_of,
)
from penstock.agents.acp.calls import AcpCall, changes_asked, paths_asked, question_of
from penstock.agents.acp.causes import AUTH_REQUIRED, cause_of
from penstock.agents.acp.end import ended, reason_of
from penstock.agents.acp.forms import CANCELLED, DECLINED, PendingForm, read_form
from penstock.agents.acp.inputs import lacking_input, mcp_servers, prompt_blocks
from penstock.agents.acp.permissions import PendingPermission, option_id
from penstock.agents.acp.setup import (
    SessionSetting,
    effort_setting,
    mode_setting,
    mode_value,
    model_setting,
    model_value,
    option_setting,
    session_request,
    system_prompt,
    takes_system_prompt,
)
from penstock.agents.acp.updates import COMMANDS, ERROR_WITHOUT_WORDS, SessionUpdates
from penstock.agents.kinds import names_in_meta
from penstock.agents.registry import acp_agent
from penstock.core.decoding import well_formed
from penstock.core.misfits import note
from penstock.events import Cause
from penstock.updates import (
    Answer,
    Failure,
    Notice,
    Result,
    RunStart,
    Traits,
    Unknown,
    Update,
)

PROTOCOL_VERSION = 1
MAX_META_NAMES = 256
"""Number of names in `_meta` that are kept: they come from the agent."""
MAX_NAME_CHARS = 64
"""Characters of an agent's own name that are kept."""

METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602

CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "session": {"notices": {}, "compaction": {}}}
"""What Penstock can show: forms, notices and compactions. It lends no files and no terminal."""

_PRIVATE = ("_", "$/", "craft/")
"""Beginnings of the methods that any agent uses only with its own clients."""
_NOT_OFFERED = ("fs/", "terminal/")
"""Beginnings of the methods for files and terminals, which an agent may call although Penstock lends none."""
_EDITS = frozenset({"edit", "delete", "move"})
_SET = {1005: "model", 1006: "permission mode", 1008: "effort"}
"""Names of the settings that the requests before the prompt change, by the ids of these requests."""


class ClientRequest(IntEnum):
    """Ids of Penstock's own requests; they also show a later reader of a recording which request an answer is for."""

    INITIALIZE = 1000
    NEW = 1001
    RESUME = 1002
    LOAD = 1003
    FORK = 1004
    MODEL = 1005
    MODE = 1006
    PROMPT = 1007
    EFFORT = 1008
    SYNC = 1100
    """First id of the requests to synchronize, which have this id and all above it."""


_OPENED = {
    "session/new": ClientRequest.NEW,
    "session/resume": ClientRequest.RESUME,
    "session/load": ClientRequest.LOAD,
    "session/fork": ClientRequest.FORK,
}


class Acp:
    """Dialogue with an agent over ACP or, without a request, reader of a recorded one."""

    name: ClassVar[str] = "acp"
    traits: Traits
    wire: ClassVar[Any] = Any

    def __init__(self, request: Request | None = None) -> None:
        self.over: bool = False
        # The answers of another client are not in its agent's output.
        self.traits = Traits(asks_for_all=request is not None)
        self._request = request
        self._lines: list[bytes] = []
        self._initialized_sent = False
        self._session_id: str | None = None
        self._ours = request is not None  # the ids of answers are those of `ClientRequest`
        self._capabilities: dict[str, Any] = {}
        self._logins: list[str] = []
        self._answers = 0
        self._history = True  # the agent still repeats text from before the prompt
        self._history_seen = False  # some of it since the last request to synchronize
        self._syncs = 0
        self._steps: deque[tuple[ClientRequest, str, dict[str, str]]] = deque()
        self._prompted = False
        self._cancelling = False
        self._rejected = False  # a permission, which ends the turn of some agents
        self._questions: dict[str, PendingPermission] = {}
        self._forms: dict[str, PendingForm] = {}  # by the id of each question that waits
        self._withdrawn: list[str] = []  # questions that the cancel withdrew
        self._updates = SessionUpdates()
        self._version: str | None = None
        self._program: str | None = None
        self.meta_names: dict[str, int] = {}
        """Names in the `_meta` of the agent's messages, with their numbers."""
        self.spoken_by: str | None = None
        """Name of the agent in the registry, if it is one of these."""
        self._model: str | None = None  # the name of the model that was asked for
        self._wanted: tuple[str, str] = ("", "")  # the option that the request before the prompt sets, and its value
        self._cost_counts = True  # it is the cost of this run, without earlier ones of the session

    # --- messages to the agent -------------------------------------------------------------------------

    def take(self) -> bytes:
        """Return the lines to write now, and forget them."""
        if not self._initialized_sent and self._request is not None:
            self._initialized_sent = True
            who = {"name": "penstock", "title": "Penstock", "version": "1"}
            self._send_request(
                ClientRequest.INITIALIZE,
                "initialize",
                {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": CAPABILITIES, "clientInfo": who},
            )
        out, self._lines = b"".join(self._lines), []
        return out

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a permission by the id of an option, or a field of a form by an option or in words.

        A permission without an option is rejected, or cancelled if nothing rejects. The answers of a form are sent
        together; it is declined if one that it needs is missing.

        Raises:
            KeyError: no such question is waiting.
        """
        if answer.id in self._forms:
            return self._filled(answer)
        question = self._questions.pop(answer.id)
        option = question.option(answer.option)
        outcome = {"outcome": "cancelled"} if option is None else _selected(option)
        if option is None or text_of(option.get("kind")).startswith("reject"):
            self._rejected = True
            self._updates.reject(question.call)
        self._send({"id": question.id, "result": {"outcome": outcome}})
        chosen = option_id(option) if option is not None else None
        return (Answer(answer.id, answer.by, chosen, lane=question.call.lane),)

    def cancel(self) -> bool:
        """Ask the agent to stop; False if no prompt is running."""
        if not self._prompted or self.over:
            return False
        self._cancelling = True
        self._send({"method": "session/cancel", "params": {"sessionId": self._session_id}})
        for id, question in self._questions.items():
            self._send({"id": question.id, "result": {"outcome": {"outcome": "cancelled"}}})
            self._withdrawn.append(id)
        self._questions.clear()
        while self._forms:
            self._withdrawn += self._drop(next(iter(self._forms.values())), CANCELLED)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        if self._request is not None:
            self._lines.append(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")

    def _send_request(self, asked: int, method: str, params: dict[str, Any]) -> None:
        self._send({"id": int(asked), "method": method, "params": params})

    # --- messages of the agent -------------------------------------------------------------------------

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        withdrawn = [Answer(id, "withdrawn") for id in self._withdrawn]
        self._withdrawn.clear()
        updates: list[Update] = [*withdrawn]
        for message in event if isinstance(event, list) else [event]:
            updates += self._read(message)
        return updates

    def _read(self, message: Any) -> Sequence[Update]:
        if not isinstance(message, dict):
            return (Unknown(text=text_of(message) or None),)
        method, params = word_of(message.get("method")), object_of(message.get("params"))
        if method:
            return self._called(method, params, message)
        if "result" in message or "error" in message:
            return list(self._answered(message))
        return (Unknown(text_or(message.get("type"), "") or None, text_of(message.get("text")) or None),)

    def _called(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> Sequence[Update]:
        if method == "session/update":
            return self._updated(params)
        if method == "$/cancel_request":
            return self._withdraw(params.get("requestId"))
        if method == "_session/retrying":
            return self._updates.retried(text_of(params.get("detail")))
        is_private = method.startswith((*_PRIVATE, *self._updates.quirks.private_methods))
        if "id" not in message:
            return () if is_private else (Unknown(method, text_in(params) or None),)
        if method == "session/request_permission":
            return self._questioned(message["id"], params)
        if method == "elicitation/create":
            return self._form_asked(message["id"], params)
        self._reject(message["id"], METHOD_NOT_FOUND, f"this client has no method {method[:200]!r}")
        return () if is_private or method.startswith(_NOT_OFFERED) else (Unknown(method),)

    def _reject(self, id: Any, code: int, why: str) -> None:
        self._send({"id": id, "error": {"code": code, "message": well_formed(why)}})

    def finish(self) -> Sequence[Update]:
        """Return the failure of an agent that ended while its background work went on: its text is not its reply."""
        is_early = self.over and self._updates.is_working and not self._cancelling
        return (Failure("the agent ended before it answered the end of its background work"),) if is_early else ()

    # --- answers ---------------------------------------------------------------------------------------

    def _answered(self, message: dict[str, Any]) -> Iterator[Update]:
        self._answers += 1
        result, error = object_of(message.get("result")), message.get("error")
        if "_meta" in result:
            self._note_meta(result)
        if "agentCapabilities" in result and self._answers == 1:
            self._ours = self._ours or message.get("id") == ClientRequest.INITIALIZE
        asked = self._request_of(message.get("id"), result, error)
        if error is not None and asked is not ClientRequest.SYNC:
            yield from self._failed(asked, error)
        elif asked is ClientRequest.INITIALIZE:
            yield from self._initialized(result)
        elif asked is not None and asked in _OPENED.values():
            yield from self._opened(asked, result)
        elif asked is ClientRequest.SYNC:
            yield from self._synchronized()
        elif asked is ClientRequest.PROMPT:
            self.over = True
            cost = self._updates.cost if self._cost_counts else None
            if not self._updates.quirks.sums_usage:
                result = {**result, "usage": None}
            yield from self._updates.settle(is_whole=result.get("stopReason") == "end_turn")
            wanted = self._request is None or self._cancelling or self._rejected
            error, own = self._updates.error, self._updates.turns > 0
            yield from ended(result, self._session_id, error, cost, may_be_cancelled=wanted, of_models=own)
        elif asked in (ClientRequest.MODEL, ClientRequest.EFFORT, ClientRequest.MODE):
            yield from self._is_set(asked, result)

    def _request_of(self, id: Any, result: dict[str, Any], error: Any) -> ClientRequest | None:
        """Return the request that an answer is for: by its id, or by its shape if another client recorded it."""
        if self._ours:
            known = type(id) is int and (id in ClientRequest.__members__.values() or id > ClientRequest.SYNC)
            return ClientRequest(min(id, ClientRequest.SYNC)) if known else None
        if "protocolVersion" in result:
            return ClientRequest.INITIALIZE
        if "stopReason" in result:
            return ClientRequest.PROMPT
        return ClientRequest.NEW if self._history and (error is not None or self._answers > 1) else None

    def _initialized(self, result: dict[str, Any]) -> Iterator[Update]:
        version = as_int(result.get("protocolVersion"))
        if version != PROTOCOL_VERSION:
            yield self._stopped(f"the agent uses version {version!r} of ACP; Penstock supports {PROTOCOL_VERSION}")
            return
        self._capabilities = as_dict(result.get("agentCapabilities"))
        who = object_of(result.get("agentInfo"))
        self._updates.identify(text_of(who.get("name")))
        own_name = text_of(who.get("name"))
        self.spoken_by = acp_agent(own_name)
        self._program = own_name[:MAX_NAME_CHARS] or None if self.spoken_by is None else None
        self._logins = [text_of(as_dict(way).get("name")) for way in as_list(result.get("authMethods"))]
        self._version = text_of(who.get("version")) or None
        if self._request is not None:
            request = self._request
            wanted = session_request(self._capabilities, request.session_id, request.fork)
            lacking = wanted if isinstance(wanted, str) else self._lacking(request)
            if lacking is not None or isinstance(wanted, str):
                yield self._stopped(lacking)
                return
            self._open(*wanted)

    def _lacking(self, request: Request) -> str | None:
        """Return the reason why the agent cannot be sent a request; None if it can."""
        taken = takes_system_prompt(self._capabilities) or self._uses_arguments
        if request.system_prompt is not None and not taken:
            return f"{self._who} cannot be sent instructions: run it without --system-prompt"
        return lacking_input(self._capabilities, request)

    @property
    def _uses_arguments(self) -> bool:
        """True if the agent uses the model, the effort and the instructions in its start arguments."""
        versions = self._updates.quirks.start_arguments
        return versions != "" and re.match(versions, self._version or "") is not None

    @property
    def _who(self) -> str:
        """The agent with its version, for messages."""
        return f"the agent (version {self._version})" if self._version else "the agent"

    def _open(self, method: str, params: dict[str, Any]) -> None:
        if self._request is not None:
            cwd = self._request.cwd or "."
            params = {**params, "cwd": cwd, "mcpServers": mcp_servers(self._request)}
            if self._request.system_prompt is not None and takes_system_prompt(self._capabilities):
                params |= system_prompt(self._request.system_prompt)
            if self._request.ignore_project and self._updates.quirks.ignore_project:
                params["_meta"] = self._updates.quirks.ignore_project
            self._send_request(_OPENED[method], method, params)

    def _opened(self, asked: ClientRequest, result: dict[str, Any]) -> Iterator[Update]:
        known = self._request.session_id if self._request is not None else None
        self._session_id = text_or(result.get("sessionId"), known or self._session_id or "") or None
        model = model_setting(result)
        name = self._model_name(model, model.current) if model is not None and model.current != "default" else ""
        yield RunStart(session_id=self._session_id, model=name or None, version=self._version, program=self._program)
        self._cost_counts = asked not in (ClientRequest.LOAD, ClientRequest.RESUME)
        if self._request is not None:
            lacking = self._plan_steps(self._request, model, result)
            if lacking is not None:
                yield self._stopped(lacking)
                return
        if asked is ClientRequest.LOAD:
            self._history_seen = True
            self._synchronize()
            return
        self._history = False
        self._step()

    def _plan_steps(self, request: Request, model: SessionSetting | None, opened: dict[str, Any]) -> str | None:
        """Plan the requests that set what was asked for; return why it cannot be set, or None."""
        if request.model is not None and model is not None:
            value = model_value(model, request.model)
            self._model = self._model_name(model, value)
            self._plan(ClientRequest.MODEL, model, value)
        elif request.model is not None and not self._uses_arguments:
            return f"{self._who} has no way to choose a model: run it without --model {request.model}"
        effort = effort_setting(opened)
        if request.effort is not None and effort is not None:
            self._plan(ClientRequest.EFFORT, effort, request.effort, always=bool(self._steps))
        elif request.effort is not None and not self._uses_arguments:
            return f"{self._who} offers no effort with this model: run it without --effort {request.effort}"
        mode = mode_setting(opened)
        wanted = mode_value(mode, request.allow, self._updates.quirks.modes) if mode is not None else None
        if mode is not None and wanted is not None:
            self._plan(ClientRequest.MODE, mode, wanted)
        elif self._needs_mode:
            return f"{self._who} offers no mode for --allow {request.allow}: use --allow own or --allow all"
        return None

    def _model_name(self, setting: SessionSetting, value: str) -> str:
        """Return the name of a model to show; requests have its id."""
        return setting.name_of(value) if self._updates.quirks.own_model_ids else value

    @property
    def _needs_mode(self) -> bool:
        """True if the level cannot be kept in another mode than the one that was set."""
        return self._request is not None and self._request.allow in ("read", "ask")

    def _plan(self, asked: ClientRequest, setting: SessionSetting, value: str, *, always: bool = False) -> None:
        """Plan to set a value, if the setting does not have it. `always`: another step may change the setting."""
        if always or value != setting.current:
            self._steps.append((asked, *setting.request(value)))

    def _is_set(self, asked: ClientRequest, result: dict[str, Any]) -> Iterator[Update]:
        """Go on, if the answer does not show that the setting has another value."""
        name, value = self._wanted
        now = option_setting(result, name) if name else None
        is_needed = asked is not ClientRequest.MODE or self._needs_mode
        if is_needed and now is not None and now.current != value:
            yield self._stopped(f"the agent did not take the {_SET[asked]} {value}; it has {now.current or 'none'}")
            return
        if asked is ClientRequest.MODEL:
            yield RunStart(model=self._model)
        self._step()

    def _synchronize(self) -> None:
        """Send a request for a method that no agent has: all updates before its answer are history.

        Some agents continue to send the history of a session after they reported it as loaded.
        """
        self._syncs += 1
        self._history_seen = False
        self._send_request(ClientRequest.SYNC + self._syncs, "_penstock/sync", {})

    def _synchronized(self) -> Iterator[Update]:
        if self._history_seen or self._syncs < 2:
            self._synchronize()
            return
        self._history = False
        self._step()
        yield from ()

    def _step(self) -> None:
        if self._request is None:
            return
        if self._steps:
            asked, method, params = self._steps.popleft()
            self._wanted = params.get("configId", ""), params.get("value", params.get("modeId", ""))
            self._send_request(asked, method, {"sessionId": self._session_id, **params})
            return
        self._prompted = True
        prompt = {"sessionId": self._session_id, "prompt": prompt_blocks(self._request, self._capabilities)}
        self._send_request(ClientRequest.PROMPT, "session/prompt", prompt)

    def _failed(self, asked: ClientRequest | None, error: Any) -> Iterator[Update]:
        reason, code, cause = reason_of(error), as_dict(error).get("code"), cause_of(error, self._updates.quirks)
        if asked is ClientRequest.RESUME and code == METHOD_NOT_FOUND and self._capabilities.get("loadSession") is True:
            self._open("session/load", {"sessionId": self._request.session_id if self._request is not None else None})
        elif asked is ClientRequest.MODE and not self._needs_mode:  # the questions are answered instead
            yield Notice("permission", f"no other permission mode: {reason}", "warning")
            self._step()
        elif asked in (ClientRequest.MODEL, ClientRequest.EFFORT, ClientRequest.MODE):
            value = self._model if asked is ClientRequest.MODEL else self._wanted[1]
            yield self._stopped(f"the agent did not take the {_SET[asked]} {value}: {reason}", cause=cause)
        elif asked is None:  # another client's request: perhaps the prompt
            yield Failure(reason, cause)
        elif self._cancelling:
            yield self._stopped(None, cancelled=True)
        else:
            words = self._updates.error
            if words not in (None, ERROR_WITHOUT_WORDS) and words not in reason:
                # The answer leaves out what the server said.
                reason = f"{reason}: {words}"
            login = ", ".join(filter(None, self._logins)) if code == AUTH_REQUIRED else ""
            yield self._stopped(f"{reason} (log in with the agent itself: {login})" if login else reason, cause=cause)

    def _stopped(self, reason: str | None, cancelled: bool = False, cause: Cause | None = None) -> Result:
        self.over = True
        session_id = self._session_id
        return Result(is_error=not cancelled, reason=reason, session_id=session_id, cancelled=cancelled, cause=cause)

    # --- permissions -----------------------------------------------------------------------------------

    def _questioned(self, id: Any, params: dict[str, Any]) -> Sequence[Update]:
        options = [option for option in as_list(params.get("options")) if isinstance(option, dict)]
        if not options:
            self._reject(id, INVALID_PARAMS, "a permission request needs options")
            return ()
        patch = as_dict(params.get("toolCall"))
        self._note_meta(params, patch)
        call, updates = self._updates.ask(patch)
        question, asked = PendingPermission(id, options, call), question_of(call, patch)
        if self._cancelling:
            self._send({"id": id, "result": {"outcome": {"outcome": "cancelled"}}})
            return updates
        allow = question.of_kind("allow_once", "allow_always")
        if allow is not None and self._may_edit(call, patch):
            self._send({"id": id, "result": {"outcome": _selected(allow)}})
            return (*updates, Notice("permission", f"allowed: {asked}", lane=call.lane))
        self._questions[str(id)] = question
        return (*updates, question.as_update(str(id), asked, changes_asked(call, patch)))

    # --- forms -------------------------------------------------------------------------------------------

    def _form_asked(self, id: Any, params: dict[str, Any]) -> Sequence[Update]:
        """Translate a form into the questions of its fields; decline one that cannot be shown."""
        self._note_meta(params)
        name = str(id)
        form = read_form(id, name, params)
        if self._cancelling:
            self._send({"id": id, "result": CANCELLED})
            return ()
        if form is None or any(one in self._forms or one in self._questions for one in form.fields):
            self._send({"id": id, "result": DECLINED})
            return (Notice("status", "a form of the agent cannot be shown here, and was declined", "warning"),)
        self._forms.update(dict.fromkeys(form.fields, form))
        return (*self._updates.begin(form.call_id), *form.questions)

    def _filled(self, answer: Answer) -> Sequence[Update]:
        form = self._forms.pop(answer.id)
        given = Answer(answer.id, answer.by, answer.option, answer.text)
        result, why = form.take(answer)
        if result is None:
            return (given,)
        left = [Answer(id, "withdrawn") for id in self._drop(form, result)]
        return (given, *left, *([Notice("status", why, "warning")] if why else []))

    def _drop(self, form: PendingForm, result: dict[str, Any]) -> list[str]:
        """Answer a form; return the ids of its questions that waited."""
        self._send({"id": form.id, "result": result})
        waiting = form.open
        for id in waiting:
            self._forms.pop(id, None)
        return waiting

    def _withdraw(self, id: Any) -> Sequence[Update]:
        """Withdraw the questions of a request that the agent cancels."""
        form = next((form for form in self._forms.values() if form.id == id), None)
        if form is not None:
            return [Answer(one, "withdrawn") for one in self._drop(form, CANCELLED)]
        question = self._questions.get(str(id))
        if question is None or question.id != id:
            return ()
        del self._questions[str(id)]
        self._send({"id": id, "result": {"outcome": {"outcome": "cancelled"}}})
        return (Answer(str(id), "withdrawn", lane=question.call.lane),)

    def _may_edit(self, call: AcpCall, patch: dict[str, Any]) -> bool:
        """Return whether a call only changes files that the agent may change without a question."""
        request = self._request
        if request is None or request.allow != "edits" or call.tool_kind not in _EDITS:
            return False
        if call.kind not in _EDITS and not changes_asked(call, patch):
            return False  # only the tool's name says that it edits
        return request.stays_inside(paths_asked(call, patch))

    def _updated(self, params: dict[str, Any]) -> Sequence[Update]:
        update = object_of(params.get("update"))
        if "_meta" in update or "_meta" in params:
            self._note_meta(params, update)
        session_id = text_or(params.get("sessionId"), "") or None
        new = self._session_id is None and session_id is not None
        self._session_id = self._session_id or session_id  # the answer to `session/load` does not name the session
        if session_id not in (None, self._session_id):
            return ()  # a sub-agent's own session
        if self._history:
            if update.get("sessionUpdate") == COMMANDS:
                return self._updates.read(update)
            self._history_seen = True
            return ()
        if self.over and "cost" in update:
            note("figures after the end")
        updates = self._updates.read(update)
        return (RunStart(session_id=session_id), *updates) if new else updates

    def _note_meta(self, *holders: dict[str, Any]) -> None:
        for holder in holders:
            for name in names_in_meta(as_dict(holder.get("_meta"))):
                if name in self.meta_names or len(self.meta_names) < MAX_META_NAMES:
                    self.meta_names[name] = self.meta_names.get(name, 0) + 1


def _selected(option: dict[str, Any]) -> dict[str, Any]:
    return {"outcome": "selected", "optionId": option.get("optionId")}
