"""What each agent says, in each mode and at each detail: there exactly once, or not at all.

The lines come from what the model server told every agent to say and do, not from our own output.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.events import Event
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds

FOLDER = Path(__file__).parent / "recordings"
SGR = re.compile(r"\x1b\[[0-9;]*m")

MODES = ["full", "basic", "none"]
DETAILS = ["quiet", "minimal", "normal", "verbose"]

# Whose wire has no results: what becomes of a call is never told.
NO_RESULTS = {"ollama-synthetic"}
# Recorded in a directory without files.
BARE = {"claude-server-2.1.332", "codex-server-0.171.0"}
# Who calls a command that exits with 3 a success.
NEVER_FAILS = {"gemini", "qwen"}

# Who reports no status of a command.
NO_STATUS = {"gemini", "kimi", "qwen"}

# Whose result has the lines in another order than they came: it is shown whole, below what was shown live.
OTHER_ORDER = {"cline"}


def agents(case: str) -> list[str]:
    """The folders of agents that have this case."""
    return sorted(path.parent.parent.name for path in FOLDER.glob(f"*/{case}/input.ndjson") if path.stat().st_size)


@cache
def expected(agent: str, case: str) -> dict[str, Any]:
    """What `expected.json` says."""
    found: dict[str, Any] = json.loads((FOLDER / agent / case / "expected.json").read_text("utf-8"))
    return found


@cache
def events(agent: str, case: str) -> list[Event]:
    """The events of a recording."""
    data = (FOLDER / agent / case / "input.ndjson").read_bytes()
    return feeds.whole(Stream(expected(agent, case)["agent"]), data)


def lines(agent: str, case: str, mode: Any, detail: Any) -> list[str]:
    """What is written line by line, without the prefix; lines that hang keep their indentation."""
    sink = TextSink(mode, detail=detail, color=mode != "none")
    pieces = [sink.render([event]) for event in events(agent, case)]
    shown = SGR.sub("", "".join(pieces) + sink.close())
    assert shown.endswith("\n")
    head = f"[{events(agent, case)[0].agent}] "
    found = [line.removeprefix(head) for line in shown.removesuffix("\n").split("\n")]
    assert head not in "\n".join(found)
    return found


def matrix(case: str) -> Callable[[Callable[[str, str, str], None]], Any]:
    """A test for each agent that has the case, which is called for each mode at each detail."""

    def decorate(test: Callable[[str, str, str], None]) -> Any:
        def in_each_look(agent: str) -> None:
            for mode, detail in itertools.product(MODES, DETAILS):
                try:
                    test(agent, mode, detail)
                except AssertionError as error:
                    error.add_note(f"mode {mode}, detail {detail}")
                    raise

        in_each_look.__doc__ = test.__doc__
        return pytest.mark.parametrize("agent", agents(case))(in_each_look)

    return decorate


@matrix("tools")
def test_text(agent: str, mode: str, detail: str) -> None:
    """Each text is a line of its own, once, in its order, at every detail."""
    said = [text for _, text in expected(agent, "tools")["blocks"]]
    found = lines(agent, "tools", mode, detail)
    assert [line for line in found if line in said] == said
    assert len(said) == 3
    assert all("\n".join(found).count(text) == 1 for text in said)


@matrix("thinking")
def test_thinking(agent: str, mode: str, detail: str) -> None:
    """Thinking is marked, and there from `normal` on; the reply is there once without it."""
    kinds = {kind for kind, _ in expected(agent, "thinking")["blocks"]}
    found = lines(agent, "thinking", mode, detail)
    shown = "thinking" in kinds and detail in ("normal", "verbose")
    assert [line[:14] for line in found if line.startswith("∴ ")] == (["∴ Let me think"] if shown else [])
    assert "\n".join(found).count("I will say forty-two.") == shown
    assert sum("This is the visible reply." in line for line in found) == 1


@matrix("tools")
def test_tool_calls(agent: str, mode: str, detail: str) -> None:
    """A command and an edit are one line each, the same for all agents, from `minimal` on."""
    found = [line for line in lines(agent, "tools", mode, detail) if line.startswith(("▸ ", "$ "))]
    if detail == "quiet":
        assert found == []
        return
    assert len(found) == 2
    if agent in NO_RESULTS:  # it has one tool, a shell
        assert found[1].startswith("$ cat > notes.txt")
    else:
        assert re.fullmatch(r"▸ edit (/tmp/demo/)?notes.txt( \+2)?( \(new\))?", found[1])
    assert found[0] == "$ echo hi && ls"


@matrix("tools")
def test_tool_results(agent: str, mode: str, detail: str) -> None:
    """A result is one line, from `normal` on; `verbose` shows the whole of it, once."""
    found = lines(agent, "tools", mode, detail)
    # A call that took long has its time behind its result.
    results = [line.partition(" · ")[0] for line in found if line.startswith(("✓ ", "– "))]
    if detail in ("quiet", "minimal") or agent in NO_RESULTS:
        assert results == []
        return
    assert len(results) == 2
    mark = "–" if expected(agent, "tools")["agent"] in NO_STATUS else "✓"
    if agent in BARE:
        assert results[0].endswith("hi")
    elif detail == "normal":
        assert results[0] == f"{mark} hi"  # a short output is whole: the next lines have the files
        assert any(line.strip().startswith("README.md") for line in found)
    else:
        assert re.fullmatch(rf"{mark} (\$ echo hi && ls)?:? ?\(?\d lines\)?", results[0])
        assert [line.strip("│ ") for line in found].count("hi") == 1  # `│` is before output that is shown live


@matrix("tools")
def test_results_that_never_come(agent: str, mode: str, detail: str) -> None:
    """Where an agent prints no results, each call says so once, unless only text is wanted; else none does."""
    found = [line for line in lines(agent, "tools", mode, detail) if line.startswith("◌ ")]
    assert len(found) == (2 if agent in NO_RESULTS and detail != "quiet" else 0)


@matrix("toolerror")
def test_failed_tools(agent: str, mode: str, detail: str) -> None:
    """A result that failed is marked and there from `minimal` on; the text around it as ever."""
    found = lines(agent, "toolerror", mode, detail)
    shown = detail != "quiet" and agent not in NEVER_FAILS
    assert sum(line.startswith("✗ ") for line in found) == shown
    assert found.count("Running a failing command.") == 1
    assert found.count("The command failed with status 3. FINAL-REPLY.") == 1
    if detail == "verbose":
        assert [line.strip("│ ") for line in found].count("out") == 1 + (agent in OTHER_ORDER)


@matrix("err500")
def test_errors(agent: str, mode: str, detail: str) -> None:
    """An error is told at every detail: why, once, and that the run failed, once, in the last line."""
    found = [line for line in lines(agent, "err500", mode, detail) if line.startswith("✗ ")]
    assert sum(line.startswith("✗ failed") for line in found) == 1
    assert found[-1].startswith("✗ failed")
    assert sum(bool(re.search("Internal server error|high demand|server is broken", line)) for line in found) == 1


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize(("agent", "case"), [(agent, case) for case in ("tools", "thinking") for agent in agents(case)])
def test_modes_agree(agent: str, case: str, detail: str) -> None:
    """All modes write the same lines, but for their colours."""
    full, basic, none = (lines(agent, case, mode, detail) for mode in MODES)
    assert full == basic == none


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("agent", agents("long"))
def test_a_long_reply_is_one_entry(agent: str, detail: Any) -> None:
    """Thousands of deltas begin one line of a log, and every word is in it once."""
    sink = TextSink("none", detail=detail)
    shown = sink.render(events(agent, "long")) + sink.close()
    head = f"[{expected(agent, 'long')['agent']}] "
    starts = [line for line in shown.split("\n") if line.startswith(head + "word")]
    assert len(starts) == 1
    words = re.findall(r"\bword(\d+)\b", shown)
    assert len(words) == len(set(words)) == 3000
    assert words == sorted(words)
    marks = {line.removeprefix(head)[:2] for line in shown.split("\n") if line.startswith(head)}
    assert marks <= {"wo", "● ", "· "}
