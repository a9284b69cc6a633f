"""The kinds of lines of one version against the recordings of the next: what a run would have said of it.

A line of a kind that the recordings of the version before do not have is given a name that no reader knows. So the next
version is read as it would have been before anybody saw it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from penstock.agents import kinds
from penstock.agents.registry import AGENTS
from penstock.core.health import Health
from penstock.events import BlockEnded, BlockRevised, RunEnded, ToolCalled, ToolReturned
from penstock.stream import Stream

sys.path.insert(0, str(Path(__file__).parents[1] / "real"))

import kinds as maker  # of tests/real


class Step(NamedTuple):
    """Two versions of one route of an agent, each with the folders of its recordings."""

    agent: str
    route: str
    before: str
    after: str
    known: list[maker.Place]
    new: list[maker.Place]

    def __str__(self) -> str:
        return f"{self.agent} {self.route} {self.before} to {self.after}"


def steps() -> Iterator[Step]:
    """Yield each version of each route with the next one."""
    found: dict[tuple[str, str], dict[str, list[maker.Place]]] = defaultdict(lambda: defaultdict(list))
    for place in maker.places():
        version = msgspec.json.decode((place.folder / "expected.json").read_bytes())["version"]
        found[place.agent, place.route][version].append(place)
    for (agent, route), versions in found.items():
        order = sorted(versions, key=lambda it: [int(part) for part in it.split(".")])
        for before, after in pairwise(order):
            yield Step(agent, route, before, after, versions[before], versions[after])


STEPS = {str(step): step for step in steps()}

WARNINGS = {
    "claude acp 0.49.0 to 0.100.0": {"session/request_permission", "session/update/agent_thought_chunk"},
    "claude acp 0.100.0 to 0.101.0": set(),
    "claude exec 2.1.197 to 2.1.329": set(),
    "claude exec 2.1.329 to 2.1.331": {
        "system/background_tasks_changed", "system/task_notification", "system/task_progress", "system/task_started",
        "system/task_updated", "user/text",
    },
    "claude exec 2.1.331 to 2.1.332": set(),
    "claude server 2.1.197 to 2.1.330": {"system/background_tasks_changed", "system/session_state_changed"},
    "claude server 2.1.330 to 2.1.331": set(),
    "claude server 2.1.331 to 2.1.332": {
        "assistant/thinking", "command_lifecycle", "stream_event/signature_delta", "stream_event/thinking_delta",
        "system/thinking_tokens", "user/text",
    },
    "codex acp 0.16.0 to 2.6.0": {"_meta codex.threadStatus/systemError"},
    "codex exec 0.169.0 to 0.171.0": set(),
    "codex server 0.169.0 to 0.171.0": set(),
    "pi exec 0.73.1 to 1.6.0": {
        "message_update/text_delta", "message_update/text_end", "message_update/text_start",
        "message_update/toolcall_delta",
        "message_update/thinking_delta", "message_update/thinking_end", "message_update/thinking_start",
    },
    "qwen acp 0.15.10 to 0.24.4": set(),
    "qwen exec 0.15.10 to 0.24.4": {
        "system/retry", "system/task_notification", "system/task_started", "user/text",
    },
}  # fmt: skip
"""All warnings, by the kinds that they name. The earlier version may have some of them too, without a recording."""


def with_new_name(value: Any, path: list[str], name: str) -> None:
    """Give a kind another name, in each place that the path of its tag leads to."""
    if isinstance(value, list):
        for item in value:
            with_new_name(item, path, name)
    elif isinstance(value, dict) and len(path) > 1:
        with_new_name(value.get(path[0]), path[1:], name)
    elif isinstance(value, dict) and value.get(path[0]) == name:
        value[path[0]] = name + NEW


NEW = "OfTomorrow"


def unknown_to(known: set[str], lines: list[Any], tags: tuple[str, ...]) -> list[Any]:
    """Return the lines with a new name for each kind that is not known."""
    changed = msgspec.json.decode(msgspec.json.encode(lines))
    for line in changed:
        for kind in set(kinds.names_of(line, tags)) - known:
            tag, name = next(
                (tag, name)
                for tag in reversed(tags)
                for name in kinds.names_of(line, (tag,))
                if kind == name or kind.endswith(f"/{name}")
            )
            with_new_name(line, tag.split("."), name)
    return list(changed)


def shown(agent: str, lines: list[Any]) -> tuple[list[Any], Health]:
    """Return what a person sees of a run, and its health."""
    stream = Stream(agent)
    events = [*stream.feed(msgspec.json.Encoder().encode_lines(lines)), *stream.close()]
    seen: list[Any] = [it.text for it in events if isinstance(it, BlockEnded | BlockRevised | ToolReturned)]
    seen += [it.name for it in events if isinstance(it, ToolCalled)]
    seen += [(it.reply, it.outcome) for it in events if isinstance(it, RunEnded)]
    return seen, stream.health


def test_each_version_is_listed() -> None:
    """A version that is recorded anew comes with what the one before would have said of it."""
    assert WARNINGS.keys() == STEPS.keys()


@pytest.mark.parametrize("name", STEPS)
def test_the_next_version_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All warnings are those that are listed, and no run shows something else without a warning or an error."""
    step = STEPS[name]
    found = maker.Found()
    for place in step.known:
        found.add(place)
    table = kinds.RouteKinds(versions=(step.before,), kinds=found.kinds, meta=dict.fromkeys(found.meta, "read"))
    monkeypatch.setattr(kinds, "of_adapter", lambda _adapter: table)
    tags = AGENTS[step.agent].routes[step.route].tags
    warned: set[str] = set()
    for place in step.new:
        agent = msgspec.json.decode((place.folder / "expected.json").read_bytes())["agent"]
        lines = msgspec.json.Decoder().decode_lines((place.folder / "input.ndjson").read_bytes())
        right, _ = shown(agent, lines)
        seen, health = shown(agent, unknown_to(set(found.kinds), lines, tags))
        warned |= {it.name.removesuffix(NEW) for it in health.drift if it.warns}
        assert bool(health.warnings) is any(it.warns for it in health.drift)
        assert seen == right or health.warnings or seen[-1][1] != "ok", place.folder
    assert warned == WARNINGS[name]
