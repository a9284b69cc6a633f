"""The ATIF sink: each run as one trajectory, in version 1.7 of the Agent Trajectory Interchange Format.

Harbor's RFC 0001 defines the format and its rules. Facts that it has no field for are in `extra`, under the names of
`docs/events.md`. `docs/trajectories.md` shows how each event is mapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock import events as ev

SCHEMA = "ATIF-v1.7"

UNKNOWN_VERSION = "unknown"
"""Version for an agent that reports none; the format requires one."""

SYSTEM_NOTICES: frozenset[ev.NoticeCode] = frozenset({"compaction", "model", "refusal"})
"""Notices that change what the model sees or which model answers. They become system steps; all others are in
`extra`."""


class TrajectoryStep:
    """One step of a trajectory. It gets its number at the end, because steps without content are left out."""

    __slots__ = (
        "at",
        "calls",
        "extra",
        "message_id",
        "metrics",
        "model",
        "results",
        "source",
        "superseded",
        "texts",
        "thoughts",
    )

    def __init__(self, source: str, text: str = "", at: int | None = None) -> None:
        self.source: str = source
        self.at: int | None = at
        self.texts: list[str] = [text] if text else []
        self.thoughts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.metrics: ev.Usage | None = None
        self.model: str | None = None
        self.message_id: str | None = None
        self.superseded: bool = False
        self.extra: dict[str, Any] = {}

    @property
    def is_empty(self) -> bool:
        """True if the step shows nothing."""
        return not (self.texts or self.thoughts or self.calls or self.results)

    def record(self, number: int, began_ms: int | None) -> dict[str, Any]:
        """Return the step in the form of the format."""
        made: dict[str, Any] = {"step_id": number, "source": self.source, "message": "".join(self.texts)}
        if began_ms is not None and self.at is not None:
            made["timestamp"] = datetime.fromtimestamp((began_ms + self.at) / 1000, UTC).isoformat(
                timespec="milliseconds"
            )
        if self.model:
            made["model_name"] = self.model
        if self.thoughts:
            made["reasoning_content"] = "\n\n".join(self.thoughts)
        if self.calls:
            made["tool_calls"] = self.calls
        if self.results:
            made["observation"] = {"results": self.results}
        if self.metrics is not None:
            made["metrics"] = _metrics(self.metrics)
        if self.extra:
            made["extra"] = self.extra
        return made


class AgentSteps:
    """Steps of the agent, or of one of its sub-agents."""

    def __init__(self) -> None:
        self.steps: list[TrajectoryStep] = []
        self.messages: dict[int, TrajectoryStep] = {}
        self.model: str | None = None

    def step(self, message: int | None, at: int | None) -> TrajectoryStep:
        """Return the step of a message; without a message, the agent's last step or a new one."""
        found = self.messages.get(message) if message is not None else self._last()
        if found is None:
            found = TrajectoryStep("agent", at=at)
            self.steps.append(found)
            if message is not None:
                self.messages[message] = found
        return found

    def _last(self) -> TrajectoryStep | None:
        return next((step for step in reversed(self.steps) if step.source == "agent" and not step.superseded), None)

    def use(self, usage: ev.Usage, model: str | None) -> None:
        """Add the usage of a model call to the agent's last step, if there is one."""
        step = self._last()
        if step is None:
            return
        step.metrics = usage if step.metrics is None else step.metrics + usage
        step.model = model if model is not None and model != self.model else step.model


