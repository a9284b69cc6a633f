"""What an agent does now: its open calls with the output so far, and its plan.

A pure fold of the events of the running turn, for those who look closer while they wait. The details of the turn have
all of it; `docs/gateway-api.md` has the public format.
"""

from __future__ import annotations

import msgspec

from penstock import events as ev
from penstock.chat.history.items import Clip
from penstock.core.bounded import BoundedDict

MAX_CALLS = 32
"""Number of open calls: more than an agent has at once. An older one, whose result may never come, is forgotten."""

MAX_OUTPUT_CHARS = 20_000
"""Characters of the output of a call, from both of its ends: as many as in the details."""


class RunningCall(msgspec.Struct, omit_defaults=True):
    """Call of a tool that has no result yet."""

    title: str
    name: str
    tool_kind: ev.ToolKind
    at: int
    """Time at which it was called, in milliseconds since 1970."""
    output: str = ""
    """Output so far, if the agent reports it before the result."""
    shortened: int = 0
    """Number of characters that are left out of the output."""


class AgentActivity(msgspec.Struct):
    """What the agent of a running turn does now; of another turn, nothing."""

    calls: list[RunningCall] = []
    plan: list[ev.PlanItem] = []
    """Newest plan of the agent, with all of its items."""


class ActivityFold:
    """Fold of the events of one run to what the agent does now."""

    def __init__(self) -> None:
        self.plan: list[ev.PlanItem] = []
        """Newest plan of the agent itself; those of its sub-agents are in the details."""
        self._calls: BoundedDict[str, RunningCall] = BoundedDict(MAX_CALLS)
        self._outputs: BoundedDict[str, Clip] = BoundedDict(MAX_CALLS)
        self._blocks: BoundedDict[int, str] = BoundedDict(MAX_CALLS)  # blocks of output, with their call

    def take(self, event: ev.Event, at: int) -> None:
        """Apply the next event, of this time in milliseconds since 1970."""
        if isinstance(event, ev.Delta | ev.BlockRevised):
            if event.kind == "tool_output":
                self._print(event)
        elif isinstance(event, ev.ToolCalled):
            self._calls[event.call_id] = RunningCall(event.title, event.name, event.tool_kind, at)
        elif isinstance(event, ev.ToolReturned):
            self._calls.pop(event.call_id, None)
            self._outputs.pop(event.call_id, None)
        elif isinstance(event, ev.PlanChanged):
            if event.parent is None:
                self.plan = event.items
        elif isinstance(event, ev.BlockStarted) and event.kind == "tool_output" and event.call_id is not None:
            self._blocks[event.block] = event.call_id
            self._outputs[event.call_id] = Clip(MAX_OUTPUT_CHARS)

    def _print(self, event: ev.Delta | ev.BlockRevised) -> None:
        output = self._outputs.get(self._blocks.get(event.block, ""))
        if output is not None:
            (output.add if isinstance(event, ev.Delta) else output.set)(event.text)

    def now(self) -> AgentActivity:
        """Return what the agent does now."""
        calls = []
        for call_id, call in self._calls.items():
            output = self._outputs.get(call_id)
            text, shortened = ("", 0) if output is None else output.cut(MAX_OUTPUT_CHARS)
            calls.append(RunningCall(call.title, call.name, call.tool_kind, call.at, text, shortened))
        return AgentActivity(calls, self.plan)
