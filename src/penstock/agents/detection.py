"""Detection of the agent that printed a line, and of inputs that are not streams of events.

`detect` looks at one whole line and returns a name only if its fields are unambiguous; otherwise it returns None, and
the caller tries the next line. The rules are the signs in each agent's facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.agents._facts import OtherOutput, Sign
from penstock.agents.registry import AGENTS

MAX_SCANNED_CHARS = 200_000
"""Characters of text that `explain` looks at. The beginning is enough to recognise a known format."""

ANY_DOTTED = "*.*"
"""Type of a sign that is for every type with a dot."""

Fields = dict[str, Any]


def detect(obj: object) -> str | None:
    """Return the name of the agent that printed this decoded line; None if it could be another's.

    No two agents have a sign for one line, so the facts of the others are not loaded once one fits.
    """
    return next(candidates(obj), None)


def candidates(obj: object) -> Iterator[str]:
    """Yield the names of all agents that have a sign for a decoded line, in the order of the registry."""
    if not isinstance(obj, dict):
        return
    kind = obj.get("type")
    for agent, facts in AGENTS.items():
        for route, chosen in facts.routes.items():
            if any(_is_for(sign, kind) and _fits(sign, obj) for sign in chosen.signs):
                yield agent if route == "exec" or len(facts.routes) == 1 else f"{agent}/{route}"


def _is_for(sign: Sign, kind: object) -> bool:
    if not isinstance(kind, str):
        return not sign.types
    return kind in sign.types or (ANY_DOTTED in sign.types and "." in kind)


_ABSENT = object()


def _at(obj: Fields, path: str) -> Any:
    """Return the value at a path; `_ABSENT` if there is none."""
    value: Any = obj
    for key in path.split("."):
        if not isinstance(value, dict) or (key and key not in value):
            return _ABSENT
        value = value[key] if key else value
    return value


def _fits(sign: Sign, obj: Fields) -> bool:
    if any(_at(obj, path) is _ABSENT for path in sign.has) or any(path in obj for path in sign.lacks):
        return False
    for path, beginning in sign.begins.items():
        text = _at(obj, path)
        if not isinstance(text, str) or not text.startswith(beginning):
            return False
    for path, wanted in sign.equals.items():
        if not _among(_at(obj, path), wanted):
            return False
    if any(_among(_at(obj, path), unwanted) for path, unwanted in sign.differs.items()):
        return False
    return not sign.only or set(obj) <= {"type", *sign.has, *sign.begins}


def _among(value: object, values: tuple[object, ...]) -> bool:
    """Return whether a value is one of several; unlike in Python, 1 is not True."""
    return any(type(value) is type(other) and value == other for other in values)


def explain(obj_or_text: object) -> str | None:
    """Return one line that names the right flag, if the input is a known format but not an event stream.

    Args:
        obj_or_text: a decoded line, or text: the beginning of the input, or all of it.

    Returns:
        None if the input may well be an event stream, or is of no known format.
    """
    if isinstance(obj_or_text, bytes):
        obj_or_text = obj_or_text.decode("utf-8", "replace")
    if isinstance(obj_or_text, str):
        return _explain_text(obj_or_text[:MAX_SCANNED_CHARS].lstrip("\ufeff \t\r\n"))
    if isinstance(obj_or_text, list):
        return _explain_list(obj_or_text)
    return _explain_object(obj_or_text) if isinstance(obj_or_text, dict) else None


PRETTY_JSON = (
    "This is JSON over several lines and not an event stream, which is one JSON object a line: "
    "ask the agent for its streaming format (`--output-format stream-json` with most)."
)
JSON_RPC = (
    "This is JSON-RPC, one direction of a dialogue (ACP, for one) and not an event stream: use the agent's "
    "own streaming output; `penstock --help` lists how each agent is asked for it."
)
SSE = (
    "This is a server's event stream (SSE) and not one JSON object a line: "
    "send the lines' `data:` alone (`curl -N … | sed -n 's/^data: *//p'`)."
)


def stream_flags() -> dict[str, str]:
    """Return the command of each agent that prints its stream of events."""
    return {name: facts.stream for name, facts in AGENTS.items() if facts.stream}


def plain_text() -> str:
    """Return the message for an input that is plain text."""
    return f"this is plain text, not a stream of events: {_way_to_a_stream()}"


def foreign_json() -> str:
    """Return the message for JSON lines without any event of an agent."""
    return f"this is JSON, but not a stream of events of an agent: {_way_to_a_stream()}"


def _way_to_a_stream() -> str:
    agent, flags = next(iter(stream_flags().items()))
    return (
        f'let Penstock start the agent (penstock run {agent} "…"), '
        f'or pipe its stream ({flags} "…" | penstock; other agents: penstock --help)'
    )


def _others() -> Iterator[OtherOutput]:
    return (facts.other_output for facts in AGENTS.values() if facts.other_output is not None)


def _explain_list(values: list[Any]) -> str | None:
    first = values[0] if values else None
    return _explain_event(first) or PRETTY_JSON if isinstance(first, dict) else None


def _explain_event(obj: Fields) -> str | None:
    """Return the flag that the agent of an event needs, if the event came in a list."""
    agent = detect(obj)
    other = AGENTS[agent].other_output if agent is not None and agent in AGENTS else None
    return other.help if other is not None else None


def _explain_object(obj: Fields) -> str | None:
    kind = obj.get("type")
    for other in _others():
        if (
            other.sign is not None
            and (kind in other.sign.types if other.sign.types else "type" not in obj)
            and _fits(other.sign, obj)
        ):
            return other.help
    if "type" in obj or detect(obj) is not None:
        return None
    is_request, is_answer = "method" in obj, "result" in obj
    if "jsonrpc" in obj or ("id" in obj and (is_request or is_answer)) or (is_request and "params" in obj):
        return JSON_RPC
    return None


def _explain_text(text: str) -> str | None:
    if text.startswith(("data:", "event:", "id:", ":")) and "data:" in text:
        return SSE
    text = text.removeprefix("Reading prompt from stdin...\n")
    for other in _others():
        if other.beginning and text.startswith(other.beginning):
            return other.help
    if not text.startswith(("{", "[")):
        return None
    line = text.split("\n", 1)[0]
    for part in (text, line):
        try:
            value = msgspec.json.decode(part)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        found = explain(value)
        if found is not None or part is line:
            return found
        return PRETTY_JSON if "\n" in text.rstrip() else None
    return _explain_part(text, line)


def _explain_part(text: str, line: str) -> str | None:
    """Do as `explain` for JSON that is cut off, or whose first line is little more than an opening bracket."""
    for other in _others():
        if other.sign is not None and not other.sign.types and all(f'"{name}"' in text for name in other.sign.has):
            return other.help
    if line.startswith("[{") and (found := _explain_event(_first_object(line))) is not None:
        return found
    return PRETTY_JSON if line.rstrip() in ("{", "[", "[{") else None


def _first_object(line: str) -> Fields:
    """Return the first object of a list that is cut off; {} if that is not whole either."""
    from json import JSONDecoder  # slow to import, and only a user's mistake needs it

    try:
        first, _ = JSONDecoder().raw_decode(line, 1)
    except (ValueError, RecursionError):
        return {}
    return first if isinstance(first, dict) else {}