class Trajectory:
    """Fold of the events of one run into a trajectory.

    Args:
        prompt: prompt of the run; "" if unknown.
        began_ms: time at which the run began, in milliseconds since 1970; without it steps have no time.
    """

    def __init__(self, prompt: str = "", began_ms: int | None = None) -> None:
        self._began_ms = began_ms
        self._prompt = prompt
        self._lanes: dict[str | None, AgentSteps] = {None: AgentSteps()}
        self._blocks: dict[int, TrajectoryStep] = {}
        self._calls: dict[str, TrajectoryStep] = {}
        self._asked: dict[str, dict[str, Any]] = {}
        self._started: dict[str, Any] = {}
        self._notices: list[dict[str, Any]] = []
        self._superseded: list[str] = []
        self._plan: list[dict[str, Any]] = []
        self._unread = 0
        self._agent = ""
        if prompt:
            self._lanes[None].steps.append(TrajectoryStep("user", prompt, at=0))

    def apply(self, event: ev.Event) -> None:
        """Add an event of the run."""
        self._agent = event.agent
        lane = self._lanes.setdefault(event.parent, AgentSteps())
        match event:
            case ev.RunStarted():
                self._start(lane, event)
            case ev.MessageStarted():
                lane.step(event.message, event.at).message_id = event.message_id
            case ev.BlockStarted(kind="text" | "thinking"):
                self._blocks[event.block] = lane.step(event.message, event.at)
            case ev.BlockEnded(kind="text" | "thinking"):
                self._end_block(event)
            case ev.MessageEnded():
                self._end_message(lane, event)
            case ev.ToolCalled():
                self._call(lane, event)
            case ev.ToolReturned():
                self._return(lane, event)
            case ev.UsageReported():
                lane.use(_usage(event), event.model)
            case ev.Notice():
                self._notice(lane, event)
            case ev.PlanChanged():
                self._plan = [msgspec.structs.asdict(item) for item in event.items]
            case ev.QuestionAsked():
                self._asked[event.id] = {"text": event.text, **({"title": event.title} if event.title else {})}
            case ev.QuestionAnswered():
                answer = {"by": event.by, "option": event.option, "answer": event.text}
                self._asked.setdefault(event.id, {}).update(_known(answer))
            case ev.Unknown() | ev.Malformed():
                self._unread += 1

    def close(self, end: ev.RunEnded) -> dict[str, Any]:
        """Return the whole trajectory of a run that has ended."""
        top = self._lanes[None]
        texts = "\n\n".join("".join(step.texts) for step in top.steps if step.source == "agent")
        if end.reply and end.reply.strip() not in texts and "".join(end.reply.split()) not in "".join(texts.split()):
            top.steps.append(TrajectoryStep("agent", end.reply, at=end.at))  # it came with the end alone
        if end.outcome != "ok":
            top.steps.append(TrajectoryStep("system", _end_text(end), at=end.at))
        elif not any(not step.is_empty for step in top.steps):
            top.steps.append(TrajectoryStep("system", "The run ended.", at=end.at))
        session = end.session_id or self._started.get("session_id")
        self._agent = self._agent or end.agent
        name = f"{self._agent}-{session or 'run'}"
        below = self._sub_agents(name)
        steps = self._records(top)
        made = {
            "schema_version": SCHEMA,
            "session_id": session,
            "trajectory_id": name,
            "agent": self._agent_record(top),
            "steps": steps,
            "final_metrics": _final_metrics(end, len(steps)),
            "subagent_trajectories": below or None,
            "extra": self._extra(end),
        }
        return _known(made)

    def _start(self, lane: AgentSteps, event: ev.RunStarted) -> None:
        lane.model = event.model or lane.model
        if event.parent is None:
            self._started |= _known(
                {name: getattr(event, name) for name in ("session_id", "version", "cwd", "tools", "program")}
            )

    def _end_block(self, event: ev.BlockEnded) -> None:
        step = self._blocks.pop(event.block, None)
        if step is None or not event.text:
            return
        (step.texts if event.kind == "text" else step.thoughts).append(event.text)
        if event.truncated:
            step.extra["truncated"] = True

    def _end_message(self, lane: AgentSteps, event: ev.MessageEnded) -> None:
        step = lane.step(event.message, event.at)
        if event.status == "superseded":
            self._superseded += ["".join(step.texts)] if step.texts else []
            step.texts, step.thoughts, step.superseded = [], [], True
        if event.status != "ok":
            step.extra["status"] = event.status
        if event.stop_reason:
            step.extra["stop_reason"] = event.stop_reason

    def _call(self, lane: AgentSteps, event: ev.ToolCalled) -> None:
        step = self._calls[event.call_id] = lane.step(event.message, event.at)
        arguments = (
            event.input if isinstance(event.input, dict) else {} if event.input is None else {"input": event.input}
        )
        extra = {"title": event.title, "tool_kind": event.tool_kind}
        step.calls.append(
            {"tool_call_id": event.call_id, "function_name": event.name, "arguments": arguments, "extra": extra}
        )

    def _return(self, lane: AgentSteps, event: ev.ToolReturned) -> None:
        flags = {
            "is_error": event.is_error or None,
            "exit_code": event.exit_code,
            "duration_ms": event.duration_ms,
            "refused": event.refused or None,
            "complete": None if event.complete else False,
            "status_reported": None if event.status_reported else False,
            "output_reported": None if event.output_reported else False,
            "changes": [_known(msgspec.to_builtins(change)) for change in event.changes or ()] or None,
        }
        result: dict[str, Any] = {"source_call_id": event.call_id, "content": event.text}
        step = self._calls.get(event.call_id)
        if step is None:  # the call came before the stream began
            step = TrajectoryStep("system", at=event.at)
            lane.steps.append(step)
            flags["call_id"] = result.pop("source_call_id")
        if extra := _known(flags):
            result["extra"] = extra
        step.results.append(result)

    def _notice(self, lane: AgentSteps, event: ev.Notice) -> None:
        if event.code == "user" and event.text.strip() == self._prompt.strip():
            return
        if event.code == "user":
            lane.steps.append(TrajectoryStep("user", event.text, at=event.at))
        elif event.code in SYSTEM_NOTICES:
            step = TrajectoryStep("system", event.text, at=event.at)
            step.extra["code"] = event.code
            lane.steps.append(step)
        else:
            self._notices.append(_known(msgspec.to_builtins(event) | {"type": None, "agent": None, "run": None}))

    def _sub_agents(self, name: str) -> list[dict[str, Any]]:
        """Return the trajectories of the sub-agents, and refer to each from the result of the call that started it."""
        made = []
        for parent, lane in self._lanes.items():
            if parent is None or not any(not step.is_empty for step in lane.steps):
                continue
            trajectory_id = f"{name}/{parent}"
            reference = [{"trajectory_id": trajectory_id}]
            step = self._calls.get(parent)
            if step is None:
                step = TrajectoryStep("system", at=lane.steps[0].at)
                self._lanes[None].steps.append(step)
                step.results.append({"subagent_trajectory_ref": reference})
            else:
                results = [result for result in step.results if result.get("source_call_id") == parent]
                if not results:
                    results = [{"source_call_id": parent}]
                    step.results += results
                results[0]["subagent_trajectory_ref"] = reference
            made.append((trajectory_id, lane))
        return [
            {
                "schema_version": SCHEMA,
                "trajectory_id": trajectory_id,
                "agent": self._agent_record(lane),
                "steps": self._records(lane),
            }
            for trajectory_id, lane in made
        ]

    def _records(self, lane: AgentSteps) -> list[dict[str, Any]]:
        shown = [step for step in lane.steps if not step.is_empty]
        return [step.record(number, self._began_ms) for number, step in enumerate(shown, 1)]

    def _agent_record(self, lane: AgentSteps) -> dict[str, Any]:
        extra = _known({name: self._started.get(name) for name in ("program", "cwd", "tools")})
        return _known(
            {
                "name": self._agent,
                "version": self._started.get("version") or UNKNOWN_VERSION,
                "model_name": lane.model or self._lanes[None].model,
                "extra": extra or None,
            }
        )

    def _extra(self, end: ev.RunEnded) -> dict[str, Any]:
        names = ("outcome", "reason", "cause", "reply", "rounds", "duration_ms", "refused", "asked_ms", "resets_at")
        return _known(
            {
                **{name: getattr(end, name) for name in names},
                "notices": self._notices or None,
                "questions": list(self._asked.values()) or None,
                "plan": self._plan or None,
                "superseded": self._superseded or None,
                "unread_lines": self._unread or None,
            }
        )


