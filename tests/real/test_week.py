"""A week of work in a terminal with real agents, whose model fails at times: what is known of it afterwards is true.

Each run is typed at a terminal. After each day all that is stored becomes a day older. What the model servers have
answered, counted by them, is what `penstock cost` adds up.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import scenarios
from dialects import INPUT_TOKENS, OUTPUT_TOKENS
from install import NotInstalled
from scenarios import Refuse
from setups import Bench, Target, bench
from terminal_reader import read_terminal
from waiting import until

FULL = bool(os.environ.get("PENSTOCK_SOAK"))
TARGETS = Target("claude", "exec"), Target("codex", "server"), Target("opencode", "server"), Target("pi", "exec")
SECONDS = 300
"""Seconds after which a run hangs."""
KEPT_DAYS = 14
NO_CREDIT = Refuse(400, "Your credit balance is too low to access the API.")
OVERLOADED = Refuse(529, "Overloaded")
DOES = "--allow", "all"
AGAIN = "-c"
RETRY = "--retry", "1"


class Step(NamedTuple):
    """One command of a day."""

    agent: str
    scenario: str
    words: tuple[str, ...] = ()
    folder: str = "app"
    refusal: Refuse | None = None
    """What the agent's model says to all requests; with `RETRY`, until the first attempt has failed."""

    @property
    def fallback(self) -> str | None:
        """Agent that takes over."""
        return self.words[1] if "--fallback" in self.words else None

    @property
    def agents(self) -> list[str]:
        """Agent of each run that it starts."""
        if self.fallback is not None:
            return [self.agent, self.fallback]
        return [self.agent] * (2 if RETRY[0] in self.words else 1)

    @property
    def fails(self) -> bool:
        """Whether its last run fails."""
        return self.scenario.startswith("err")


WORKDAY = (Step("claude", "text"), Step("codex", "tools", DOES), Step("pi", "tools", DOES))
MENDED = (Step("claude", "history", (AGAIN,)), Step("codex", "toolerror", DOES), Step("pi", "history", (AGAIN,)))
FAILING = (
    Step("claude", "text", ("--fallback", "codex"), "docs", NO_CREDIT),
    Step("claude", "thinking", RETRY, "app", OVERLOADED),
    Step("codex", "err500", (), "docs"),
    Step("pi", "errstream", (), "docs"),
)
OTHER = (Step("opencode", "tools", DOES), Step("opencode", "history", (AGAIN,)))
WEEK = (
    (*WORKDAY, *OTHER),
    (*MENDED, Step("claude", "tools", DOES, "docs")),
    FAILING,
    (*MENDED, Step("pi", "thinking", RETRY, "docs", OVERLOADED), Step("pi", "toolerror", DOES)),
    (*WORKDAY, Step("codex", "text", (), "docs")),
    (*MENDED, Step("claude", "err500", (), "docs"), Step("opencode", "text", (), "docs")),
    (Step("claude", "history", (AGAIN,)), Step("codex", "history", (AGAIN,)), Step("pi", "thinking")),
)
"""Thirty commands. Conversations go on a day later."""
PART = WEEK[0], FAILING, WEEK[1][:2]


class Shown(NamedTuple):
    """What a command printed."""

    status: int
    out: str
    errors: str


class Figures:
    """Runs, and the answers of the model that they used, as they are counted here."""

    def __init__(self) -> None:
        self.runs = 0
        self.answers = 0
        self.priced = 0
        """Answers to claude, which knows a price."""

    def as_told(self, price: Decimal) -> tuple[int, int, int, Decimal]:
        """What `penstock cost` must say: runs, tokens in and out, and the cost."""
        return self.runs, self.answers * INPUT_TOKENS, self.answers * OUTPUT_TOKENS, self.priced * price


