"""Annotations, summary and outputs of a step: what GitHub reads, and nothing that an agent could add to it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.github import (
    MAX_FILES,
    MAX_SUMMARY_REPLY_BYTES,
    Finished,
    annotation_lines,
    outputs,
    summary,
    write_files,
)
from penstock.events import Change, Usage
from penstock.run.result import Result

from .test_sessions import Desk

HOSTILE = (
    "::error::forged\n::set-output name=x::y\r\n%0A::stop-commands::t\x1b[31m<img src=x>![i](http://e)\u2028| a | `b`"
)


def finished(**fields: object) -> Finished:
    """Return a run of claude that has ended."""
    values = {"agent": "claude", "outcome": "ok", "reply": "Done.", "session_id": "s1", **fields}
    return Finished("claude", Result(**values), 1500)  # type: ignore[arg-type]


def read_outputs(text: str) -> dict[str, str]:
    """Parse outputs as the runner does: a name, a delimiter, lines up to the delimiter."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        if line:
            name, _, delimiter = line.partition("<<")
            value = []
            for inner in lines:
                if inner == delimiter:
                    break
                value.append(inner)
            found[name] = "\n".join(value)
    return found


def test_a_failure_is_annotated() -> None:
    """A run that did not end well is one error, denied actions are one warning, a good run is nothing."""
    failed = finished(outcome="timed_out", reason="the time limit of 4 s was reached", refused=2)
    assert annotation_lines([finished(), failed]) == (
        "::error title=claude failed::timed out: the time limit of 4 s was reached\n"
        "::warning title=claude%3A actions denied::2 actions were not allowed\n"
    )


def test_a_run_that_was_refused_something_is_not_simply_good() -> None:
    """The first thing that a reader sees is a mark."""
    assert summary(finished(reply="done")).startswith("### ✅")
    assert summary(finished(reply="done", refused=0)).startswith("### ✅")
    assert summary(finished(reply="done", refused=1)).startswith("### ⚠️")
    assert summary(finished(outcome="error", refused=1)).startswith("### ❌")


@pytest.mark.parametrize("text", [HOSTILE, "\n", "%", "a,b:c", "::"])
def test_an_annotation_is_one_line(text: str) -> None:
    """Whatever an agent says, an annotation is one command, at the beginning of one line."""
    made = annotation_lines([Finished(text, finished(outcome="error", reason=text).result, None)])
    assert made.count("\n") == 1
    assert made.startswith("::error title=")
    assert len(re.findall(r"(?m)^::", made)) == 1
    assert "\x1b" not in made


@given(st.text(max_size=300))
def test_outputs_hold_any_reply(reply: str) -> None:
    """The runner reads the reply as it was, and no other output from within it."""
    found = read_outputs(outputs(finished(reply=reply, refused=0, cost_usd=0.5)))
    assert found["reply"] == reply.encode("utf-8", "replace").decode()
    assert set(found) == {"outcome", "reply", "session_id", "cost_usd", "refused", "changed_files"}


def test_a_delimiter_cannot_be_guessed() -> None:
    """The delimiter of one step is not that of another."""
    first, second = outputs(finished()), outputs(finished())
    assert first.split("\n")[0] != second.split("\n")[0]


def test_the_summary_has_the_facts() -> None:
    """Outcome, reply, time, tokens, cost, session, changed files and denied actions."""
    made = summary(
        finished(
            usage=Usage(input_tokens=3100, output_tokens=60),
            cost_usd=0.0099,
            rounds=3,
            refused=1,
            changes=[Change("a|b.py", "update", added=1, removed=2), Change("new", "add", added=3)],
        )
    )
    assert "claude: ok" in made
    assert "> Done." in made
    assert "| time | rounds | tokens in | tokens out | cost | session |" in made
    assert "| 1.5 s | 3 | 3.1k | 60 | $0.0099 | s1 |" in made
    assert "| a&#124;b.py | update | +1 −2 |" in made
    assert "| new | add | +3 |" in made
    assert "**1 action was not allowed.**" in made


def test_files_are_named_from_the_working_directory() -> None:
    """In the summary and in the outputs, as in the log; a file elsewhere has its whole path. A cost is rounded."""
    changes = [
        Change("/project/a.py", "update", added=1),
        Change("/project/b.py", "move", to="/project/c.py"),
        Change("/x", "add"),
    ]
    run = Finished("claude", finished(changes=changes, cost_usd=0.1 + 0.2).result, 1500, "/project")
    assert [line.split(" | ")[0] for line in summary(run).split("\n")[-6:-2]] == [
        "|---|---|---|",
        "| a.py",
        "| c.py",
        "| /x",
    ]
    found = read_outputs(outputs(run))
    assert json.loads(found["changed_files"]) == ["a.py", "c.py", "/x"]
    assert found["cost_usd"] == "0.3"


def test_a_summary_has_no_html_of_an_agent() -> None:
    """Tags and images of an agent are text, in the reply and in all other places."""
    made = summary(finished(reply=HOSTILE, reason=HOSTILE, outcome="error", changes=[Change(HOSTILE, "add")]))
    assert "<img" not in made
    assert "![i]" not in made
    assert "\x1b" not in made
    assert all(line.startswith((">", "#", "|", "&", "")) for line in made.split("\n"))


def test_large_results_are_bounded() -> None:
    """A reply of megabytes and thousands of files leave room for the rest of the summary."""
    changes = [Change(str(number), "add") for number in range(5000)]
    made = summary(finished(reply="é" * 2_000_000, changes=changes))
    assert len(made.encode()) < MAX_SUMMARY_REPLY_BYTES + 100_000
    assert f"{5000 - MAX_FILES:,} more" in made
    assert len(outputs(finished(reply="é" * 2_000_000)).encode()) < 1_000_000


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The problem is a sentence, and the other file is written."""
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "output")}
    [problem] = write_files([finished()], env)
    assert problem.startswith("GITHUB_STEP_SUMMARY cannot be written")
    assert read_outputs((tmp_path / "output").read_text("utf-8"))["reply"] == "Done."


def test_a_step_of_a_workflow(tmp_path: Path) -> None:
    """With the variables of a runner, a run writes its summary and its outputs beside its log."""
    desk = Desk(tmp_path)
    desk.env.update(
        GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(tmp_path / "summary"), GITHUB_OUTPUT=str(tmp_path / "output")
    )
    desk.run("first prompt")
    found = read_outputs((tmp_path / "output").read_text("utf-8"))
    assert (found["outcome"], found["reply"], found["session_id"]) == ("ok", "You said: first prompt", "s-first")
    assert json.loads(found["changed_files"]) == []
    assert "> You said: first prompt" in (tmp_path / "summary").read_text("utf-8")
