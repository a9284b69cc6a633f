"""codex: `codex app-server`, which reports everything at once and accepts answers.

JSON-RPC without its version field, one object a line. The items are those of `codex exec --json`, in camelCase (`items`
reads both), with equal content; here deltas of their text come first. Each side counts the ids of its own requests.
Notifications of another thread than ours are a sub-agent's; see `docs/agents/codex.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from penstock._version import __version__
from penstock.adapter import Command, Request, as_json_text, encoded, not_taken
from penstock.agents._json import (
    as_dict,
    as_int,
    as_list,
    id_of,
    inner_message,
    object_of,
    plan_items,
    text_of,
    text_or,
    word_of,
    words_of,
)
from penstock.agents.codex.errors import cause_of, reset_of, retry
from penstock.agents.codex.inputs import mcp_servers, text_input, turn
from penstock.agents.codex.items import (
    COMPLETED_ITEMS,
    NOTICES,
    SILENT,
    failure,
    in_lane,
    item_of,
    read_item,
    snaked,
    usage_of,
)
from penstock.agents.codex.messages import Phases, Writing
from penstock.agents.codex.questions import PendingQuestion, questions_of, result_of
from penstock.agents.codex.skills import SKILLS, skills_of
from penstock.agents.codex.steers import Steers
from penstock.core.decoding import well_formed_values
from penstock.events import Kind
from penstock.updates import (
    Answer,
    ContextUse,
    MessageEnd,
    ModelUsage,
    Notice,
    Plan,
    Result,
    RunStart,
    Text,
    Traits,
    Unknown,
    Update,
    Usage,
    Work,
)

NO_SUCH_METHOD = -32601
"""JSON-RPC's error code for an unknown method. Without an answer the turn would wait for ever."""

ON_REQUEST = "on-request"
"""Approval policy with which codex asks if the model wants more than the sandbox allows; else the command fails."""
ON_FAILURE = {
    "granular": dict.fromkeys(
        ("mcp_elicitations", "request_permissions", "rules", "sandbox_approval", "skill_approval"), True
    )
}
"""Approval policy with which codex asks for the same, and after a command has failed in the sandbox."""

_ALLOWED: dict[str, dict[str, Any]] = {
    "read": {"sandbox": "read-only", "approvalPolicy": "never"},
    "ask": {"sandbox": "read-only", "approvalPolicy": ON_FAILURE},
    # A command may also fail for a reason of its own, whose output codex drops if the question is rejected: an agent
    # that works on its own needs that output.
    "edits": {"sandbox": "workspace-write", "approvalPolicy": ON_REQUEST},
    "own": {},  # the user's settings; codex's own are a read-only sandbox, and to ask for more
    "all": {"sandbox": "danger-full-access", "approvalPolicy": "never"},
}
_SANDBOXES = {"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access"}
"""Sandboxes as an answer names them, and as a request does."""
_WRITTEN = frozenset({"agentMessage", "reasoning", "plan"})


