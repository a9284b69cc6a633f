"""`--junit` and the groups of agents in a log of GitHub: what a CI service reads, and nothing an agent could add."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.agent_groups import AgentGroups
from penstock.cli.github import Finished
from penstock.cli.junit import MAX_FAILED_CALLS, FailedCalls, report
from penstock.events import ToolCalled, ToolReturned, Usage
from penstock.run.result import Result

TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

how = sys.argv[1]
sys.stdin.read()
say(type="system", subtype="init", session_id=how, model="m1")
for step in range(3):
    time.sleep(0.2)
    call = {"type": "tool_use", "id": "t%d" % step, "name": "Bash", "input": {"command": "make %s" % how}}
    say(type="assistant", message={"id": "m%d" % step, "content": [call]})
    text = "::endgroup::\\n::error::x"
    result = {"type": "tool_result", "tool_use_id": "t%d" % step, "content": text, "is_error": True}
    say(type="user", message={"content": [result]})
failed = how == "bad"
say(type="result", subtype="success", is_error=failed, result="over", session_id=how,
    **({"api_error_status": 529} if failed else {}),
    **({"permission_denials": [{"tool_use_id": "t0"}]} if how == "denied" else {}))
"""


def finished(**fields: object) -> Finished:
    """Return a run of claude that has ended."""
    values = {"agent": "claude", "outcome": "ok", "reply": "Done.", "session_id": "s1", **fields}
    return Finished("claude", Result(**values), 1500)  # type: ignore[arg-type]


