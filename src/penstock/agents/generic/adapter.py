"""Adapter of unknown agents: it reads any JSON object by the names that such formats have in common.

`fields` finds text and roles in the usual places, `tool_fields` tools; `classifier` decides whether a text is a piece,
a snapshot or complete. Such a reader can be wrong, but it loses no text: if nothing was read as text, it shows whatever
looks like prose (`prose`). `docs/agents/generic.md` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.agents._json import compact, text_of
from penstock.agents.generic.calls import CallReader
from penstock.agents.generic.classifier import NO_MORE, StreamEventClassifier, StreamEventType, words
from penstock.agents.generic.fields import (
    ENDS,
    MODEL_ROLES,
    NAME_KEYS,
    STOP_KEYS,
    TOOL_ROLES,
    WHO,
    Found,
    Layer,
    ends_run,
    first,
    flag_of,
    is_reason,
    layers_of,
    message_id_of,
    name_of,
    place_of,
    result_of,
    role_of,
    texts_in,
    usage_of,
    verdict_of,
)
from penstock.agents.generic.prose import Prose
from penstock.agents.generic.repeats import Repeats
from penstock.core.bounded import BoundedDict
from penstock.events import Level
from penstock.updates import (
    Failure,
    MessageEnd,
    MessageStart,
    Mode,
    ModelUsage,
    Notice,
    Place,
    RunStart,
    Text,
    Traits,
    Unknown,
    Update,
)

MAX_DECISIONS = 64
"""Event names whose last verdict is remembered, so that a verdict is reported only once and when it changes."""


class Generic:
    """Adapter of JSON lines in an unknown format.

    Args:
        events: event name to "delta", "snapshot", "complete", "control" or "unknown"; it overrides all guesses.

    Raises:
        ValueError: `events` names no such type.
    """

    name: ClassVar[str] = "generic"
    traits: ClassVar[Traits] = Traits(repair_snapshots=True, regular_end=True, command_status=False)
    wire: ClassVar[Any] = Any

    def __init__(self, events: Mapping[str, str] | None = None) -> None:
        self._overrides = frozenset(events or ())
        self._classifier = StreamEventClassifier(events)
        self._who: dict[str, str] = {}
        self._decisions: BoundedDict[str, StreamEventType] = BoundedDict(MAX_DECISIONS)
        self._calls = CallReader()
        self._repeats = Repeats()
        self._prose: Prose | None = Prose()  # until something was read as text
        self._failed: str | None = None  # an error that nothing has followed
        self._worked = False  # tools were called: a result's text may join that of several rounds

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        if not isinstance(event, dict):
            return (Unknown(wire_type=type(event).__name__),)
        layers = layers_of(event)
        name = name_of(layers)
        updates: list[Update] = []
        self._introduce(layers, updates)
        role = role_of(name, layers)
        tools: list[Update] = []
        only_tools = self._calls.read(name, role, layers, tools) or (tools and not texts_in(name, layers))
        self._worked = self._worked or bool(tools)
        if tools:
            self._failed = None
            self._repeats.settle()
        if role not in MODEL_ROLES and role not in TOOL_ROLES:
            return [*updates, *tools, *(Notice("user", found.text) for found in texts_in(name, layers))]
        texts = texts_in(name, layers)
        if only_tools:
            self._content(name, role, layers, [found for found in texts if found.kind == "thinking"], updates)
        elif not self._trouble(name, role, layers, updates):
            self._start(name, layers, updates)
            self._content(name, role, layers, texts, updates)
        updates += tools
        if self._prose is not None and not updates and not texts:
            self._prose.add(event)
        self._end(name, layers, updates)
        if not updates and self._judge(name) is StreamEventType.UNKNOWN:
            updates.append(Unknown(wire_type=name or None))
        return updates

    def finish(self) -> Sequence[Update]:
        """Return unread fields that look like text, if nothing was read as text in the whole stream."""
        if self._prose is None:
            return ()
        texts, self._prose = self._prose.texts(), None
        if not texts:
            return ()
        reason = "no field of a known name had text: what looks like prose is shown as it is"
        return (Notice("decision", reason), Text("text", "final", "".join(texts)), MessageEnd())

    # --- the agent -------------------------------------------------------------------------------------

    def _introduce(self, layers: Sequence[Layer], updates: list[Update]) -> None:
        """Report the agent's session, model and directory, if a line changes them."""
        said: dict[str, str] = {}
        for field, keys in WHO.items():
            value = next((found for layer in layers if (found := first(layer.body, keys))), "")
            if value and self._who.get(field) != value:
                said[field] = self._who[field] = value
        if said:
            updates.append(RunStart(session_id=said.get("session_id"), model=said.get("model"), cwd=said.get("cwd")))

    # --- errors ----------------------------------------------------------------------------------------

    def _trouble(self, name: str, role: str, layers: Sequence[Layer], updates: list[Update]) -> bool:
        """Report errors and remarks of the agent. Return True if the event is one."""
        if ends_run(name, layers):
            return False
        said = words(name)
        error = next((layer.body["error"] for layer in layers if layer.body.get("error")), None)
        if error is not None or said & {"error", "fatal", "exception", "failed", "failure"}:
            text = text_of(error) if error is not None else "".join(found.text for found in texts_in(name, layers))
            text = text or next((why for layer in layers if (why := first(layer.body, _WHY))), "")
            text = text or name or compact(layers[0].body)
            updates += (Notice("error", text, "error"), Failure(text))
            self._failed = text
            return True
        if not role and said & {"warning", "warn", "log", "info", "notice", "debug", "status"}:
            level: Level = "warning" if said & {"warning", "warn"} else "info"
            notices = [Notice("status", found.text, level) for found in texts_in(name, layers)]
            updates += notices
            return bool(notices)
        return False

    # --- text ------------------------------------------------------------------------------------------

    def _start(self, name: str, layers: Sequence[Layer], updates: list[Update]) -> None:
        said = words(name)
        if "message" in said and said & {"start", "started", "begin", "created"}:
            updates.append(MessageStart(message_id_of(layers)))

    def _content(
        self, name: str, role: str, layers: Sequence[Layer], texts: list[Found], updates: list[Update]
    ) -> None:
        """Report text and thoughts."""
        found = self._news(name, layers, texts)
        flagged = name + flag_of(layers)
        message = message_id_of(layers)
        whole = bool(role or words(name) & {"message", "assistant"}) and message is None
        for each in found:
            place = place_of(name, layers)
            verdict = self._judge(f"{flagged}.delta" if each.piece else flagged, name, layers, each, place)
            if place is None:
                verdict = self._beside_the_last(verdict, each, name, updates)
            self._explain(name, verdict, updates)
            mode = _MODES.get(verdict)
            if mode is None:
                updates.append(Notice("status", each.text))
                continue
            self._prose = self._failed = None
            self._repeats.add(each, name, mode)
            updates.append(Text(each.kind, mode, each.text, place=place, message=message))
            whole = whole and mode == "final" and place is None
        if found and whole:
            self._message_end(None, updates)  # not one block of several: the message itself

    def _beside_the_last(
        self, verdict: StreamEventType, found: Found, name: str, updates: list[Update]
    ) -> StreamEventType:
        """Correct a verdict by the block that is open: a text that only seems whole must not replace another."""
        if not found.piece and self._repeats.is_whole(found, name):
            return StreamEventType.COMPLETE
        if verdict is not StreamEventType.COMPLETE or self._classifier.reason != NO_MORE:
            return verdict
        relation = self._repeats.relation(found, name)
        if relation == "piece":
            return StreamEventType.DELTA
        if relation == "other":
            self._message_end(None, updates)
        return verdict

    def _news(self, name: str, layers: Sequence[Layer], found: list[Found]) -> list[Found]:
        """Return those of the texts that are new."""
        if not ends_run(name, layers):
            return [each for each in found if not self._repeats.is_again(each, name)]
        error = next((layer.body["error"] for layer in layers if layer.body.get("error")), None)
        if verdict_of(name, layers)[0] != "ok" and is_reason(found, error):
            return []  # the reason for the failure; `_end` reports it
        if self._repeats.any_text and not self._goes_on():
            return [each for each in found if each.piece]  # `_end` puts the whole text into the result
        return [each for each in found if each.piece or not self._repeats.is_end(each)]

    def _goes_on(self) -> bool:
        """Return whether a result's text can only belong to the open block."""
        return self._classifier.is_accumulating("text:None") and not self._worked

    def _judge(
        self,
        flagged: str,
        name: str = "",
        layers: Sequence[Layer] = (),
        found: Found | None = None,
        place: Place = None,
    ) -> StreamEventType:
        """Return the classifier's verdict. Events that the configuration names are classified by that name."""
        outer = next((first(layer.body, NAME_KEYS) for layer in layers), "")
        asked = next((each for each in (name, outer) if each in self._overrides), flagged)
        if found is None:
            return self._classifier.classify(asked)
        return self._classifier.classify(asked, found.text, f"{found.kind}:{place}")

    def _explain(self, name: str, verdict: StreamEventType, updates: list[Update]) -> None:
        """Report the reason of a verdict, if it is the first for a name or differs from the last."""
        if self._decisions.get(name) is verdict:
            return
        self._decisions[name] = verdict
        text = f"{name or 'an event without a name'} is read as {verdict.value}: {self._classifier.reason}"
        updates.append(Notice("decision", text))

    # --- ends ------------------------------------------------------------------------------------------

    def _end(self, name: str, layers: Sequence[Layer], updates: list[Update]) -> None:
        """Report the end of a message or of the run, and the usage."""
        usage = next((usage for layer in layers if (usage := usage_of(layer.body)) is not None), None)
        if ends_run(name, layers):
            result = result_of(name, layers, usage)
            if self._failed is not None and not result.is_error and result.reply is None:
                # The end after an error, with nothing between and no reply, is not a success.
                result = msgspec.structs.replace(result, is_error=True, reason=self._failed)
            updates += self.finish() if not result.is_error else ()
            updates.append(result)
            return
        if usage is not None:
            updates.append(ModelUsage(usage))
        said = words(name)
        ends = bool(said & {"message", "turn", "step"} and said & (ENDS | {"stop"}))
        keys = STOP_KEYS if ends else STOP_KEYS[:-1]  # a message that is being written may have a `stopReason`
        reason = next((found for layer in layers if (found := first(layer.body, keys))), "")
        if ends or (reason and "start" not in said):
            self._message_end(reason or None, updates)

    def _message_end(self, reason: str | None, updates: list[Update]) -> None:
        self._calls.settle()
        self._repeats.settle()
        self._classifier.settle()
        updates.append(MessageEnd(stop_reason=reason))


_WHY = ("errorText", "error_text", "error_message", "errorMessage", "reason", "detail", "description")
"""Fields with the reason, in an error event without an `error` and without text."""

_MODES: dict[StreamEventType, Mode] = {
    StreamEventType.DELTA: "delta",
    StreamEventType.SNAPSHOT: "snapshot",
    StreamEventType.COMPLETE: "final",
    StreamEventType.UNKNOWN: "delta",
}
