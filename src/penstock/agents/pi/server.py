"""Dialogue with pi: `pi --mode rpc`.

Commands go in and their answers come out, an object a line, among the events of `pi --mode json`. The process stays
until stdin is closed, and what it has in its queue is lost then, so stdin is closed only once pi has settled. See
`docs/agents/pi.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request, as_json_text, not_taken
from penstock.agents._commands import commands_of
from penstock.agents._json import as_dict, text_of, text_or
from penstock.agents.pi.exec import AgentEnded, MessageStarted, MessageUpdate, Pi, arguments
from penstock.agents.pi.steers import PiSteers
from penstock.core.decoding import well_formed_values
from penstock.events import Option
from penstock.updates import Answer, Failure, Notice, Question, Result, RoundEnd, RunStart, Traits, Unknown, Update

STATE, PROMPT, COMMANDS = "penstock-state", "penstock-prompt", "penstock-commands"
CLEAR, ABORT = "penstock-clear", "penstock-abort"
"""Ids of Penstock's own commands; the id of any other command is that of a message given to pi while it works."""

YES, NO = "yes", "no"
_CONFIRMATIONS = [Option(YES, "Yes", "choice"), Option(NO, "No", "choice")]

_LOOKS = frozenset({"setStatus", "setWidget", "setTitle", "set_editor_text"})
"""What an extension shows in a terminal beside the conversation."""

_CANCELLED: dict[str, Any] = {"cancelled": True}


class Response(msgspec.Struct, tag="response"):
    """Answer to a command."""

    success: bool
    id: str | None = None
    command: str = ""
    data: Any = None
    error: str = ""


class AgentStarted(msgspec.Struct, tag="agent_start"):
    """Start of the work on a prompt, and of each further try."""


class Settled(msgspec.Struct, tag="agent_settled"):
    """End of the work: no retry, no compaction and no message follows."""

    aborted: bool = False


class QueueUpdate(msgspec.Struct, tag="queue_update"):
    """The messages that wait, as a whole."""

    steering: list[str] = []


class ExtensionRequest(msgspec.Struct, tag="extension_ui_request"):
    """Question of an extension, or something that it shows."""

    id: str = ""
    method: str = ""
    title: str | None = None
    message: str | None = None
    options: list[str] = []
    placeholder: str | None = None
    prefill: str | None = None
    notifyType: str = ""


class ExtensionError(msgspec.Struct, tag="extension_error"):
    """Failure of an extension; the run goes on."""

    extensionPath: str = ""
    error: str = ""