class Work:
    """Two directories with four agents, whose runs are typed at a terminal."""

    def __init__(self, root: Path, benches: Sequence[Bench]) -> None:
        self.data = root / "data"
        self.benches = {made.target.agent: made for made in benches}
        self.folders = {name: root / name for name in ("app", "docs")}
        for folder in self.folders.values():
            folder.mkdir()
        env = {name: value for made in reversed(benches) for name, value in made.env.items()}
        path = dict.fromkeys(part for made in benches for part in made.env["PATH"].split(os.pathsep))
        noon = 12 - datetime.now(UTC).hour
        self.zone = timedelta(hours=noon)
        """Difference to UTC where the agents work: it is noon there, and no day ends before the test does."""
        self.env = {
            **env,
            "PATH": os.pathsep.join(path),
            "PENSTOCK_DATA": str(self.data),
            "PENSTOCK_COLOR": "never",
            "TERM": "xterm",
            "COLUMNS": "100",
            "TZ": f"NOON{-noon:+d}",
        }
        self.conversations: dict[tuple[str, str], list[str]] = {}
        """Scenarios of the newest conversation of an agent in a directory."""
        self.by: dict[str, dict[str, Figures]] = {"day": {}, "agent": {}, "directory": {}}
        self.steps: dict[str, list[Step]] = {name: [] for name in self.folders}

    def piped(self, *words: str, folder: str = "app") -> Shown:
        """Run a command without a terminal."""
        argv = [sys.executable, "-m", "penstock", *words]
        done = subprocess.run(
            argv, cwd=self.folders[folder], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
        )
        return Shown(done.returncode, done.stdout.decode(), done.stderr.decode())

    def lines(self, *words: str, folder: str = "app") -> list[dict[str, Any]]:
        """What a command prints as JSON."""
        return [json.loads(line) for line in self.piped(*words, "--json", folder=folder).out.splitlines()]

    def typed(self, folder: str, *words: str, then: Callable[[Callable[[], str]], None]) -> Shown:
        """Run a command at a terminal. `then` gets what returns the text on the terminal, while it runs."""
        ours, theirs = pty.openpty()
        argv = [sys.executable, "-m", "penstock", *words]
        cwd, nothing = self.folders[folder], subprocess.DEVNULL
        with subprocess.Popen(
            argv, cwd=cwd, env=self.env, stdin=nothing, stdout=theirs, stderr=subprocess.PIPE
        ) as process:
            os.close(theirs)
            found, reader = read_terminal(ours)
            then(lambda: found.decode("utf-8", "replace"))
            _, errors = process.communicate(timeout=SECONDS)
        reader.join()
        return Shown(process.returncode, found.decode().replace("\r\n", "\n"), errors.decode())

    def do(self, step: Step, age: int) -> None:
        """Do a step, compare what it shows with what the model said, and count. `age` of its day, in days."""
        before = {agent: len(made.server.requests) for agent, made in self.benches.items()}
        for made in self.benches.values():
            made.server.folder = self.folders[step.folder]
        server = self.benches[step.agent].server
        server.rejects = step.refusal

        def lift(screen: Callable[[], str]) -> None:
            if RETRY[0] in step.words:
                until(lambda: "✗ failed:" in screen(), "the first attempt fails", SECONDS)
                server.rejects = None

        prompt = f"scenario={step.scenario} please"
        shown = self.typed(step.folder, "run", step.agent, prompt, *step.words, then=lift)
        server.rejects = None
        assert shown.status == (1 if step.fails else 0), shown
        self.check_conversation(step, shown)
        day = (datetime.now(UTC) + self.zone - timedelta(days=age)).strftime("%Y-%m-%d")
        for agent, runs in {name: step.agents.count(name) for name in step.agents}.items():
            asked = self.benches[agent].server.requests[before[agent] :]
            answers = sum(request.scenario is not None and request.is_whole for request in asked)
            places = {"day": day, "agent": agent, "directory": str(self.folders[step.folder].resolve())}
            for kind, name in places.items():
                figures = self.by[kind].setdefault(name, Figures())
                figures.runs += runs
                figures.answers += answers
                figures.priced += answers if agent == "claude" else 0
        self.steps[step.folder].append(step)

    def check_conversation(self, step: Step, shown: Shown) -> None:
        """The model got the prompts of the conversation that goes on, or of a new one, and no other."""
        key = step.agents[-1], step.folder
        known = self.conversations.get(key, []) if AGAIN in step.words else []
        self.conversations[key] = [*known, step.scenario]
        if step.scenario == "history":
            assert scenarios.history(self.conversations[key]) in " ".join(shown.out.split()), shown
        if step.fallback is not None:
            assert f"{step.fallback} takes over" in shown.errors, shown
        if RETRY[0] in step.words:
            assert "retry 1 of 1, in 5.0 s" in shown.out, shown

    def a_day_passes(self, days: int = 1) -> None:
        """Let all that is stored become older."""
        history = self.data / "history.ndjson"
        lines = [json.loads(line) for line in history.read_text("utf-8").splitlines()]
        renamed = {}
        for folder in (self.data / "recordings").iterdir():
            label, began, mark = folder.name.rsplit("-", 2)
            at = datetime.strptime(began, "%Y%m%dT%H%M%SZ") - timedelta(days=days)
            older = folder.with_name(f"{label}-{at:%Y%m%dT%H%M%SZ}-{mark}")
            meta = json.loads((folder / "meta.json").read_text("utf-8"))
            started = datetime.fromisoformat(meta["started_at"]) - timedelta(days=days)
            (folder / "meta.json").write_text(json.dumps({**meta, "started_at": started.isoformat()}), "utf-8")
            renamed[str(folder)] = str(folder.rename(older))
        for line in lines:
            line["at"] -= round(timedelta(days=days).total_seconds() * 1000)
            if "recording" in line:
                line["recording"] = renamed[line["recording"]]
        history.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    """The two directories, and all four agents."""
    with ExitStack() as stack:
        benches = []
        for target in TARGETS:
            (tmp_path / target.agent).mkdir()
            try:
                benches.append(stack.enter_context(bench(target, tmp_path / target.agent)))
            except NotInstalled as error:
                pytest.skip(str(error))
        yield Work(tmp_path, benches)


