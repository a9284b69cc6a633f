"""Turns the output of any AI coding agent into one clean event stream.

    from penstock import Stream

    stream = Stream("claude")
    for event in stream.feed(data): ...
    for event in stream.close(): ...

The names are imported when they are first used, so that the command starts fast. The two vocabularies are
the modules `penstock.events` and `penstock.updates`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the real one comes with half of the standard library
if TYPE_CHECKING:
    from penstock._version import __version__ as __version__
    from penstock.adapter import Adapter as Adapter
    from penstock.agents.generic.classifier import StreamEventClassifier as StreamEventClassifier
    from penstock.agents.generic.classifier import StreamEventType as StreamEventType
    from penstock.classic import Colors as Colors
    from penstock.classic import ContentBlockState as ContentBlockState
    from penstock.classic import ContentType as ContentType
    from penstock.classic import DeltaAccumulator as DeltaAccumulator
    from penstock.classic import DeltaRenderer as DeltaRenderer
    from penstock.classic import HealthMonitor as HealthMonitor
    from penstock.classic import InBlock as InBlock
    from penstock.classic import NotInBlock as NotInBlock
    from penstock.classic import StreamingSession as StreamingSession
    from penstock.classic import StreamingState as StreamingState
    from penstock.classic import StreamLineError as StreamLineError
    from penstock.classic import TerminalMode as TerminalMode
    from penstock.classic import TextDeltaRenderer as TextDeltaRenderer
    from penstock.classic import ThinkingDeltaRenderer as ThinkingDeltaRenderer
    from penstock.classic import compute_append_only_suffix as compute_append_only_suffix
    from penstock.classic import parse_stream_line as parse_stream_line
    from penstock.core.health import Health as Health
    from penstock.core.normalizer.normalizer import Normalizer as Normalizer
    from penstock.core.normalizer.outcome import Exit as Exit
    from penstock.errors import AgentError as AgentError
    from penstock.errors import AgentFailed as AgentFailed
    from penstock.errors import AgentNotFound as AgentNotFound
    from penstock.errors import ConfigError as ConfigError
    from penstock.errors import PenstockError as PenstockError
    from penstock.errors import TransportError as TransportError
    from penstock.errors import UnknownAgent as UnknownAgent
    from penstock.errors import UsageError as UsageError
    from penstock.run.agent import Agent as Agent
    from penstock.run.agent import StreamingAgent as StreamingAgent
    from penstock.run.agent import agent as agent
    from penstock.run.lifecycle import Limits as Limits
    from penstock.run.result import Result as Result
    from penstock.run.run import Run as Run
    from penstock.sinks.chunks import StreamChunk as StreamChunk
    from penstock.sinks.text.sink import TextSink as TextSink
    from penstock.stream import Stream as Stream
    from penstock.updates import Traits as Traits

_HOME = {
    "Adapter": "penstock.adapter",
    "Agent": "penstock.run.agent",
    "AgentError": "penstock.errors",
    "AgentFailed": "penstock.errors",
    "AgentNotFound": "penstock.errors",
    "Colors": "penstock.classic",
    "ConfigError": "penstock.errors",
    "ContentBlockState": "penstock.classic",
    "ContentType": "penstock.classic",
    "DeltaAccumulator": "penstock.classic",
    "DeltaRenderer": "penstock.classic",
    "Exit": "penstock.core.normalizer.outcome",
    "Health": "penstock.core.health",
    "HealthMonitor": "penstock.classic",
    "InBlock": "penstock.classic",
    "Limits": "penstock.run.lifecycle",
    "Normalizer": "penstock.core.normalizer.normalizer",
    "NotInBlock": "penstock.classic",
    "PenstockError": "penstock.errors",
    "Result": "penstock.run.result",
    "Run": "penstock.run.run",
    "Stream": "penstock.stream",
    "StreamChunk": "penstock.sinks.chunks",
    "StreamEventClassifier": "penstock.agents.generic.classifier",
    "StreamEventType": "penstock.agents.generic.classifier",
    "StreamLineError": "penstock.classic",
    "StreamingAgent": "penstock.run.agent",
    "StreamingSession": "penstock.classic",
    "StreamingState": "penstock.classic",
    "TerminalMode": "penstock.classic",
    "TextDeltaRenderer": "penstock.classic",
    "TextSink": "penstock.sinks.text.sink",
    "ThinkingDeltaRenderer": "penstock.classic",
    "Traits": "penstock.updates",
    "TransportError": "penstock.errors",
    "UnknownAgent": "penstock.errors",
    "UsageError": "penstock.errors",
    "__version__": "penstock._version",
    "agent": "penstock.run.agent",
    "compute_append_only_suffix": "penstock.classic",
    "parse_stream_line": "penstock.classic",
}

__all__ = [
    "Adapter",
    "Agent",
    "AgentError",
    "AgentFailed",
    "AgentNotFound",
    "Colors",
    "ConfigError",
    "ContentBlockState",
    "ContentType",
    "DeltaAccumulator",
    "DeltaRenderer",
    "Exit",
    "Health",
    "HealthMonitor",
    "InBlock",
    "Limits",
    "Normalizer",
    "NotInBlock",
    "PenstockError",
    "Result",
    "Run",
    "Stream",
    "StreamChunk",
    "StreamEventClassifier",
    "StreamEventType",
    "StreamLineError",
    "StreamingAgent",
    "StreamingSession",
    "StreamingState",
    "TerminalMode",
    "TextDeltaRenderer",
    "TextSink",
    "ThinkingDeltaRenderer",
    "Traits",
    "TransportError",
    "UnknownAgent",
    "UsageError",
    "__version__",
    "agent",
    "compute_append_only_suffix",
    "parse_stream_line",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
