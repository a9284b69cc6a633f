"""Calls and their results in a stream of unknown format: the call that an event belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.agents._edits import path_of, proposed, unified
from penstock.agents._json import as_int, parsed, text_of
from penstock.agents.generic.classifier import words
from penstock.agents.generic.fields import ENDS, TOOL_ROLES, TOOL_WORDS, Found, Layer, first, index_of, texts_in
from penstock.agents.generic.tool_fields import (
    IDS,
    NAMES_OF_TOOLS,
    STARTS,
    blocks_in,
    bodies_in,
    exit_code_of,
    has_status,
    ids_of,
    input_of,
    input_piece,
    is_call,
    is_failed,
    is_named,
    is_over,
    is_return,
    is_successful,
    output_of,
    state_in,
)
from penstock.core.bounded import BoundedDict
from penstock.core.tool_titles import tool_kind
from penstock.updates import BlockStart, Notice, Text, ToolCall, ToolReturn, Update

MAX_OPEN = 256
"""Number of calls without a result that are remembered, to find the one that an event without an id belongs to."""


ASKS = frozenset({"approval", "permission"})
"""Words in the names of events about the permission for a call."""


class CallReader:
    """Reader of the tools in an event."""

    def __init__(self) -> None:
        self._inputs: dict[Any, str] = {}  # place of a streamed input (index, item or call id) to call id
        # Calls without a result: id to name and input.
        self._open: BoundedDict[str, tuple[str, Any]] = BoundedDict(MAX_OPEN)
        self._count = 0
        self._last = ""

    def settle(self) -> None:
        """Forget the streamed inputs of the message that has ended."""
        self._inputs.clear()

    def read(self, name: str, role: str, layers: Sequence[Layer], updates: list[Update]) -> bool:
        """Read calls and results. Return True if the event contains nothing else."""
        said = words(name)
        if (piece := input_piece(said, layers)) is not None:
            self._more_input(layers, *piece, updates)
            return True
        bodies, state = bodies_in(layers), state_in(layers)
        if said & ASKS:  # the call is reported beside it, and what was answered is not its result
            tool = next((found for body in bodies if (found := first(body, NAMES_OF_TOOLS))), "a call")
            updates.append(Notice("permission", f"permission for {tool}"))
            return True
        place = next((index for layer in layers if (index := index_of(layer.body)) is not None), None)
        for body in bodies:
            returned, called = role in TOOL_ROLES or is_return(name, body), is_call(said, body)
            if called:
                self._call(said, body, place, updates)
            whole = {**body, **state} if called else body
            if returned or (called and is_over(said, whole)):
                self._return(whole, updates)
            if called or returned:
                return True
        if said & TOOL_WORDS or any(first(body, IDS) in self._open for body in bodies):
            return self._loose(said, bodies, texts_in(name, layers), place, updates)
        return self._blocks(layers, updates) and not texts_in(name, layers)

    def _loose(
        self,
        said: frozenset[str],
        bodies: Sequence[dict[str, Any]],
        texts: Sequence[Found],
        place: int | None,
        updates: list[Update],
    ) -> bool:
        """Read an event about tools that is neither call nor result: it names the call, or has some of its output."""
        named = [body for body in bodies if is_named(said, body)]
        if named:
            self._call(said, named[0], place, updates)
        elif self._last:
            updates += (Text("tool_output", "delta", each.text, call_id=self._last) for each in texts)
        return bool(named or self._last)

    def _blocks(self, layers: Sequence[Layer], updates: list[Update]) -> bool:
        count = len(updates)
        for layer in layers:
            for name, block in blocks_in(layer.body):
                said = words(name)
                if is_return(name, block):
                    self._return(block, updates)
                elif is_call(said, block) or (said & TOOL_WORDS and input_of(block) is not None):
                    self._call(said, block, index_of(block), updates)
        return len(updates) > count

    def _call(self, said: frozenset[str], body: dict[str, Any], place: int | None, updates: list[Update]) -> None:
        name = first(body, NAMES_OF_TOOLS)
        given = input_of(body)
        if not name and "command" not in body:  # a piece of an input whose head came before
            self._append(self._inputs.get(place), given, "delta", updates)
            return
        kind = first(body, ("type", "kind"))
        name = name or (kind if not words(kind) & (STARTS | ENDS) else "") or "command"
        value = parsed(given)
        call_id = next(iter(ids_of(body)), "") or self._unnamed(name, value)
        streams = place is not None or bool(said & STARTS)
        if streams and (value is None or value == {} or isinstance(value, str)) and "command" not in body:
            keys = (place, call_id, body.get("id"))
            self._inputs.update({key: call_id for key in keys if isinstance(key, str | int)})
            self._remember(call_id, name, value)
            updates.append(BlockStart("tool_input", place=f"input {call_id}", call_id=call_id, name=name))
            self._append(call_id, given, "delta", updates)
        else:
            self._remember(call_id, name, value)
            changes = proposed(value) if tool_kind(name) == "edit" else None
            updates.append(ToolCall(call_id, name, value, changes=changes))

    def _remember(self, call_id: str, name: str, value: Any) -> None:
        self._last = call_id
        self._open[call_id] = (name, value)

    def _unnamed(self, name: str, value: Any) -> str:
        """Return an id for a call without one: that of the open call with the same content, else a new number."""
        for call_id, (other, given) in self._open.items():
            if other == name and (value is None or value == given):
                return call_id
        self._count += 1
        return f"call_{self._count}"

    def _more_input(self, layers: Sequence[Layer], piece: str, whole: bool, updates: list[Update]) -> None:
        keys = [value for layer in layers for key in ("item_id", "itemId") if (value := first(layer.body, (key,)))]
        keys += [each for body in bodies_in(layers) for each in ids_of(body)]
        places = [index for layer in layers if (index := index_of(layer.body)) is not None]
        call_id = next((self._inputs[key] for key in (*keys, *places) if key in self._inputs), None)
        self._append(call_id, piece, "final" if whole else "delta", updates)

    def _append(self, call_id: str | None, piece: Any, mode: Any, updates: list[Update]) -> None:
        if call_id is not None and isinstance(piece, str) and piece:
            updates.append(Text("tool_input", mode, piece, place=f"input {call_id}", call_id=call_id))

    def _return(self, body: dict[str, Any], updates: list[Update]) -> None:
        name, ids = first(body, NAMES_OF_TOOLS) or None, ids_of(body)
        names = {other for other, _ in self._open.values()}
        call_id = next((each for each in ids if each in self._open), "")
        call_id = call_id or next((each for each in ids if each not in names), "")
        call_id = call_id or next((key for key, (other, _) in self._open.items() if other in (name, *ids)), self._last)
        if not call_id:
            self._count += 1
            call_id = f"call_{self._count}"
        _, given = self._open.pop(call_id, ("", None))
        text, changes = text_of(output_of(body)), unified(path_of(given), body)
        failed, code = is_failed(body), as_int(exit_code_of(body))
        status = True if is_successful(body) else None
        if not has_status(body):  # the text may be about a failure: what the call proposed is no change
            status, changes = False, changes or []
        updates.append(ToolReturn(call_id, text, failed, code, name, changes=changes, status_reported=status))
