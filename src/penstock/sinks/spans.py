"""A run as spans and metrics of OpenTelemetry, by its conventions for generative AI.

The times of spans are milliseconds since the start of the run. Texts of a run, such as the arguments of tools, are part
of them only on request. Names of attributes without `gen_ai.` are the project's own, for what the conventions lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from penstock import events as ev
from penstock.sinks.sanitize import clean_line

MAX_CALLS = 1_000
"""Calls of one run that get a span, so that its memory is bounded; the others are counted."""

MAX_NAME_CHARS = 100
"""Characters of a name that comes from the agent."""

MAX_CONTENT_CHARS = 16_000
"""Characters of each text that is part of a span on request: collectors reject large requests."""

FAILED: tuple[ev.Outcome, ...] = ("error", "timed_out", "cut_off")
"""Outcomes of a run that are errors of its span."""

Value = str | int | float | bool | list[str]


class Span(msgspec.Struct):
    """Span of a run, or of one call of a tool."""

    name: str
    start_ms: int
    end_ms: int | None = None
    parent: int | None = None
    """Index of the span above; None for the span of the run."""
    attributes: dict[str, Value] = {}
    is_error: bool = False


class Measure(msgspec.Struct, frozen=True):
    """Value for a histogram."""

    name: Literal["gen_ai.client.token.usage", "gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"]
    value: float
    attributes: dict[str, Value]


class RunSpans:
    """Spans and metrics of one run, from its events."""

    def __init__(
        self,
        prompt: str = "",
        *,
        with_content: bool = False,
        provider: str | None = None,
        facts: Mapping[str, Value] | None = None,
    ) -> None:
        """Begin them. `facts` are attributes of the run that its events do not have.

        `provider`: provider of the agent's models; None: unknown, and then it is named as the agent.

        `with_content`: the prompt, the reply, and the arguments and results of tools are attributes.
        """
        self.spans: list[Span] = [Span("invoke_agent", 0)]
        """Spans so far, each after the one above it; the first is that of the run."""
        self.measures: list[Measure] = []
        """Values for histograms, complete once the run has ended."""
        self.is_over: bool = False
        """True once the run has ended."""
        self._with_content = with_content
        self._prompt = prompt
        self._provider = provider
        self._facts = dict(facts or {})
        self._calls: dict[str, int] = {}
        self._left_out = 0
        self._now = 0
        self._started: ev.RunStarted | None = None
        self._stop_reason: str | None = None
        self._usage: dict[str | None, ev.Usage] = {}

    def take(self, events: Iterable[ev.Event]) -> None:
        """Add the next events."""
        for event in events:
            if event.at is not None:
                self._now = max(self._now, event.at)
            if isinstance(event, ev.RunStarted):
                self._started = event if self._started is None else _joined(self._started, event)
            elif isinstance(event, ev.ToolCalled):
                self._call(event)
            elif isinstance(event, ev.ToolReturned):
                self._return(event)
            elif isinstance(event, ev.MessageEnded):
                self._stop_reason = (event.stop_reason if event.parent is None else None) or self._stop_reason
            elif isinstance(event, ev.UsageReported):
                found = ev.Usage(event.input_tokens, event.output_tokens)
                self._usage[event.model] = self._usage.get(event.model, ev.Usage()) + found
            elif isinstance(event, ev.RunEnded):
                self._end(event)

    def _call(self, event: ev.ToolCalled) -> None:
        if len(self._calls) >= MAX_CALLS:
            self._left_out += 1
            return
        if event.call_id in self._calls:
            return
        name = _name(event.name)
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": _name(event.call_id),
            "gen_ai.tool.type": "function",
            "penstock.tool.kind": event.tool_kind,
        }
        if self._with_content:
            attributes["gen_ai.tool.call.arguments"] = _content(msgspec.json.encode(event.input).decode())
        above = self._calls.get(event.parent, 0) if event.parent is not None else 0
        self._calls[event.call_id] = len(self.spans)
        self.spans.append(Span(f"execute_tool {name}", self._now, None, above, attributes))

    def _return(self, event: ev.ToolReturned) -> None:
        number = self._calls.get(event.call_id)
        if number is None or self.spans[number].end_ms is not None:
            return
        span = self.spans[number]
        span.end_ms = self._now
        if event.refused:
            span.attributes["error.type"], span.is_error = "refused", True
        elif event.failed or not event.complete:
            span.attributes["error.type"], span.is_error = "tool_error" if event.complete else "cut_off", True
        if event.exit_code is not None:
            span.attributes["process.exit.code"] = event.exit_code
        if self._with_content:
            span.attributes["gen_ai.tool.call.result"] = _content(event.text)

    def _end(self, event: ev.RunEnded) -> None:
        self.is_over = True
        root, started = self.spans[0], self._started
        agent = _name(event.agent)
        root.name, root.end_ms = f"invoke_agent {agent}", self._now
        common = self._common(agent)
        session = event.session_id or (started.session_id if started is not None else None)
        found: dict[str, Value | None] = {
            **common,
            "gen_ai.agent.name": agent,
            "gen_ai.agent.version": _name(started.version) if started is not None and started.version else None,
            "gen_ai.conversation.id": _name(session) if session else None,
            "gen_ai.response.finish_reasons": [_name(self._stop_reason)] if self._stop_reason else None,
            **_usage_attributes(event.usage),
            "penstock.cost_usd": event.cost_usd,
            "penstock.outcome": event.outcome,
            "penstock.cause": event.cause,
            "penstock.tools_without_span": self._left_out or None,
            **self._facts,
        }
        if event.outcome in FAILED:
            root.is_error = True
            found["error.type"] = event.cause or event.outcome
        if self._with_content:
            found["gen_ai.input.messages"] = _message("user", self._prompt, None)
            found["gen_ai.output.messages"] = _message("assistant", event.reply, self._stop_reason or "stop")
        root.attributes = {name: value for name, value in found.items() if value is not None}
        for span in self.spans[1:]:
            if span.end_ms is None:  # the run ended before the tool did, and no event says more
                span.end_ms = self._now
                span.attributes["error.type"], span.is_error = "cut_off", True
        self._measure(event, common)

    def _common(self, agent: str) -> dict[str, Value]:
        provider = self._provider or agent.partition("/")[0]
        found: dict[str, Value] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": provider}
        if self._started is not None and self._started.model:
            found["gen_ai.request.model"] = _name(self._started.model)
        return found

    def _measure(self, event: ev.RunEnded, common: dict[str, Value]) -> None:
        root = self.spans[0]
        failed = {"error.type": root.attributes["error.type"]} if root.is_error else {}
        named = {"gen_ai.agent.name": root.attributes["gen_ai.agent.name"], **failed}
        self._add("gen_ai.invoke_agent.duration", _seconds(root), {**common, **named})
        for span in self.spans[1:]:
            kept = ("gen_ai.operation.name", "gen_ai.tool.name", "error.type")
            attributes = {name: span.attributes[name] for name in kept if name in span.attributes}
            self._add("gen_ai.execute_tool.duration", _seconds(span), attributes)
        usages = self._usage if self._usage else {None: event.usage or ev.Usage()}
        for model, usage in usages.items():
            attributes = {**common, **({"gen_ai.request.model": _name(model)} if model else {})}
            for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if count is not None:
                    self._add("gen_ai.client.token.usage", count, {**attributes, "gen_ai.token.type": kind})

    def _add(self, name: str, value: float, attributes: dict[str, Value]) -> None:
        self.measures.append(Measure(name, value, attributes))  # type: ignore[arg-type]


def _joined(first: ev.RunStarted, second: ev.RunStarted) -> ev.RunStarted:
    """Return what both say: each field by the newer one that has it."""
    fields = ("session_id", "model", "version")
    return msgspec.structs.replace(first, **{name: getattr(second, name) or getattr(first, name) for name in fields})


def _usage_attributes(usage: ev.Usage | None) -> dict[str, int | None]:
    found = usage or ev.Usage()
    return {
        "gen_ai.usage.input_tokens": found.input_tokens,
        "gen_ai.usage.output_tokens": found.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": found.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": found.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": found.reasoning_tokens,
    }


def _message(role: str, text: str, reason: str | None) -> str:
    message: dict[str, object] = {"role": role, "parts": [{"type": "text", "content": _content(text)}]}
    if reason is not None:
        message["finish_reason"] = _name(reason)
    return msgspec.json.encode([message]).decode()


def _seconds(span: Span) -> float:
    return ((span.end_ms or span.start_ms) - span.start_ms) / 1000


def _name(text: str) -> str:
    return clean_line(text)[:MAX_NAME_CHARS]


def _content(text: str) -> str:
    return text[:MAX_CONTENT_CHARS].encode("utf-8", "replace").decode()
