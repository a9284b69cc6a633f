"""A stand-in for the next version of each agent: recordings with a kind renamed or added, or a name in `_meta`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from effort import at_most

from penstock.agents import kinds
from penstock.agents._facts import ACP_TAGS
from penstock.agents.registry import AGENTS
from penstock.core.health import Health
from penstock.events import BlockEnded, BlockRevised, Event, RunEnded, ToolCalled, ToolReturned
from penstock.run import drift_log
from penstock.stream import Stream

RECORDINGS = Path(__file__).parents[1] / "recordings"
TOOLS = {
    name: RECORDINGS / name / "tools" / "input.ndjson"
    for name in (
        "claude", "codex", "codex-server", "gemini", "opencode", "opencode-server",
        "qwen", "copilot", "pi", "cline", "droid", "kilo", "kimi", "goose", "ccs",
    )
}  # fmt: skip
NEWEST = {
    f"{name}/{case}": RECORDINGS / name / case / "input.ndjson"
    for name, case in (
        *(("claude-2.1.332", "toolerror"), ("claude-server-2.1.332", "tools"), ("codex-server-0.171.0", "tools")),
        *(("qwen-0.24.4", "tools"), ("pi-1.6.0", "toolerror")),
    )
}
"""The newest versions of agents that have recordings of an earlier one too."""
ACP = {
    folder.name: folder / "input.ndjson"
    for folder in (*sorted((RECORDINGS / "acp").glob("*-tools*")), RECORDINGS / "acp" / "cline-toolerror")
}
ALL = {**TOOLS, **NEWEST, **ACP}


class Shown(NamedTuple):
    """What a person sees of a run."""

    reply: str
    outcome: str
    texts: list[str]
    calls: list[Any]


def events_of(agent: str, lines: list[Any]) -> tuple[list[Event], Health]:
    """Return the events of lines, and their health."""
    stream = Stream(agent)
    data = msgspec.json.Encoder().encode_lines(lines)
    return [*stream.feed(data), *stream.close()], stream.health


def run(agent: str, lines: list[Any]) -> tuple[Shown, Health]:
    """Return what is shown of lines, and their health."""
    events, health = events_of(agent, lines)
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    texts = [event.text for event in events if isinstance(event, BlockEnded | BlockRevised) and event.text]
    calls: list[Any] = [(event.name, event.input) for event in events if isinstance(event, ToolCalled)]
    calls += [(event.text, event.is_error) for event in events if isinstance(event, ToolReturned)]
    return Shown(ended.reply, ended.outcome, texts, calls), health


def read(path: Path) -> tuple[str, list[Any]]:
    """Return the agent of a recording, and its lines."""
    agent = msgspec.json.decode(path.with_name("expected.json").read_bytes())["agent"]
    return agent, msgspec.json.Decoder().decode_lines(path.read_bytes())


def tags_of(agent: str) -> tuple[str, ...]:
    """Return the tags of the route that an agent's name in a recording means."""
    name, _, route = agent.partition("/")
    if name == "acp":
        return ACP_TAGS
    return AGENTS[name].routes[route or "exec"].tags


def renamed(line: Any, kind: str, tags: tuple[str, ...]) -> Any:
    """Return the line with another name of its kind, if it is of this kind."""
    if kind not in kinds.names_of(line, tags):
        return line
    path = next(path for path in tags if kinds.names_of(line, (path,))).split(".")
    copy = msgspec.json.decode(msgspec.json.encode(line))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] += "V2"
    return copy


def is_of_work(line: Any, tags: tuple[str, ...]) -> bool:
    """Return whether a line has a kind that is not only the state of a server."""
    names = kinds.names_of(line, tags)
    return bool(names) and not names[0].startswith("session.")


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ALL)
def test_a_kind_that_is_renamed_is_noticed(name: str) -> None:
    """For each kind that is read: what is shown stays the same, or the run says that it may not be right."""
    agent, lines = read(ALL[name])
    tags = tags_of(agent)
    before, _ = run(agent, lines)
    for kind in sorted({kind for line in lines for kind in kinds.names_of(line, tags)}):
        shown, health = run(agent, [renamed(line, kind, tags) for line in lines])
        if shown != before:
            assert health.warnings or shown.outcome != "ok", (kind, health.drift)


