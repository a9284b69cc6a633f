"""Fields for tools in JSON formats of agents: calls, their inputs, their results.

A call is spread over the layers of an event: the name in one, the input in another. `bodies_in` adds to each layer the
fields that the others have about the same call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.agents._json import as_dict, as_list, text_or
from penstock.agents.generic.classifier import words
from penstock.agents.generic.fields import FAILED, TOOL_WORDS, WELL, Layer, first

TOOL_NAMES = ("tool_name", "toolName", "tool", "function_name", "toolCallName")
NAMES_OF_TOOLS = ("name", *TOOL_NAMES)
INPUTS = ("input", "arguments", "args", "parameters", "tool_input", "toolInput")
OUTPUTS = (
    "aggregated_output", "output_text", "outputText", "output", "result", "tool_return", "observation", "stdout",
    "content", "text", "response", "message", "value",
)  # fmt: skip
IDS = (
    "tool_call_id", "tool_use_id", "toolCallId", "toolUseId", "call_id", "callId", "callID", "tool_id", "toolId",
)  # fmt: skip
STATES = ("state", "status")
STEPS = ("step_index", "stepIndex", "step_id", "stepId")

SHELLS = frozenset({"shell", "bash", "exec", "execution", "command"})
STARTS = frozenset({"start", "started", "begin", "began", "added", "streaming"})
INPUT_WORDS = frozenset({"input", "arguments", "args", "json", "parameters", "params"})
_SHARED = frozenset({*NAMES_OF_TOOLS, *IDS, *STATES, *STEPS})


def bodies_in(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Return the layers, the innermost first, each with the fields of the outer ones about its call."""
    bodies: list[dict[str, Any]] = []
    shared: dict[str, Any] = {}
    for layer in layers:
        bodies.append({**shared, **layer.body})
        shared.update({key: value for key, value in layer.body.items() if key in _SHARED})
    return bodies[::-1]


def state_in(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the fields of an object that is the state of the event's call; {} if there is none.

    Some agents print a call and its result as one event, with the result in the state.
    """
    states = (layer.body.get(key) for layer in layers for key in STATES)
    return next((state for state in states if isinstance(state, dict)), {})


def blocks_in(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the content blocks and calls that a layer lists: the name of their kind, and their fields."""
    for key in ("content", "tool_calls", "toolCalls", "parts"):
        for block in as_list(body.get(key)):
            if isinstance(block, dict):
                name = text_or(block.get("type"), "")
                yield _unwrapped(block, f"tool/{name}" if "calls" in words(key) else name)


def _unwrapped(block: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    """Merge a block with the object that holds its call or result: `function`, `functionCall`, `toolCall`."""
    for key, value in block.items():
        if isinstance(value, dict) and (words(key) & TOOL_WORDS or (key == "value" and words(name) & TOOL_WORDS)):
            more = {other: field for other, field in block.items() if other not in (key, *STATES)}
            return _unwrapped({**more, **value}, f"{name}/{key}")
    return name, block


def is_call(said: frozenset[str], body: dict[str, Any]) -> bool:
    """Return whether a body is a tool's call, by the event's words and the body's fields."""
    if said & SHELLS and isinstance(body.get("command"), str | list):
        return True
    has_input = any(key in body for key in INPUTS)
    if first(body, TOOL_NAMES) and has_input:
        return True
    return bool(said & TOOL_WORDS) and has_input and bool(first(body, NAMES_OF_TOOLS))


def is_named(said: frozenset[str], body: dict[str, Any]) -> bool:
    """Return whether a body names a tool in an event about tools that has no input of the call yet."""
    return bool(said & TOOL_WORDS) and bool(first(body, NAMES_OF_TOOLS))


_RETURNS = re.compile(r"(?:tool|function|call).*?(?:(result|response|output|return)|end|done|complete|finish)")


def is_return(name: str, body: dict[str, Any]) -> bool:
    """Return whether a body is a tool's result."""
    has_output = any(key in body for key in (*OUTPUTS, "error"))
    said, returns = words(name), _RETURNS.search(name.lower())
    if returns and said & TOOL_WORDS and not said & INPUT_WORDS:
        # The end of a call, without more, is the end of its input.
        return has_output or (returns[1] is not None and bool(first(body, IDS)))
    return has_output and bool(first(body, ("tool_call_id", "tool_use_id", "toolCallId", "call_id")))


def is_over(said: frozenset[str], body: dict[str, Any]) -> bool:
    """Return whether a body that is a call is also its end."""
    if any(body.get(key) is not None for key in ("output", "result", "exit_code", "error")):
        return True
    # A `function_call` that is completed has been written, not made.
    return bool(states_of(body) & (WELL | FAILED)) and not said & (STARTS | INPUT_WORDS | {"request", "function"})


def states_of(body: dict[str, Any]) -> frozenset[str]:
    """Return the words of the state of a call."""
    return words(" ".join(value for key in STATES if isinstance(value := body.get(key), str)))


def input_of(body: dict[str, Any]) -> Any:
    """Return the input of a call, None if it has none."""
    given = next((body[key] for key in INPUTS if body.get(key) is not None), None)
    if given is None and isinstance(body.get("command"), str | list):
        return {"command": body["command"]}
    return given


def input_piece(said: frozenset[str], layers: Sequence[Layer]) -> tuple[str, bool] | None:
    """Return a separate piece of a call's input, and whether it is the whole input."""
    about = bool(said & TOOL_WORDS and said & INPUT_WORDS)
    for layer in layers:
        for key, value in layer.body.items():
            key_words = words(key)
            if not isinstance(value, str):
                continue
            if key == "partial_json" or (key_words & {"delta"} and (about or key_words & INPUT_WORDS)):
                return value, False
            if about and key in INPUTS:
                return value, not said & {"delta"}
    return None


def ids_of(body: dict[str, Any]) -> list[str]:
    """Return the possible ids of a call, the likeliest first. A tool's name is not an id."""
    named = [body.get(key) for key in NAMES_OF_TOOLS]
    ids = [value for key in (*IDS, "id") if (value := first(body, (key,))) and value not in named]
    steps = [body[key] for key in STEPS if type(body.get(key)) is int or first(body, (key,))]
    return ids or [f"step {step}" for step in steps[:1]]


def is_failed(body: dict[str, Any]) -> bool:
    """Return whether a result of a call is a failure."""
    failed = bool(body.get("error")) or body.get("success") is False
    return failed or any(body.get(key) is True for key in ("is_error", "isError")) or bool(states_of(body) & FAILED)


def is_successful(body: dict[str, Any]) -> bool:
    """Return whether a result of a call is said to be a success, and not only to be complete."""
    return body.get("success") is True or any(body.get(key) is False for key in ("is_error", "isError"))


def has_status(body: dict[str, Any]) -> bool:
    """Return whether a result of a call has a field that would report a failure."""
    return bool(states_of(body)) or any(key in body for key in (*_FLAGS, "exit_code", "exitCode"))


_FLAGS = ("error", "success", "is_error", "isError")


def exit_code_of(body: dict[str, Any]) -> Any:
    """Return the exit status of a command."""
    return next((body[key] for key in ("exit_code", "exitCode") if key in body), None)


def output_of(body: dict[str, Any]) -> Any:
    """Return the output of a call."""
    error = as_dict(body.get("error")) or body.get("error")
    return error or next((body[key] for key in OUTPUTS if body.get(key) is not None), None)