class PiServer(Pi):
    """Dialogue, and reader of a recorded one."""

    traits: ClassVar[Traits] = Traits(block_ends=True, asks_for_all=True)
    wire: ClassVar[Any] = Pi.wire | Response | AgentStarted | Settled | QueueUpdate | ExtensionRequest | ExtensionError

    def __init__(self, request: Request | None = None) -> None:
        """Make a dialogue about `request`, or a reader of a recorded one.

        Raises:
            UsageError: the prompt cannot be encoded.
        """
        super().__init__()
        self.over: bool = False
        self._is_live = request is not None
        self._lines: list[bytes] = []
        self._works = self._cancelling = False
        self._ended: list[Update] = []  # the end of the last try; another one may follow
        self._settles = True  # this version reports when it has settled
        self._questions: dict[str, ExtensionRequest] = {}
        self._steers = PiSteers()
        if request is not None:
            images = [{"type": "image", "data": it.base64, "mimeType": it.media_type} for it in request.images]
            self._send(type="get_state", id=STATE)
            given = {"images": images} if images else {}
            self._send(type="prompt", id=PROMPT, message=as_json_text(request.prompt), **given)
            self._send(type="get_commands", id=COMMANDS)  # after the prompt, which does not wait for it

    @staticmethod
    def command(request: Request) -> Command:
        """Return `pi --mode rpc`; the dialogue sends the prompt and its images."""
        return Command(argv=("pi", "--mode", "rpc", *arguments(request)))

    # --- commands to pi ----------------------------------------------------------------------------------

    def take(self) -> bytes:
        """Return the lines to write now, and forget them."""
        lines, self._lines = b"".join(self._lines), []
        return lines

    def _send(self, **command: Any) -> None:
        if self._is_live:
            self._lines.append(msgspec.json.encode(well_formed_values(command)) + b"\n")

    def _respond(self, id: str, response: dict[str, Any]) -> None:
        self._send(type="extension_ui_response", id=id, **response)

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question of an extension by an option or in words; without either it is dismissed.

        Raises:
            KeyError: no such question is waiting.
        """
        asked = self._questions.pop(answer.id)
        words = answer.option if answer.option is not None else answer.text
        if words is None:
            self._respond(answer.id, _CANCELLED)
        elif asked.method == "confirm":
            self._respond(answer.id, {"confirmed": words == YES})
        else:
            self._respond(answer.id, {"value": words})
        return (answer,)

    def steer(self, id: str, text: str) -> Sequence[Update]:
        """Give pi a message in its run: it reads the message before its next model call."""
        if self.over or self._cancelling:
            return (not_taken(id, "the turn has ended"),)
        self._steers.add(id, as_json_text(text))
        self._send_steers()
        return ()

    def _send_steers(self) -> None:
        for id, text in self._steers.to_send():
            self._send(type="steer", id=id, message=text)

    def cancel(self) -> bool:
        """Abort the run. pi would go on with what is in its queue, so that is cleared first."""
        if self.over or not self._works or not self._is_live:
            return False
        if not self._cancelling:
            self._cancelling = True
            for id in self._questions:
                self._respond(id, _CANCELLED)
            self._send(type="clear_queue", id=CLEAR)
            self._send(type="abort", id=ABORT)
        return True

    # --- lines of pi -------------------------------------------------------------------------------------

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        kind = type(event)
        if kind is MessageUpdate:
            return super().read(event)
        if kind is AgentEnded:
            self._ended = [*super().read(event)]
            return () if self._settles or event.willRetry else self._settled(Settled())
        reader = _LINES.get(kind)
        if reader is not None:
            return tuple(reader(self, event))
        if kind is MessageStarted:
            return (*self._message_started(event), *super().read(event))
        return super().read(event)

    def finish(self) -> Sequence[Update]:
        """Return the end of the last try, if pi has ended before it settled."""
        return () if self.over else self._settled(Settled())

    def _began(self, event: AgentStarted) -> Sequence[Update]:
        self._works = True
        self._ended = []
        self._steers.begin()
        self._send_steers()
        return ()

    def _message_started(self, event: MessageStarted) -> Sequence[Update]:
        """Follow the messages of the user, and the model's, which answer them."""
        message = event.message
        if message is None:
            return ()
        if message.role == "user":
            self._steers.seen(text_of(message.content))
        elif message.role == "assistant" and (taken := self._steers.answering()):
            return (RoundEnd(), *taken)
        return ()

    def _queue_changed(self, event: QueueUpdate) -> Sequence[Update]:
        self._steers.queue_changed(event.steering)
        return ()

    def _responded(self, event: Response) -> Sequence[Update]:
        id, data = event.id or "", as_dict(event.data)
        disposition = data.get("disposition")
        if event.command == "get_commands":  # older versions reject it
            return (commands_of(data.get("commands")),)
        if not event.success:
            return self._rejected(event, event.error or "pi rejected it")
        if event.command == "get_state":
            return (RunStart(text_or(data.get("sessionId"), "") or None, text_or(_model_of(data), "") or None),)
        if event.command == "prompt":
            self._settles = event.data is not None  # older versions answer without data
            # If an extension has used the prompt up, no run begins.
            return self._settled(Settled()) if disposition == "handled" else ()
        if event.command == "steer":
            if disposition == "handled":
                return self._steers.handled(id)
            self._steers.queued(id)
        return ()

    def _rejected(self, event: Response, reason: str) -> Sequence[Update]:
        if event.command == "steer":
            return self._steers.rejected(event.id or "", reason)
        if self._works or event.id not in (PROMPT, None):
            return (Notice("error", reason, "warning"),)
        self.over = True
        return (*self._steers.end(), Result(is_error=True, reason=reason))

    def _settled(self, event: Settled) -> Sequence[Update]:
        """Return the end of the run, after the questions and messages that are still open."""
        self.over = True
        withdrawn = [Answer(id, "withdrawn") for id in self._questions]
        self._questions = {}
        ended, self._ended = self._ended, []
        return (*withdrawn, *self._steers.end(), *(_as_result(it) for it in ended))

    # --- extensions --------------------------------------------------------------------------------------

    def _asked(self, event: ExtensionRequest) -> Sequence[Update]:
        if event.method == "notify":
            is_bad = event.notifyType in ("warning", "error")
            return (Notice("status", event.message or "", "warning" if is_bad else "info"),)
        if event.method in _LOOKS:
            return ()
        question = _question(event)
        if question is None or self._cancelling:
            self._respond(event.id, _CANCELLED)  # without an answer the extension would wait for ever
            return () if question is not None else (Unknown(f"extension_ui_request/{event.method}", event.title),)
        self._questions[event.id] = event
        return (question,)

    def _failed(self, event: ExtensionError) -> Sequence[Update]:
        return (Notice("error", f"{event.extensionPath}: {event.error}", "warning"),)


_LINES: dict[type, Callable[[PiServer, Any], Sequence[Update]]] = {
    Response: PiServer._responded,
    AgentStarted: PiServer._began,
    Settled: PiServer._settled,
    QueueUpdate: PiServer._queue_changed,
    ExtensionRequest: PiServer._asked,
    ExtensionError: PiServer._failed,
}


def _model_of(state: dict[str, Any]) -> Any:
    return as_dict(state.get("model")).get("id")


def _as_result(update: Update) -> Update:
    """Return the end of a run as its result: pi has settled, so that a failure is final."""
    if not isinstance(update, Failure):
        return update
    return Result(is_error=True, reason=update.reason, cause=update.cause, resets_at=update.resets_at)


def _question(event: ExtensionRequest) -> Question | None:
    """Return the question of an extension; None if its kind is unknown."""
    parts = (event.title, event.message, event.placeholder, event.prefill)
    text = "\n".join(filter(None, parts))
    if event.method == "confirm":
        return Question(event.id, text, "choice", _CONFIRMATIONS, blocking=True)
    if event.method == "select":
        options = [Option(it, it, "choice") for it in dict.fromkeys(event.options) if it]
        return Question(event.id, text, "choice", options, blocking=True) if options else None
    if event.method in ("input", "editor"):
        return Question(event.id, text, "text", blocking=True, free_text=True)
    return None