def test_a_week_of_work(work: Work) -> None:
    """Conversations go on over days; each run is shown again as it was; sums by day, agent and directory are exact."""
    days = WEEK if FULL else PART
    for number, steps in enumerate(days):
        for step in steps:
            work.do(step, age=0)
        if number < len(days) - 1:
            work.a_day_passes()
            work.by["day"] = {_day_before(day): figures for day, figures in work.by["day"].items()}
    _check_costs(work)
    for folder, done in work.steps.items():
        _check_history(work, folder, done)
        for number, step in enumerate(reversed(done), 1):
            _check_shown(work, folder, str(number), step)
    assert work.piped("last", "--reply").out == work.piped("show", "1", "--reply").out
    _check_that_recordings_end(work, days[-1][-1])


def _day_before(day: str) -> str:
    return (datetime.fromisoformat(day) - timedelta(days=1)).strftime("%Y-%m-%d")


def _check_costs(work: Work) -> None:
    """All sums are those of the model servers, and the cost is the price of an answer as often as there were some."""
    first = next(run for run in work.lines("history", "--all") if run["agent"] == "claude" and run["outcome"] == "ok")
    price = Decimal(repr(first["cost_usd"])) / (first["output_tokens"] // OUTPUT_TOKENS)
    assert price > 0
    for kind, known in work.by.items():
        told = {
            row["name"]: (row["runs"], row["input_tokens"], row["output_tokens"], Decimal(str(row["cost_usd"])))
            for row in work.lines("cost", "--by", kind)
        }
        assert told == {name: figures.as_told(price) for name, figures in known.items()}, kind
    table = work.piped("cost", "--by", "agent").out.splitlines()
    assert [line.split()[0] for line in table] == ["agent", *sorted(work.benches), "total"]


def _check_history(work: Work, folder: str, steps: Sequence[Step]) -> None:
    """Each command is listed, with its agents and how each of their runs ended."""
    table = work.piped("history", "--limit", "100", folder=folder).out.splitlines()[1:]
    listed = [
        (line.split()[0], f" {','.join(dict.fromkeys(step.agents))} " in line)
        for line, step in zip(table, steps, strict=True)
    ]
    assert listed == [(str(len(steps) - number), True) for number in range(len(steps))], table


def _check_shown(work: Work, folder: str, number: str, step: Step) -> None:
    """A run can be shown again: its reply, changes, failures and log."""

    def shown(*words: str) -> Shown:
        return work.piped("show", number, *words, folder=folder)

    again = shown()
    assert again.status == (1 if step.fails else 0), again
    said = scenarios.texts(step.scenario)
    if step.scenario != "history" and not step.fails:
        assert shown("--reply").out.strip() == said[-1].strip(), again
    if step.scenario == "tools":
        assert "+++ notes.txt" in shown("--diff").out, again
    elif step.scenario == "toolerror":
        failures = shown("--failures").out
        assert "err" in failures, failures
        assert "The command failed with status 3" not in failures
    elif step.fails or len(step.agents) > 1:
        assert "failed" in shown("--failures").out, again
    else:
        assert "nothing failed" in shown("--failures").errors, again
        log = shown("--log").out
        assert "session " in log, log
        assert all(text.split("\n")[0][:20] in log for text in said), log


def _check_that_recordings_end(work: Work, last: Step) -> None:
    """After 14 days the recordings are gone with the next run; what was spent is known for longer."""
    before = work.lines("cost", "--by", "agent")
    work.a_day_passes(KEPT_DAYS)
    work.do(Step("pi", "text"), age=0)
    assert len(list((work.data / "recordings").iterdir())) == 1
    assert work.piped("last", "--reply").out.strip() == scenarios.texts("text")[-1].strip()
    assert work.piped("show", "2").status == 2
    after = {row["name"]: row for row in work.lines("cost", "--by", "agent")}
    assert {row["name"]: row for row in before if row["name"] != "pi"}.items() <= after.items()