def parsed(data: bytes) -> ElementTree.Element:
    """Return the suite of a report."""
    [suite] = ElementTree.fromstring(data)
    return suite


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a command with three scripted agents."""
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    config = [
        f'[agents.{how}]\nadapter = "claude"\ncommand = ["{sys.executable}", "{tmp_path / "agent.py"}", "{how}"]\n'
        for how in ("good", "bad", "denied")
    ]
    (tmp_path / "config.toml").write_text("\n".join(config), "utf-8")
    places = {"PENSTOCK_CONFIG": str(tmp_path / "config.toml"), "PENSTOCK_DATA": str(tmp_path / "data")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return {**kept, **places}


def penstock(env: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `penstock run` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "penstock", "run", *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def test_a_run_that_ended_well_is_a_test_that_passed() -> None:
    """With its time, reply and figures; what failed on the way is there, and is no failure."""
    run = finished(usage=Usage(12, 3), cost_usd=0.5)
    suite = parsed(report([(run, "Bash: make (exit 2)")], fails_if_denied=False))
    assert (suite.get("tests"), suite.get("failures"), suite.get("time")) == ("1", "0", "1.500")
    [case] = suite
    assert (case.get("classname"), case.get("name"), case.find("failure")) == ("penstock.run", "claude", None)
    facts = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert facts["input_tokens"] == "12"
    assert facts["cost_usd"] == "0.5"
    assert case.findtext("system-out") == "Done."
    assert case.findtext("system-err") == "Bash: make (exit 2)"


def test_a_failure_says_what_failed() -> None:
    """Its outcome and reason, and the calls that failed."""
    run = finished(outcome="timed_out", reason="the time limit of 4 s was reached")
    suite = parsed(report([(run, "Bash: make (exit 2)"), (finished(), "")], fails_if_denied=False))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite[0].find("failure")
    assert failure is not None
    assert failure.get("message") == "timed out: the time limit of 4 s was reached"
    assert "Bash: make (exit 2)" in (failure.text or "")


@pytest.mark.parametrize("fails_if_denied", [False, True])
def test_a_refusal_fails_as_the_run_does(fails_if_denied: bool) -> None:
    """It is a failure with --fail-on-refusal, and a figure without it."""
    [case] = parsed(report([(finished(refused=2), "")], fails_if_denied=fails_if_denied))
    failure = case.find("failure")
    assert (failure is not None) == fails_if_denied
    if failure is not None:
        assert failure.get("message") == "refused: 2 actions were not allowed"
    assert any(one.get("value") == "2" for one in case.iter("property"))


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_makes_a_file_that_can_be_read(text: str) -> None:
    """Control characters, halves of characters and markup are text, and end nothing."""
    run = Finished(text, finished(outcome="error", reason=text, reply=text).result, None)
    suite = parsed(report([(run, text)], fails_if_denied=False))
    assert [child.tag for child in suite] == ["testcase"]
    assert "\x1b" not in ElementTree.tostring(suite, encoding="unicode")


def test_calls_that_failed_are_bounded() -> None:
    """The last ones with the last lines of each; those that succeeded are not there."""
    calls = FailedCalls()
    for number in range(MAX_FAILED_CALLS + 5):
        id = f"t{number}"
        calls.observe(
            [
                ToolCalled(agent="a", call_id=id, name="Bash", input={}, title=f"make {number}", tool_kind="execute"),
                ToolReturned(agent="a", call_id=id, text="line\n" * 50, is_error=False, complete=True, exit_code=2),
            ]
        )
    good = ToolReturned(agent="a", call_id="x", text="fine", is_error=False, complete=True, exit_code=0)
    calls.observe([good, ToolReturned(agent="a", call_id="y", text="", is_error=True, complete=True, refused=True)])
    assert "make 5 " not in calls.text
    assert "make 24 (exit 2)" in calls.text
    assert "(refused)" in calls.text
    assert "fine" not in calls.text
    assert calls.text.count("line") == 10 * (MAX_FAILED_CALLS - 1)


@pytest.mark.slow
def test_the_report_of_two_agents(env: dict[str, str], tmp_path: Path) -> None:
    """It is written as a whole, and the exit status stays."""
    done = penstock(env, tmp_path, "good,bad", "hi", "--junit", "report.xml")
    assert done.returncode == 1
    good, bad = parsed((tmp_path / "report.xml").read_bytes())
    assert (good.get("name"), good.find("failure")) == ("good", None)
    assert "make good (failed)" in (good.findtext("system-err") or "")
    failure = bad.find("failure")
    assert failure is not None
    assert failure.get("type") == "error"
    assert sorted(path.name for path in tmp_path.glob("*.xml")) == ["report.xml"]


@pytest.mark.slow
@pytest.mark.parametrize("is_above", [False, True])
def test_a_report_whose_place_the_agent_replaced(env: dict[str, str], tmp_path: Path, is_above: bool) -> None:
    """An agent that makes a link of the report, or of its directory, does not have another file written."""
    mine, place = tmp_path / "mine", tmp_path / "out"
    for folder in (mine, place):
        folder.mkdir()
        (folder / "report.xml").write_text(folder.name)
    act = (
        f"mv {place} {place}.old; ln -s {mine} {place}" if is_above else f"ln -sf {mine}/report.xml {place}/report.xml"
    )
    with open(tmp_path / "config.toml", "a") as config:
        config.write(f'[agents.swaps]\nadapter = "claude"\ncommand = ["sh", "-c", "{act}"]\n')
    done = penstock(env, tmp_path, "swaps", "hi", "--junit", "out/report.xml")
    assert done.returncode != 0
    assert (mine / "report.xml").read_text() == "mine"
    assert ("its directory was replaced" in done.stderr) == is_above
    if not is_above:
        assert parsed((place / "report.xml").read_bytes())


@pytest.mark.parametrize(
    "place", ["", ".", "nowhere/report.xml", "config.toml/report.xml", "/dev/null", "pipe", "n" * 300]
)
@pytest.mark.slow
def test_a_report_that_cannot_be_written(env: dict[str, str], tmp_path: Path, place: str) -> None:
    """The error comes before the start, in one line."""
    os.mkfifo(tmp_path / "pipe")
    done = penstock(env, tmp_path, "good", "hi", f"--junit={place}")
    assert not Path("/dev/null").is_file()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("penstock: argument --junit: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_each_agent_has_a_group_in_a_log_of_github(env: dict[str, str], tmp_path: Path) -> None:
    """Agents that work side by side are not mixed, and nothing they print ends a group or begins another."""
    done = penstock(env | {"GITHUB_ACTIONS": "true"}, tmp_path, "good,bad,denied", "hi")
    commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert commands[:6] == [
        "::group::good",
        "::endgroup::",
        "::group::bad",
        "::endgroup::",
        "::group::denied",
        "::endgroup::",
    ]
    groups = re.findall(r"(?s)^::group::(\w+)\n(.*?)^::endgroup::\n", done.stdout, re.MULTILINE)
    for name, text in groups:
        assert {line.partition("]")[0] for line in text.splitlines() if line.startswith("[")} == {f"[{name}"}
        assert text.count("make") >= 3
    assert "::group::" not in penstock(env | {"GITHUB_ACTIONS": "true"}, tmp_path, "good", "hi").stdout
    assert "::group::" not in penstock(env, tmp_path, "good,bad", "hi").stdout


def test_the_first_agent_that_works_is_written_as_it_goes() -> None:
    """Others wait; one that never wrote has no group; whatever waits at an early end is written."""
    written: list[str | bytes] = []
    groups = AgentGroups(["a", "b", "c", "d"], written.append)
    groups.write(1, "b1\n")
    groups.write(0, "a1\n")
    assert written == ["::group::a\n", "a1\n"]
    groups.end(1)
    groups.end(0)
    assert written[2:] == ["::endgroup::\n", "::group::b\n", "b1\n", "::endgroup::\n"]
    groups.write(3, "d1\n")
    groups.close()
    groups.close()
    assert written[6:] == ["::group::d\n", "d1\n", "::endgroup::\n"]
