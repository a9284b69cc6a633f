"""Trace of whoever asks for a run, as W3C Trace Context writes it: in HTTP headers, and in the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

import msgspec

MAX_STATE_BYTES = 512
"""Length of the longest `tracestate`, as the specification has it."""

_PARENT = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})(?P<span>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-[!-~]*)?"
)
MAX_PARENT_CHARS = 256
"""Length of the longest `traceparent`: that of this version has 55 characters, and later ones may have more."""

_KEY = r"(?:[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_MEMBER = re.compile(_KEY + r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]", re.A)
MAX_MEMBERS = 32


class TraceContext(msgspec.Struct, frozen=True):
    """A span of another program, below which a run belongs."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    is_sampled: bool
    state: str = ""
    """`tracestate` of the other program; "" if there is none that can be used."""

    def headers(self) -> dict[str, str]:
        """Return the headers of a request that belongs to it."""
        parent = f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"
        return {"traceparent": parent, **({"tracestate": self.state} if self.state else {})}


of_request: ContextVar[TraceContext | None] = ContextVar("of_request", default=None)
"""Trace of the HTTP request that is being handled."""


def parsed(parent: str | None, state: str | None = None) -> TraceContext | None:
    """Return the trace of a `traceparent` and its `tracestate`; None if the first is missing or not valid."""
    if parent is None or len(parent) > MAX_PARENT_CHARS:
        return None
    found = _PARENT.fullmatch(parent.strip(" \t"))
    if found is None or (found["version"] == "00" and found["more"]):
        return None
    return TraceContext(found["trace"], found["span"], bool(int(found["flags"], 16) & 1), _state(state or ""))


def of_environment(environ: Mapping[str, str]) -> TraceContext | None:
    """Return the trace of `TRACEPARENT` and `TRACESTATE`."""
    return parsed(environ.get("TRACEPARENT"), environ.get("TRACESTATE"))


def _state(text: str) -> str:
    """Return a `tracestate` without spaces; "" if a part of it is not valid."""
    if len(text) > MAX_STATE_BYTES:
        return ""
    members = [member.strip(" \t") for member in text.split(",")]
    members = [member for member in members if member]
    keys = [member.partition("=")[0] for member in members]
    if len(members) > MAX_MEMBERS or len({*keys}) < len(keys) or not all(map(_MEMBER.fullmatch, members)):
        return ""
    return ",".join(members)
