"""Public names of the package, for type checkers. Made by `make reference`: do not edit."""

from penstock._version import __version__ as __version__
from penstock.core.health import Health as Health
from penstock.core.normalizer.outcome import Exit as Exit
from penstock.errors import AgentError as AgentError
from penstock.errors import AgentFailed as AgentFailed
from penstock.errors import AgentNotFound as AgentNotFound
from penstock.errors import ConfigError as ConfigError
from penstock.errors import PenstockError as PenstockError
from penstock.errors import TransportError as TransportError
from penstock.errors import UnknownAgent as UnknownAgent
from penstock.errors import UsageError as UsageError
from penstock.events import BlockEnded as BlockEnded
from penstock.events import BlockRevised as BlockRevised
from penstock.events import BlockStarted as BlockStarted
from penstock.events import CommandsChanged as CommandsChanged
from penstock.events import Delta as Delta
from penstock.events import Event as Event
from penstock.events import Malformed as Malformed
from penstock.events import MessageEnded as MessageEnded
from penstock.events import MessageStarted as MessageStarted
from penstock.events import Notice as Notice
from penstock.events import PlanChanged as PlanChanged
from penstock.events import QuestionAnswered as QuestionAnswered
from penstock.events import QuestionAsked as QuestionAsked
from penstock.events import Replied as Replied
from penstock.events import RunEnded as RunEnded
from penstock.events import RunStarted as RunStarted
from penstock.events import ToolCalled as ToolCalled
from penstock.events import ToolReturned as ToolReturned
from penstock.events import Unknown as Unknown
from penstock.events import UsageReported as UsageReported
from penstock.run.agent import Agent as Agent
from penstock.run.agent import StreamingAgent as StreamingAgent
from penstock.run.agent import agent as agent
from penstock.run.agent import conversation as conversation
from penstock.run.conversation import Conversation as Conversation
from penstock.run.lifecycle import Limits as Limits
from penstock.run.result import Result as Result
from penstock.run.run import Run as Run
from penstock.sinks.chunks import StreamChunk as StreamChunk
from penstock.sinks.text.sink import TextSink as TextSink
from penstock.stream import Stream as Stream
from penstock.testing.conformance import check_adapter as check_adapter

__all__ = [
    "Agent",
    "AgentError",
    "AgentFailed",
    "AgentNotFound",
    "BlockEnded",
    "BlockRevised",
    "BlockStarted",
    "CommandsChanged",
    "ConfigError",
    "Conversation",
    "Delta",
    "Event",
    "Exit",
    "Health",
    "Limits",
    "Malformed",
    "MessageEnded",
    "MessageStarted",
    "Notice",
    "PenstockError",
    "PlanChanged",
    "QuestionAnswered",
    "QuestionAsked",
    "Replied",
    "Result",
    "Run",
    "RunEnded",
    "RunStarted",
    "Stream",
    "StreamChunk",
    "StreamingAgent",
    "TextSink",
    "ToolCalled",
    "ToolReturned",
    "TransportError",
    "Unknown",
    "UnknownAgent",
    "UsageError",
    "UsageReported",
    "__version__",
    "agent",
    "check_adapter",
    "conversation",
]