@pytest.mark.parametrize("name", ALL)
def test_a_kind_between_two_texts_is_a_warning(name: str) -> None:
    """A new kind in the middle of a run is a warning, the same at its end is not; the texts are those of before."""
    agent, lines = read(ALL[name])
    tags = tags_of(agent)
    before, healthy = run(agent, lines)
    assert not healthy.drift
    at = next(index for index in range(len(lines) // 2, len(lines)) if is_of_work(lines[index], tags))
    first = renamed(lines[at], kinds.names_of(lines[at], tags)[0], tags)
    new = {key: value for key, value in first.items() if key in ("type", "method", "event", "params")}
    shown, health = run(agent, [*lines[:at], new, *lines[at:]])
    assert (shown.reply, shown.outcome, shown.texts) == (before.reply, before.outcome, before.texts)
    assert [it.place != "elsewhere" for it in health.drift] == [True]
    assert len(health.warnings) == 1
    assert health.drift[0].name in health.warnings[0]
    shown, health = run(agent, [*lines, new])
    assert (shown.reply, shown.texts) == (before.reply, before.texts)
    assert [it.place for it in health.drift] == ["elsewhere"]
    assert not health.warnings


@pytest.mark.parametrize("name", ACP)
def test_a_name_in_meta_is_counted(name: str) -> None:
    """A new name in `_meta` is counted and no warning, unless the name says that it may take back what came before."""
    agent, lines = read(ACP[name])
    before, healthy = run(agent, lines)
    assert not healthy.drift
    for new, warns in (("vendorExtra", False), ("discardedAttempt", True)):
        changed = msgspec.json.decode(msgspec.json.encode(lines))
        update = next(line["params"]["update"] for line in changed if "update" in line.get("params", {}))
        update["_meta"] = {**update.get("_meta", {}), new: {"level": 1}}
        shown, health = run(agent, changed)
        assert shown == before
        assert [(it.name, it.count, it.warns) for it in health.drift] == [
            (f"_meta {new}", 1, warns),
            (f"_meta {new}.level", 1, warns),
        ]
        assert bool(health.warnings) is warns


@pytest.mark.parametrize("name", ALL)
def test_a_field_that_is_added_changes_nothing(name: str) -> None:
    """New fields at the top of each line, and beside its content, are no news, and none is shown."""
    agent, lines = read(ALL[name])
    before, healthy = run(agent, lines)
    extra = {"vendorExtra": {"text": "This is not said.", "level": 1}}
    inner = ("params", "message", "data", "event", "part", "properties", "item")
    changed = [
        {**line, **extra, **{key: {**line[key], **extra} for key in inner if isinstance(line.get(key), dict)}}
        for line in lines
    ]
    shown, health = run(agent, changed)
    assert (shown, health.drift, health.warnings) == (before, healthy.drift, healthy.warnings)


def test_no_recording_has_anything_new(recording: Any) -> None:
    """There is no false warning: all that real agents printed in the recordings is known."""
    stream = Stream(recording.agent)
    stream.feed(recording.data)
    stream.close()
    assert not [it for it in stream.health.drift if it.warns]


def test_names_are_bounded() -> None:
    """An agent that prints a new kind in each line costs no memory, and its names are cut."""
    lines = [{"type": "system", "subtype": f"{number}{'x' * 5000}"} for number in range(1000)]
    _, health = run("claude", lines)
    assert len(health.drift) == 64
    assert max(len(it.name) for it in health.drift) == 120


def test_the_checks_find_disagreements() -> None:
    """A final text that is not the reply, figures that are more than their sum, and calls that all return nothing."""
    call = {"type": "tool_use", "id": "", "name": "Bash", "input": {"command": "ls"}}
    lines: list[Any] = []
    for id in ("a", "b"):
        usage = {"input_tokens": 100, "output_tokens": 9}
        lines.append({"type": "assistant", "message": {"id": id, "content": [{**call, "id": id}], "usage": usage}})
        lines.append(
            {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": ""}]}}
        )
    lines.append({"type": "assistant", "message": {"id": "c", "content": [{"type": "text", "text": "This is said."}]}})
    end = {"type": "result", "subtype": "success", "result": "Other words.", "usage": {"input_tokens": 100}}
    _, health = run("claude", [*lines, end])
    assert health.checks == ["all 2 results of calls are empty"]
    assert health.losses == [
        "the agent's own final text (12 characters) differs from the reply (13)",
        "the model calls used 200 input tokens, the run by its end 100",
    ]
    assert [all(loss in warning for loss in health.losses) for warning in health.warnings] == [True]
    assert health.checks[0] in health.summary("claude")


def test_the_log_has_no_texts_and_is_rotated(tmp_path: Path) -> None:
    """The log keeps names and numbers of runs; a full one is put aside, and one that is a link is not followed."""
    _, health = run("claude", [{"type": "system", "subtype": "brand_new", "text": "a secret"}])
    drift_log.append("claude", health, tmp_path)
    (line,) = drift_log.lines(tmp_path)
    assert (line.agent, line.name, line.count, line.warns) == ("claude", "system/brand_new", 1, False)
    path = tmp_path / drift_log.NAME
    assert b"secret" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes() + b"no json\n" + b" " * drift_log.MAX_BYTES)
    drift_log.append("claude", health, tmp_path)
    assert len(drift_log.lines(tmp_path)) == 2
    assert path.stat().st_size < 1000
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    drift_log.append("claude", health, tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def moved(value: Any, path: tuple[str, ...]) -> None:
    """Give the field at a path another name, in each place that the path leads to."""
    if isinstance(value, list):
        for item in value:
            moved(item, path)
    elif isinstance(value, dict) and path[0] in value:
        if len(path) == 1:
            value[f"{path[0]}V2"] = value.pop(path[0])
        else:
            moved(value[path[0]], path[1:])


def paths_in(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all fields."""
    if isinstance(value, list):
        for item in value:
            yield from paths_in(item, path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from paths_in(inner, (*path, key))


SILENT = {("cline-toolerror", "success"), ("cline-toolerror", "rawOutput")}
"""Fields whose move is not noticed: without them nothing in the wire says that a call has failed."""


def lost(before: list[Event], after: list[Event]) -> list[str]:
    """Return what a person does not see any more: letters of the texts, calls, or the failure of calls."""
    found = [kind for kind in ("text", "thinking") if letters(before, kind) - letters(after, kind)]
    found += ["calls"] if sum(map(is_call, after)) < sum(map(is_call, before)) else []
    return [*found, *(["failures"] if sum(map(is_failure, after)) < sum(map(is_failure, before)) else [])]


def letters(events: list[Event], kind: str) -> Counter[str]:
    """Return how often each character is in the texts of a kind, without white space."""
    texts = (it.text for it in events if isinstance(it, BlockEnded) and it.kind == kind)
    return Counter("".join("".join(texts).split()))


def is_call(event: Event) -> bool:
    """Return whether an event is a call."""
    return isinstance(event, ToolCalled)


def is_failure(event: Event) -> bool:
    """Return whether an event is the result of a call that has failed, or of which nothing is known."""
    return isinstance(event, ToolReturned) and (event.is_error or not event.complete)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ALL)
def test_a_field_that_moved_is_noticed(name: str) -> None:
    """For each field of each line: nothing is lost, or a warning or the outcome says that something may be."""
    agent, lines = read(ALL[name])
    before, healthy = events_of(agent, lines)
    assert not healthy.checks
    paths = sorted({path for line in lines for path in paths_in(line)})
    for path in paths[:: at_most(3, 1)]:
        changed = msgspec.json.decode(msgspec.json.encode(lines))
        moved(changed, path)
        shown, health = events_of(agent, changed)
        if (gone := lost(before, shown)) and (name, path[-1]) not in SILENT:
            ended = shown[-1]
            assert isinstance(ended, RunEnded)
            assert health.warnings or ended.outcome != "ok", (path, gone)


def test_no_recording_has_a_disagreement(recording: Any) -> None:
    """There is no false check either: what real agents report agrees with itself."""
    stream = Stream(recording.agent)
    stream.feed(recording.data)
    stream.close()
    assert (stream.health.losses, stream.health.misfits) == ([], {})
    if recording.agent != "ollama":  # nobody runs the tools that its model calls
        assert stream.health.checks == []