class CodexServer:
    """Dialogue with `codex app-server`, and reader of a recorded one."""

    name: ClassVar[str] = "codex"
    traits: ClassVar[Traits] = Traits(block_ends=True, asks_for_all=True)
    wire: ClassVar[Any] = Any

    def __init__(self, request: Request | None = None) -> None:
        """Make a dialogue about `request`, or a reader of a recorded one.

        Raises:
            UsageError: the prompt cannot be encoded.
        """
        self.over: bool = False
        self._request = request
        self._prompt = as_json_text(request.prompt) if request is not None else ""
        self._lines: list[bytes] = []
        self._asked: dict[int, str] = {}  # our requests without an answer so far
        self._ids = 0
        self._thread: str | None = None
        self._unused: dict[str, RunStart] = {}  # threads of one run only, without a turn so far
        self._turns: dict[str, str] = {}  # the turn of each thread
        self._cancelling = False
        self._is_older = False  # this version does not know the policy `ON_FAILURE`
        self._lanes: dict[str, str] = {}  # of the threads of sub-agents
        self._spawning: dict[str, None] = {}  # calls whose sub-agent is still unknown
        self._writing = Writing()
        self._phases = Phases()
        self._parts: dict[str, tuple[str, int]] = {}  # the part of each reasoning that is written, and its list
        self._changes: dict[str, Any] = {}  # contents of pending file changes
        self._totals: dict[str, Any] = {}  # the last figures of each thread
        self._used: Usage | None = None
        self._resets_at: int | None = None  # of a limit that is used up
        self._questions: dict[str, PendingQuestion] = {}
        self._meanings: dict[int | str, list[tuple[PendingQuestion, Any]]] = {}
        self._steers = Steers()
        # Without this ability codex rejects the policy, also as that of the user's settings in a later run.
        abilities = {"capabilities": {"experimentalApi": True}} if request and _may_ask(request) else {}
        client = {"name": "penstock", "title": "Penstock", "version": __version__}
        self._send_request("initialize", clientInfo=client, **abilities)

    @staticmethod
    def command(request: Request) -> Command:
        """Return `codex app-server`; the dialogue sends the prompt and the permissions.

        Raises:
            UsageError: the request has a profile, which codex does not support, or a prompt that cannot be encoded.
        """
        encoded(request.prompt)
        return Command(argv=("codex", "app-server", *request.args))

    # --- messages to codex -----------------------------------------------------------------------------

    def take(self) -> bytes:
        """Return the lines to write now, and forget them."""
        lines, self._lines = b"".join(self._lines), []
        return lines

    def _send(self, **message: Any) -> None:
        if self._request is not None:
            self._lines.append(msgspec.json.encode(well_formed_values(message)) + b"\n")

    def _send_request(self, method: str, **params: Any) -> None:
        if self._request is not None:
            self._asked[self._ids] = method
            self._send(method=method, id=self._ids, params=params)
            self._ids += 1

    def _begin(self, request: Request) -> None:
        """Ask for our thread.

        codex keeps the permissions of a conversation from turn to turn. A run that goes on with one states its own, so
        that it first asks for the user's settings.
        """
        if request.session_id is None or request.allow != "own":
            self._open(request, {})
        else:
            self._send_request("config/read", includeLayers=False, cwd=".")

    def _ask_settings(self, config: dict[str, Any]) -> None:
        """Begin a thread that is never used: its answer has the permissions that the user's settings mean here."""
        off = {name: {"enabled": False} for name in as_dict(config.get("mcp_servers"))}  # or they would start twice
        self._send_request("thread/start", ephemeral=True, config={"mcp_servers": off})

    def _settings_known(self, request: Request, result: dict[str, Any]) -> None:
        sandbox = text_of(as_dict(result.get("sandbox")).get("type"))
        policy = result.get("approvalPolicy") or "on-request"
        self._open(request, {"sandbox": _SANDBOXES.get(sandbox, "read-only"), "approvalPolicy": policy})

    def _open(self, request: Request, settings: dict[str, Any]) -> None:
        """Ask for our thread, with these permissions of the user where the request has none."""
        params: dict[str, Any] = {**settings, **_ALLOWED[request.allow]}
        if self._is_older and params.get("approvalPolicy") == ON_FAILURE:
            params["approvalPolicy"] = ON_REQUEST
        if request.model is not None:
            params["model"] = request.model
        if request.system_prompt is not None:
            params["developerInstructions"] = request.system_prompt
        if request.mcp_config is not None:
            params["config"] = {"mcp_servers": mcp_servers(request.mcp_config)}
        if request.session_id is None:
            # Without the directory, which is the server's own: codex would write into the user's settings that it is
            # trusted, so that later runs are allowed to write there too.
            self._send_request("thread/start", **params)
        else:  # without the history: it would come in one line; with the directory: it would go on in its old one
            method = "thread/fork" if request.fork else "thread/resume"
            self._send_request(method, threadId=request.session_id, excludeTurns=True, cwd=".", **params)

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question by the id of an option, or in words if it accepts them; else reject it.

        Raises:
            KeyError: no such question is waiting.
        """
        if self._cancelling:
            raise KeyError(answer.id)
        question = self._questions.pop(answer.id)
        request = question.request
        meanings = self._meanings.setdefault(request, [])
        meanings.append((question, question.result(answer)))
        if not any(other.request == request for other in self._questions.values()):
            self._send(id=request, result=result_of(self._meanings.pop(request)))
        return (msgspec.structs.replace(answer, lane=question.lane),)

    def steer(self, id: str, text: str) -> Sequence[Update]:
        """Give codex a message in its turn, once that has begun."""
        if self.over or self._cancelling:
            return (not_taken(id, "the turn has ended"),)
        self._steers.add(id, text)
        self._send_steers()
        return ()

    def _send_steers(self) -> None:
        turn = self._turns.get(self._thread or "")
        for id, text in self._steers.to_send():
            self._steers.sent(id, self._ids)
            self._send_request(
                "turn/steer",
                threadId=self._thread,
                expectedTurnId=turn,
                input=[text_input(text)],
                clientUserMessageId=id,
            )

    def cancel(self) -> bool:
        """Interrupt the turn. Its waiting questions are withdrawn with it."""
        if self.over or self._thread is None or self._request is None:
            return False
        if not self._cancelling:
            self._cancelling = True
            self._interrupt()
        return True

    def _interrupt(self) -> None:
        turn = self._turns.get(self._thread or "")
        if turn is not None and "turn/interrupt" not in self._asked.values():
            self._send_request("turn/interrupt", threadId=self._thread, turnId=turn)

    # --- messages of codex -----------------------------------------------------------------------------

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        if not isinstance(event, dict):
            return (Unknown(),)
        method, id, params = event.get("method"), event.get("id"), as_dict(event.get("params"))
        if isinstance(method, str):
            if "id" in event:
                return self._requested(id, method, params)
            handler = _NOTIFICATIONS.get(method)
            if handler is not None:
                return handler(self, params)
            noted = NOTICES.get(method)
            if noted is not None:
                return in_lane(noted(params), self._lanes.get(text_of(params.get("threadId"))))
            return () if method in SILENT else (Unknown(method, _text_in(params)),)
        if "id" in event and ("error" in event or "result" in event):
            return self._answered(id, event)
        return (Unknown(None, _text_in(event)),)

    def _answered(self, id: Any, event: dict[str, Any]) -> Sequence[Update]:
        method = self._asked.pop(id, None) if type(id) is int else None
        if method == "turn/steer":
            return self._steers.answered(id, event.get("error"))
        if method == "config/read":
            self._ask_settings(as_dict(as_dict(event.get("result")).get("config")))
            return ()
        if id == SKILLS:
            return (skills_of(event.get("result")),)  # older versions do not know the request
        if event.get("error") is not None:
            error = event["error"]
            reason = inner_message(text_of(as_dict(error).get("message")) or text_of(error))
            if "granular" in reason and self._request is not None and not self._is_older:
                self._is_older = True
                self._open(self._request, {})
                return ()
            if self._turns.get(self._thread or "") is None and not self.over:
                self.over = True  # there is no turn, and there will be none
                return (Result(is_error=True, reason=reason or "codex did not begin"),)
            return () if method == "turn/interrupt" else (Notice("error", reason, "warning"),)
        result = as_dict(event.get("result"))
        if method == "initialize" and self._request is not None:
            self._send(method="initialized")
            self._begin(self._request)
        elif method == "thread/start" and self._request is not None and self._request.session_id is not None:
            self._settings_known(self._request, result)
        elif "thread" in result:
            return self._thread_known(as_dict(result["thread"]), result, begin=method is not None)
        elif "turn" in result:
            self._turn_known(self._thread, as_dict(result["turn"]))
            if not self._cancelling:  # beside the turn, which does not wait for it
                self._send(method="skills/list", id=SKILLS, params={})
        return ()

    def _thread_known(self, thread: dict[str, Any], result: dict[str, Any], *, begin: bool) -> Sequence[Update]:
        id = text_or(thread.get("id"), "")
        known = {**thread, **{key: value for key, value in result.items() if value is not None}}
        model, cwd, version = (text_or(known.get(key), "") or None for key in ("model", "cwd", "cliVersion"))
        start = RunStart(id or None, model, cwd, version)
        if self._thread is None and thread.get("ephemeral") is True:
            self._unused[id] = start  # ours only if a turn begins in it
            return ()
        if self._thread is None and id:
            self._thread = id
        if id != self._thread:
            return ()
        if begin and self._request is not None:
            self._send_request("turn/start", threadId=id, **turn(self._request, self._prompt))
        return (start,)

    def _turn_known(self, thread: str | None, turn: dict[str, Any]) -> None:
        id = id_of(turn.get("id"), "a turn")
        if thread is not None and id:
            self._turns[thread] = id
            if self._cancelling and thread == self._thread:
                self._interrupt()

    def _turn_started(self, params: dict[str, Any]) -> Sequence[Update]:
        thread = self._thread_of(params)
        self._turn_known(thread, as_dict(params.get("turn")))
        if thread == self._thread or thread is None:
            self._steers.begin()
            self._send_steers()
            start = self._unused.pop(thread or "", None)
            return (start,) if start is not None else ()
        return (Work(thread, on=True),)

    def _turn_completed(self, params: dict[str, Any]) -> Sequence[Update]:
        thread, turn = self._thread_of(params), object_of(params.get("turn"))
        status, error = word_of(turn.get("status")), object_of(turn.get("error"))
        message = text_of(error.get("message"))
        reason, cause = inner_message(message), cause_of(error.get("codexErrorInfo"), message)
        self._writing.drop(thread)
        lane = self._lanes.get(thread or "")
        ended = MessageEnd(lane=lane, status=None if status == "completed" else "cut")
        if thread != self._thread:
            failed = (Notice("background", reason, "warning", lane, cause=cause),) if reason else ()
            return (*((ended,) if lane is not None else ()), *failed, Work(thread, on=False))
        if turn.get("id") not in (None, self._turns.get(thread or "", turn.get("id"))):
            return ()  # one before ours
        self.over = True
        not_taken_ones = self._steers.end()
        result = msgspec.structs.replace(
            failure(reason, cause, self._resets_at) if status == "failed" else Result(),
            session_id=thread,
            usage=self._used,
            duration_ms=as_int(turn.get("durationMs")),
            cancelled=status == "interrupted",
        )
        # The run does not wait for sub-agents of a turn that was interrupted.
        return (ended, *not_taken_ones, *((Work(None, on=False),) if result.cancelled else ()), result)

    def _thread_of(self, params: dict[str, Any]) -> str | None:
        """Return the thread of a notification. If none is known, because the beginning is missing, it is ours."""
        thread = id_of(params.get("threadId"), "a notification")
        if not thread:
            return self._thread
        if self._thread is None:
            self._thread = thread
        return thread

    def _lane_of(self, thread: str | None) -> str | None:
        """Return the lane of a thread: the call that spawned it."""
        if thread is None or thread == self._thread:
            return None
        if thread not in self._lanes:  # its first item precedes the result of the call that spawned it
            call = next(iter(self._spawning), None)
            self._spawning.pop(call or "", None)
            self._lanes[thread] = call or thread
        return self._lanes[thread]

    # --- items -----------------------------------------------------------------------------------------

    def _item_started(self, params: dict[str, Any]) -> Sequence[Update]:
        thread, raw = self._thread_of(params), as_dict(params.get("item"))
        lane, kind, item = self._lane_of(thread), text_or(raw.get("type"), ""), item_of(raw)
        if kind == "userMessage":
            # The user's text in the middle of a message: codex dropped the message for it.
            writing = self._writing.drop(thread)
            if lane is None:
                self._steers.seen(
                    text_or(raw.get("clientId"), ""), _text_of_user(raw), is_recorded=self._request is None
                )
            return (MessageEnd(writing, lane, "superseded"),) if writing is not None else ()
        taken = self._steers.answering() if lane is None else ()
        if kind in _WRITTEN and item.id is not None:
            self._writing.begin(thread, item.id)
            self._phases.begin(item, thread or "")
        elif kind == "fileChange" and item.id is not None:
            self._changes[item.id] = raw.get("changes")
        elif kind == "collabAgentToolCall" and item.tool == "spawn_agent" and item.id is not None:
            self._spawning[item.id] = None
        if kind in COMPLETED_ITEMS:
            return taken
        return (*taken, *in_lane(read_item(item, "item.started"), lane))

    def _item_completed(self, params: dict[str, Any]) -> Sequence[Update]:
        thread, raw = self._thread_of(params), as_dict(params.get("item"))
        lane, kind, item = self._lane_of(thread), text_or(raw.get("type"), ""), item_of(raw)
        if kind == "userMessage":
            return ()
        id = id_of(item.id, "an item") if kind in _WRITTEN else item.id or ""
        self._changes.pop(id, None)
        self._parts.pop(id, None)
        more = (*self._phases.end(item, thread or "", lane), *self._writing.end(thread, item.id, lane))
        if item.tool == "spawn_agent":
            self._spawning.pop(id, None)
            for receiver in as_list(item.receiver_thread_ids):
                if isinstance(receiver, str):
                    self._lanes.setdefault(receiver, id)
        reader = COMPLETED_ITEMS.get(kind)
        if reader is not None:
            return in_lane(reader(raw), lane)
        return (*in_lane(read_item(item, "item.completed"), lane), *more)

    def _delta(self, kind: Kind, params: dict[str, Any], part: str | None = None) -> Sequence[Update]:
        thread, item = self._thread_of(params), id_of(params.get("itemId"), "a piece of text") or None
        text = words_of(params.get("delta"))
        if part is not None:
            known, last = self._parts.get(item or "", (part, 0))
            if known != part and part == "contentIndex":
                return ()  # if a reasoning is summarised, only the summary is shown
            index = as_int(params.get(part)) or 0
            self._parts[item or ""] = (part, index)
            text = "\n" + text if index > last else text  # as `codex exec` joins them
        if item is not None:
            self._writing.begin(thread, item)
        lane = self._lane_of(thread)
        phase = self._phases.read(item, thread or "", lane) if text else ()  # of a message that has begun
        taken = self._steers.answering() if lane is None else ()
        return (*taken, Text(kind, "delta", text, item, item, lane), *phase)

    def _output_delta(self, params: dict[str, Any]) -> Sequence[Update]:
        lane = self._lane_of(self._thread_of(params))
        call_id = text_or(params.get("itemId"), "") or None
        return (Text("tool_output", "delta", text_of(params.get("delta")), lane=lane, call_id=call_id),)

    # --- the rest --------------------------------------------------------------------------------------

    def _plan_updated(self, params: dict[str, Any]) -> Sequence[Update]:
        lane = self._lane_of(thread := self._thread_of(params))
        return (Plan(plan_items(params.get("plan")), lane), *self._writing.mark(thread, lane))

    def _usage_updated(self, params: dict[str, Any]) -> Sequence[Update]:
        thread, report = self._thread_of(params) or "", object_of(params.get("tokenUsage"))
        known, total = self._totals.get(thread), report.get("total")
        self._totals[thread] = total
        if id_of(params.get("turnId"), "usage") != self._turns.get(thread) or total == known:
            return ()  # an earlier turn's, repeated, or nothing new
        usage = usage_of({snaked(key): value for key, value in object_of(report.get("last")).items()})
        lane = self._lane_of(thread)
        if usage is None:
            return ()
        if lane is None:
            self._used = usage if self._used is None else self._used + usage
        # One model call is over. Nothing of its message can be withdrawn any more, and the next one answers something.
        ended = () if thread in self._writing else (MessageEnd(lane=lane),)
        filled = self._context_of(report) if lane is None else ()
        return (*ended, ModelUsage(usage, lane=lane, whole=True), *filled, *self._writing.mark(thread, lane))

    def _context_of(self, report: dict[str, Any]) -> Sequence[Update]:
        """Return how full the context is, of a report of tokens."""
        tokens, window = (
            as_int(as_dict(report.get("last")).get("totalTokens")),
            as_int(report.get("modelContextWindow")),
        )
        return (ContextUse(tokens, window),) if window else ()

    def _error(self, params: dict[str, Any]) -> Sequence[Update]:
        thread, error = self._thread_of(params), as_dict(params.get("error"))
        lane, message, info = self._lane_of(thread), text_of(error.get("message")), error.get("codexErrorInfo")
        if params.get("willRetry") is not True:
            return (Notice("error", inner_message(message), "error", lane, cause=cause_of(info, message)),)
        self._writing.drop(thread)
        # The text of the broken attempt comes again, under a new item id.
        again = retry(message, text_of(error.get("additionalDetails")), info, lane)
        return (MessageEnd(lane=lane, status="superseded"), again)

    def _limits_updated(self, params: dict[str, Any]) -> Sequence[Update]:
        self._resets_at = reset_of(params.get("rateLimits")) or self._resets_at
        return ()

    def _requested(self, id: Any, method: str, params: dict[str, Any]) -> Sequence[Update]:
        known = isinstance(id, int | str)
        questions = questions_of(id, method, params, self._changes.get(text_of(params.get("itemId")))) if known else []
        if not questions:
            self._send(error={"code": NO_SUCH_METHOD, "message": f"{method} is not supported here"}, id=id)
            return (Unknown(method, _text_in(params)),)
        lane = self._lane_of(self._thread_of(params))
        asked: list[Update] = []
        for number, question in enumerate(questions):
            question.lane = lane
            name = f"{id}" if len(questions) == 1 else f"{id}.{number}"
            self._questions[name] = question
            asked.append(question.as_update(name))
        return asked

    def _resolved(self, params: dict[str, Any]) -> Sequence[Update]:
        """Withdraw the questions of a settled request; we answered it, or its turn was interrupted."""
        request = params.get("requestId")
        settled = [name for name, question in self._questions.items() if question.request == request]
        return [Answer(name, "withdrawn", lane=self._questions.pop(name).lane) for name in settled]


_NOTIFICATIONS: dict[str, Callable[[CodexServer, dict[str, Any]], Sequence[Update]]] = {
    "thread/started": lambda it, params: it._thread_known(as_dict(params.get("thread")), {}, begin=False),
    "turn/started": CodexServer._turn_started,
    "turn/completed": CodexServer._turn_completed,
    "turn/plan/updated": CodexServer._plan_updated,
    "item/started": CodexServer._item_started,
    "item/completed": CodexServer._item_completed,
    "item/agentMessage/delta": lambda it, params: it._delta("text", params),
    "item/plan/delta": lambda it, params: it._delta("text", params),
    "item/reasoning/summaryTextDelta": lambda it, params: it._delta("thinking", params, "summaryIndex"),
    "item/reasoning/textDelta": lambda it, params: it._delta("thinking", params, "contentIndex"),
    "item/commandExecution/outputDelta": CodexServer._output_delta,
    "thread/tokenUsage/updated": CodexServer._usage_updated,
    "error": CodexServer._error,
    "account/rateLimits/updated": CodexServer._limits_updated,
    "serverRequest/resolved": CodexServer._resolved,
}


def _may_ask(request: Request) -> bool:
    """Return whether the policy of a run may be `ON_FAILURE`."""
    return request.allow == "ask" or (request.allow == "own" and request.session_id is not None)


def _text_of_user(item: dict[str, Any]) -> str:
    """Return the text of a message of the user."""
    return "".join(text_of(as_dict(part).get("text")) for part in as_list(item.get("content")))


def _text_in(fields: dict[str, Any]) -> str | None:
    return next((found for key in ("text", "message", "delta", "summary") if (found := text_of(fields.get(key)))), None)
