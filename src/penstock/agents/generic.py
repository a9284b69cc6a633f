"""Agents that were never seen: any JSON object, read by the names that such formats have in common.

`penstock.agents._fields` finds text, roles and tools where everybody puts them, and `penstock.classifier`
decides whether a text is a piece, all so far, or whole. A reader of that kind can be wrong; it loses no
text when it is. `docs/agents/generic.md` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock.agents._fields import (
    CALL_IDS,
    ENDS,
    FAILED,
    INPUTS,
    MODEL_ROLES,
    NAME_KEYS,
    NAMES_OF_TOOLS,
    OUTPUTS,
    TOOL_ROLES,
    WHO,
    Found,
    blocks_in,
    ends_run,
    first,
    flag_of,
    index_of,
    is_call,
    is_return,
    layers_of,
    message_id_of,
    name_of,
    parsed,
    place_of,
    result_of,
    role_of,
    texts_in,
    usage_of,
)
from penstock.agents._values import as_dict, as_int, compact, text_of, text_or
from penstock.classifier import StreamEventClassifier, StreamEventType, words
from penstock.events import Level
from penstock.updates import (
    BlockStart,
    Failure,
    MessageEnd,
    MessageStart,
    Mode,
    ModelUsage,
    Notice,
    Place,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
)

MAX_DECISIONS = 64
"""Event names whose last verdict is remembered, so that a verdict is told once and when it changes."""


class Generic:
    """Reads JSON lines of an unknown make.

    Args:
        events: event name to "delta", "snapshot", "complete", "control" or "unknown", over all guessing.

    Raises:
        ValueError: `events` names no such type.
    """

    name: ClassVar[str] = "generic"
    traits: ClassVar[Traits] = Traits(armed=True, regular_end=True)
    wire: ClassVar[Any] = Any

    def __init__(self, events: Mapping[str, str] | None = None) -> None:
        self._overrides = frozenset(events or ())
        self._classifier = StreamEventClassifier(events)
        self._who: dict[str, str] = {}
        self._decisions: dict[str, StreamEventType] = {}
        self._inputs: dict[Place, str] = {}  # where a call's input is streamed: place to call id
        self._calls = 0
        self._repeats = False  # text was read: a result's text says it again
        self._worked = False  # tools were called: a result's text may join that of several rounds

    def read(self, event: Any) -> Sequence[Update]:
        """The updates that one line means."""
        if not isinstance(event, dict):
            return (Unknown(wire_type=type(event).__name__),)
        layers = layers_of(event)
        name = name_of(layers)
        updates: list[Update] = []
        self._introduce(layers, updates)
        role = role_of(name, layers)
        tools: list[Update] = []
        only_tools = self._tools(name, role, layers, tools)
        if role not in MODEL_ROLES and role not in TOOL_ROLES:
            self._worked = self._worked or bool(tools)
            return [*updates, *tools, *(Notice("user", found.text) for found in texts_in(name, layers))]
        if not only_tools and not self._trouble(name, layers, updates):
            self._start(name, layers, updates)
            self._content(name, role, layers, updates)
        updates += tools
        self._worked = self._worked or bool(tools)
        self._end(name, layers, updates)
        if not updates and self._judge(name) is StreamEventType.UNKNOWN:
            updates.append(Unknown(wire_type=name or None))
        return updates

    # --- who ---------------------------------------------------------------------------------------

    def _introduce(self, layers: list[dict[str, Any]], updates: list[Update]) -> None:
        """Who the agent is, where a line says it anew."""
        said: dict[str, str] = {}
        for field, keys in WHO.items():
            value = next((found for layer in layers if (found := first(layer, keys))), "")
            if value and self._who.get(field) != value:
                said[field] = self._who[field] = value
        if said:
            updates.append(RunStart(session_id=said.get("session_id"), model=said.get("model"), cwd=said.get("cwd")))

    # --- tools -------------------------------------------------------------------------------------

    def _tools(self, name: str, role: str, layers: list[dict[str, Any]], updates: list[Update]) -> bool:
        """Calls and results. True where the event is about nothing else."""
        said = words(name)
        place = next((index for layer in layers if (index := index_of(layer)) is not None), None)
        for layer in reversed(layers):
            returned = bool(role in TOOL_ROLES or is_return(said, layer))
            called = is_call(said, layer)
            if called:
                self._call(layer, place, updates)
            if returned or (called and any(layer.get(key) is not None for key in ("output", "result", "exit_code"))):
                self._return(layer, updates)
            if called or returned:
                return True
        if self._input_piece(layers, place, updates):
            return True
        count = len(updates)
        for layer in layers:
            for block in blocks_in(layer):
                said = words(text_or(block.get("type"), ""))
                if "function" in block or is_call(said, block):
                    self._call(block, index_of(block), updates)
                elif is_return(said, block):
                    self._return(block, updates)
        return len(updates) > count and not texts_in(name, layers)

    def _call(self, body: dict[str, Any], place: Place, updates: list[Update]) -> None:
        inner = as_dict(body.get("function")) or body
        name = first(inner, NAMES_OF_TOOLS)
        given = next((inner[key] for key in INPUTS if inner.get(key) is not None), None)
        if given is None and isinstance(body.get("command"), str):
            name, given = name or first(body, NAME_KEYS), {"command": body["command"]}
        if not name:  # a piece of an input whose head came before
            self._more_input(place, given, updates)
            return
        call_id = self._call_id(body)
        value = parsed(given)
        if place is not None and (value is None or value == {} or isinstance(value, str)):
            self._inputs[place] = call_id
            updates.append(BlockStart("tool_input", place=f"input {place}", call_id=call_id, name=name))
            self._more_input(place, given, updates)
        else:
            updates.append(ToolCall(call_id, name, value))

    def _input_piece(self, layers: list[dict[str, Any]], place: Place, updates: list[Update]) -> bool:
        """A piece of a call's input that stands alone."""
        piece = next((layer["partial_json"] for layer in layers if "partial_json" in layer), None)
        if piece is None:
            return False
        self._more_input(place, piece, updates)
        return True

    def _more_input(self, place: Place, piece: Any, updates: list[Update]) -> None:
        call_id = self._inputs.get(place)
        if call_id is not None and isinstance(piece, str) and piece:
            updates.append(Text("tool_input", "delta", piece, place=f"input {place}", call_id=call_id))

    def _return(self, body: dict[str, Any], updates: list[Update]) -> None:
        error = body.get("error")
        value = error or next((body[key] for key in OUTPUTS if body.get(key) is not None), None)
        failed = bool(error) or body.get("success") is False or body.get("is_error") is True
        failed = failed or body.get("isError") is True or text_or(body.get("status"), "").lower() in FAILED
        code = next((body[key] for key in ("exit_code", "exitCode") if key in body), None)
        name = first(body, NAMES_OF_TOOLS) or None
        updates.append(ToolReturn(self._call_id(body, new=False), text_of(value), failed, as_int(code), name))

    def _call_id(self, body: dict[str, Any], new: bool = True) -> str:
        """The id of a call; without one they are counted, and a result belongs to the last call."""
        given = first(body, CALL_IDS)
        if given:
            return given
        if new or not self._calls:
            self._calls += 1
        return f"call_{self._calls}"

    # --- trouble -----------------------------------------------------------------------------------

    def _trouble(self, name: str, layers: list[dict[str, Any]], updates: list[Update]) -> bool:
        """Errors and remarks of the agent. True where the event is one."""
        if ends_run(name, layers):
            return False
        said = words(name)
        error = next((layer["error"] for layer in layers if layer.get("error")), None)
        if error is not None or said & {"error", "fatal", "exception", "failed", "failure"}:
            text = text_of(error) if error is not None else "".join(found.text for found in texts_in(name, layers))
            text = text or name or compact(layers[0])
            updates += (Notice("error", text, "error"), Failure(text))
            return True
        if said & {"warning", "warn", "log", "info", "notice", "debug", "status"}:
            level: Level = "warning" if said & {"warning", "warn"} else "info"
            told = [Notice("status", found.text, level) for found in texts_in(name, layers)]
            updates += told
            return bool(told)
        return False

    # --- text --------------------------------------------------------------------------------------

    def _start(self, name: str, layers: list[dict[str, Any]], updates: list[Update]) -> None:
        said = words(name)
        if "message" in said and said & {"start", "started", "begin", "created"}:
            updates.append(MessageStart(message_id_of(layers)))

    def _content(self, name: str, role: str, layers: list[dict[str, Any]], updates: list[Update]) -> None:
        """Text and thoughts."""
        found = texts_in(name, layers)
        if ends_run(name, layers) and self._repeats and not self._goes_on():
            found = [each for each in found if each.piece]  # `_end` gives the whole to the result
        flagged = name + flag_of(layers)
        message = message_id_of(layers)
        whole = bool(role or words(name) & {"message", "assistant"}) and message is None
        for each in found:
            place = place_of(name, layers)
            verdict = self._judge(f"{flagged}.delta" if each.piece else flagged, name, layers, each, place)
            self._explain(name, verdict, updates)
            mode = _MODES.get(verdict)
            if mode is None:
                updates.append(Notice("status", each.text))
                continue
            self._repeats = self._repeats or each.kind == "text"
            updates.append(Text(each.kind, mode, each.text, place=place, message=message))
            whole = whole and mode == "final" and place is None
        if found and whole:
            self._message_end(None, updates)  # not one block of several: the message itself

    def _goes_on(self) -> bool:
        """Whether a result's text can only be that of the block that is still being written."""
        return self._classifier.is_accumulating("text:None") and not self._worked

    def _judge(
        self,
        flagged: str,
        name: str = "",
        layers: Sequence[dict[str, Any]] = (),
        found: Found | None = None,
        place: Place = None,
    ) -> StreamEventType:
        """The classifier's verdict. What the configuration names is asked for by that name."""
        outer = next((first(layer, NAME_KEYS) for layer in layers), "")
        asked = next((each for each in (name, outer) if each in self._overrides), flagged)
        if found is None:
            return self._classifier.classify(asked)
        return self._classifier.classify(asked, found.text, f"{found.kind}:{place}")

    def _explain(self, name: str, verdict: StreamEventType, updates: list[Update]) -> None:
        """Say why, where a name is first judged or judged otherwise than before."""
        if self._decisions.get(name) is verdict:
            return
        self._decisions[name] = verdict
        if len(self._decisions) > MAX_DECISIONS:
            del self._decisions[next(iter(self._decisions))]
        told = f"{name or 'an event without a name'} is read as {verdict.value}: {self._classifier.reason}"
        updates.append(Notice("decision", told))

    # --- ends --------------------------------------------------------------------------------------

    def _end(self, name: str, layers: list[dict[str, Any]], updates: list[Update]) -> None:
        """The end of a message or of the run, and what was used."""
        usage = next((usage for layer in layers if (usage := usage_of(layer)) is not None), None)
        if ends_run(name, layers):
            updates.append(result_of(name, layers, usage))
            return
        if usage is not None:
            updates.append(ModelUsage(usage))
        reason = next((found for layer in layers if (found := first(layer, ("finish_reason", "stop_reason")))), "")
        said = words(name)
        if (reason and "start" not in said) or (said & {"message", "turn", "step"} and said & (ENDS | {"stop"})):
            self._message_end(reason or None, updates)

    def _message_end(self, reason: str | None, updates: list[Update]) -> None:
        self._inputs.clear()
        self._classifier.settle()
        updates.append(MessageEnd(stop_reason=reason))


_MODES: dict[StreamEventType, Mode] = {
    StreamEventType.DELTA: "delta",
    StreamEventType.SNAPSHOT: "snapshot",
    StreamEventType.COMPLETE: "final",
    StreamEventType.UNKNOWN: "delta",
}