class AtifSink:
    """Sink that writes the trajectory of each run as one line of JSON when the run has ended.

    Args:
        prompt: prompt of the run; "" if unknown.
        began_ms: time at which the run began, in milliseconds since 1970; None if unknown.
    """

    def __init__(self, prompt: str = "", began_ms: int | None = None) -> None:
        self._prompt = prompt
        self._began_ms = began_ms
        self._open = Trajectory(prompt, began_ms)

    def render(self, events: Iterable[ev.Event]) -> bytes:
        """Return the trajectories of the runs that ended, one per line; b"" if none did."""
        made = b""
        for event in events:
            if type(event) is ev.RunEnded:
                made += msgspec.json.encode(self._open.close(event)) + b"\n"
                self._open = Trajectory(self._prompt, self._began_ms)
            else:
                self._open.apply(event)
        return made

    def close(self) -> bytes:
        """Return b"": a trajectory is written at the end of its run."""
        return b""


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _usage(event: ev.UsageReported) -> ev.Usage:
    return ev.Usage(*(getattr(event, name) for name in ev.Usage.__struct_fields__))


def _metrics(usage: ev.Usage) -> dict[str, Any]:
    extra = _known({"cache_write_tokens": usage.cache_write_tokens, "reasoning_tokens": usage.reasoning_tokens})
    return _known(
        {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "cost_usd": usage.cost_usd,
            "extra": extra or None,
        }
    )


def _final_metrics(end: ev.RunEnded, steps: int) -> dict[str, Any]:
    usage = end.usage or ev.Usage()
    extra = _known({"cache_write_tokens": usage.cache_write_tokens, "reasoning_tokens": usage.reasoning_tokens})
    return _known(
        {
            "total_prompt_tokens": usage.input_tokens,
            "total_completion_tokens": usage.output_tokens,
            "total_cached_tokens": usage.cached_tokens,
            "total_cost_usd": end.cost_usd,
            "total_steps": steps,
            "extra": extra or None,
        }
    )


def _end_text(end: ev.RunEnded) -> str:
    """Return the text for a run that did not end well, so that no reader takes it for a success."""
    why = f": {end.reason}" if end.reason else ""
    return f"The run ended with the outcome {end.outcome}{why}"
