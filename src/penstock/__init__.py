"""Turns the output of any AI coding agent into one clean event stream.

    from penstock import Stream

    stream = Stream("claude")
    for event in stream.feed(data): ...
    for event in stream.close(): ...

A name is imported when it is first used, so that the command starts fast. Type checkers read `__init__.pyi`, which
`make reference` writes from the table below.
"""

from __future__ import annotations

_EXPORTS = {
    "penstock._version": ("__version__",),
    "penstock.core.health": ("Health",),
    "penstock.core.normalizer.outcome": ("Exit",),
    "penstock.errors": (
        "AgentError",
        "AgentFailed",
        "AgentNotFound",
        "ConfigError",
        "PenstockError",
        "TransportError",
        "UnknownAgent",
        "UsageError",
    ),
    "penstock.events": (
        "BlockEnded",
        "BlockRevised",
        "BlockStarted",
        "CommandsChanged",
        "Delta",
        "Event",
        "Malformed",
        "MessageEnded",
        "MessageStarted",
        "Notice",
        "PlanChanged",
        "QuestionAnswered",
        "QuestionAsked",
        "Replied",
        "RunEnded",
        "RunStarted",
        "ToolCalled",
        "ToolReturned",
        "Unknown",
        "UsageReported",
    ),
    "penstock.run.agent": ("Agent", "StreamingAgent", "agent", "conversation"),
    "penstock.run.conversation": ("Conversation",),
    "penstock.run.lifecycle": ("Limits",),
    "penstock.run.result": ("Result",),
    "penstock.run.run": ("Run",),
    "penstock.sinks.chunks": ("StreamChunk",),
    "penstock.sinks.text.sink": ("TextSink",),
    "penstock.stream": ("Stream",),
    "penstock.testing.conformance": ("check_adapter",),
}
"""Public names of the package, by the module that defines them."""

_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
