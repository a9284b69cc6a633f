"""Whole loops with candidates: scripted agents that work side by side, each in a tree of its own."""

from __future__ import annotations

import asyncio

import pytest
from hostile_agents import HOSTILE
from loop_desk import Desk, began

from penstock.loop import Loop
from penstock.loop.rows import LoopBudget, RoleAgents, Settings
from penstock.loop.state import LoopState

pytestmark = pytest.mark.slow

SMALL = 'if [ ! -e done ]; then echo a > done; reply "Add a small part"; else reply "All is done."; fi'
LARGE = 'if [ ! -e done ]; then seq 9 > done; echo b > more; reply "Add a large part"; else reply "All is done."; fi'
BROKEN = 'echo x > wrong; reply "Add the wrong part"'
PICKS = r"""
grep -q "^+1$" "$DESK/prompt.$$" || exit 1
line() { grep -n "$1" "$DESK/prompt.$$" | head -n 1 | cut -d: -f1; }
if [ "$(line "^+9$")" -lt "$(line "^Change 2")" ]; then n=1; else n=2; fi
cat <<END
{"type":"result","subtype":"success","is_error":false,"result":"{\"better\": $n}","total_cost_usd":0.01}
END
"""
"""A judge that prefers the change with a line 9, wherever it is shown."""


def settings(desk: Desk, *agents: str, **fields: object) -> Settings:
    """Return settings with candidates."""
    return desk.settings(*dict.fromkeys(agents), candidates=agents, **fields)


def chosen(state: LoopState) -> list[tuple[str, str]]:
    """Return the agent of each round that was chosen, and why."""
    return [(it.agent, it.chosen_reason) for it in state.rounds]


def test_the_smaller_of_two_green_candidates_goes_on(desk: Desk) -> None:
    """Both are green: the smaller change is committed, and the other one is kept by a ref; the user's files stay."""
    desk.agent("large", LARGE)
    desk.agent("small", SMALL)
    before = desk.user.state()
    status, state = desk.run(settings(desk, "large", "small"))
    assert status == 0
    assert chosen(state) == [("small", "the smaller change"), ("large", "all have the same result")]
    assert desk.subjects() == ["Add a small part"]
    assert set(desk.files()) == {"PROMPT.md", "README", "done", "src/a.py", "src/b.py"}
    assert desk.user.git("show", "refs/penstock/l1.large/1:more") == "b"
    assert desk.user.git("show", "refs/penstock/l1/1:done") == "a"
    assert desk.user.state() == before
    assert state.used.rounds == 2


def test_a_green_candidate_is_better_than_a_smaller_red_one(desk: Desk) -> None:
    """Checks come first: the smaller change that fails them is not chosen."""
    desk.agent("large", LARGE)
    desk.agent("broken", BROKEN)
    _, state = desk.run(settings(desk, "broken", "large", budget=LoopBudget(rounds=1)))
    assert chosen(state) == [("large", "the only green one")]
    assert state.rounds[0].candidates[0].red_command == "test -e done"
    assert desk.user.git("show", "refs/penstock/l1.broken/1:wrong") == "x"


def test_candidates_work_at_the_same_time(desk: Desk) -> None:
    """Each candidate waits for the other one, so a loop that ran them one after the other would hang."""
    meet = 'touch "$DESK/{0}.here"; while [ ! -e "$DESK/{1}.here" ]; do sleep 0.02; done\n'
    desk.agent("one", meet.format("one", "two") + SMALL)
    desk.agent("two", meet.format("two", "one") + LARGE)
    status, _ = desk.run(settings(desk, "one", "two", step_seconds=30.0))
    assert status == 0


def test_a_judge_sees_both_orders_and_decides(desk: Desk) -> None:
    """Both are green: a judge who prefers the larger change in both orders decides for it."""
    desk.agent("small", SMALL)
    desk.agent("large", LARGE)
    desk.agent("judge", PICKS)
    journal = desk.begin(settings(desk, "small", "large", judge=RoleAgents(agents=("judge",))))
    engine, watcher = desk.engine(journal)
    assert engine.run() == 0
    journal.close()
    assert [step.pair for step in began(watcher.rows) if step.role == "judge"] == [(1, 2), (2, 1)]
    assert chosen(engine.state)[0] == ("large", "the judge prefers it")
    prompts = [path.read_text() for path in desk.scripts.glob("prompt.*") if "Change 1" in path.read_text()]
    assert len(prompts) == 2
    assert not [text for text in prompts if "small" in text or "large" in text]


def test_a_judge_without_a_choice_leaves_the_smaller_change(desk: Desk) -> None:
    """A judge that always prefers what it sees first has made no choice."""
    desk.agent("large", LARGE)
    desk.agent("small", SMALL)
    desk.agent("judge", 'reply "{\\\\\\"better\\\\\\": 1}"')
    _, state = desk.run(settings(desk, "large", "small", judge=RoleAgents(agents=("judge",))))
    assert [it.better for it in state.rounds[0].comparisons] == [1, 2]
    assert chosen(state)[0] == ("small", "the smaller change, as the judge preferred none")


def test_a_candidate_at_its_limit_sits_the_round_out(desk: Desk) -> None:
    """One candidate is at its usage limit: the other one goes on alone, and the loop is done."""
    desk.agent("limited", "limited 4102444800")
    desk.agent("small", SMALL)
    status, state = desk.run(settings(desk, "limited", "small"))
    assert status == 0
    assert chosen(state)[0] == ("small", "the only one that could work")
    assert state.rounds[0].candidates[0].sits_out


def test_all_candidates_at_their_limits(desk: Desk) -> None:
    """All are at their limits: status 6, and no round is charged."""
    desk.agent("one", "limited 4102444800")
    desk.agent("two", "limited 4102444900")
    status, state = desk.run(settings(desk, "one", "two"))
    assert (status, state.used.rounds) == (6, 0)
    assert state.ended is not None
    assert "one resets first" in state.ended.reason


def test_an_approved_candidate_is_better_than_a_smaller_one(desk: Desk) -> None:
    """Reviewers look at each green candidate in its own tree; the approved one is chosen, and the loop is done."""
    desk.agent("small", SMALL)
    desk.agent("large", LARGE)
    desk.agent("reviewer", 'if [ -e more ]; then reply "{\\\\\\"approved\\\\\\": true}"; else reply "No."; fi')
    status, state = desk.run(settings(desk, "small", "large", reviews=(RoleAgents(agents=("reviewer",)),)))
    assert status == 0
    assert chosen(state) == [("large", "the only approved one")]
    assert desk.subjects() == ["Add a large part"]


def test_all_candidates_begin_with_the_result_that_was_chosen(desk: Desk) -> None:
    """A red round is gone on with: in round 2 each candidate has the files of the chosen one, and only these."""
    first = 'if [ ! -e half ]; then echo {0} > half; {1}; reply "Add half"; '
    desk.agent("one", first.format("1", "true") + 'else cp half done; reply "Add done"; fi')
    desk.agent("two", first.format("2", "seq 99 > rest") + 'else cp half done; touch ok; reply "Add done"; fi')
    status, state = desk.run(settings(desk, "one", "two"))
    assert status == 0
    assert chosen(state)[:2] == [("one", "the smaller change"), ("one", "the smaller change")]
    assert desk.user.git("show", "refs/penstock/l1.two/2:done") == "1"
    assert "rest" not in desk.user.git("ls-tree", "--name-only", "refs/penstock/l1.two/2").split()


def test_what_a_candidate_has_that_is_held_back_is_moved_not_lost(desk: Desk) -> None:
    """A key in a candidate's files is in no ref, and is in the folder of the loop when the next round begins."""
    desk.agent("leaky", 'if [ ! -e half ]; then touch half; echo "KEY=1" > prod.env; reply "Add"; else touch done; fi')
    desk.agent("small", SMALL.replace("done", "half", 1).replace("> done", "> half"))
    desk.run(settings(desk, "leaky", "small", budget=LoopBudget(rounds=2)))
    assert (desk.data / "loops" / "l1" / "rounds" / "001" / "held-leaky" / "prod.env").read_text() == "KEY=1\n"
    assert not (desk.folder / "work" / "app.l1.leaky" / "prod.env").exists()


def test_the_budget_is_shared_and_counts_all(desk: Desk) -> None:
    """Two candidates get half of the cost each, and both count."""
    desk.agent("small", "COST=0.25\n" + SMALL)
    desk.agent("large", "COST=0.5\n" + LARGE)
    journal = desk.begin(settings(desk, "small", "large", budget=LoopBudget(cost_usd=2.0)))
    engine, watcher = desk.engine(journal)
    assert engine.run() == 0
    journal.close()
    assert [step.cost_left for step in began(watcher.rows)] == [1.0, 1.0, 0.625, 0.625]
    assert engine.state.used.cost_usd == 1.5


@pytest.mark.parametrize(
    "action", ["deletes its git directory", "links its git directory to the user's", "plants a hook"]
)
def test_l3_a_hostile_candidate(desk: Desk, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    """A candidate that does harm in its tree changes nothing of the user's or of the other candidate's."""
    planted = desk.folder / "planted"
    monkeypatch.setenv("PLANTED", str(planted))
    monkeypatch.setenv("USER_REPO", str(desk.user.root))
    desk.agent("hostile", f'({HOSTILE[action]}) > /dev/null 2>&1; seq 9 > done; reply "Add done"')
    desk.agent("small", SMALL)
    before = desk.user.state()
    status, state = desk.run(desk.settings("hostile", "small", candidates=("hostile", "small")))
    assert (status, chosen(state)[0][0]) == (0, "small")
    assert not planted.exists()
    assert desk.user.state() == before


def test_a_program_runs_a_loop_with_candidates(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python, the settings name the candidates, and the result has all of them."""
    desk.agent("small", SMALL)
    desk.agent("large", LARGE)
    monkeypatch.setenv("PENSTOCK_CONFIG", str(desk.config_file))

    async def follow() -> LoopState:
        async with Loop(desk.prompt, settings(desk, "large", "small"), name="l1", data=desk.data) as loop:
            async for _ in loop:
                pass
        return loop.result.state

    first = asyncio.run(follow()).rounds[0]
    assert (first.chosen, [one.agent for one in first.candidates]) == (2, ["large", "small"])


def test_the_command_line_shows_the_candidates(desk: Desk) -> None:
    """Lines, tables, status and log name them; the command that the end prints shows the other change; landing removes
    all trees."""
    desk.agent("small", SMALL)
    desk.agent("large", LARGE)
    words = "loop", "PROMPT.md", "--candidates=small,large", "--check=test -e done", "--name=l1"
    dry = desk.penstock(*words, "--dry-run", "--judge=large")
    assert "candidates  small, large (allow edits)\njudge       large\n" in dry.stdout
    done = desk.penstock(*words)
    assert done.returncode == 0, done.stderr
    assert "[work/small]" in done.stdout
    assert "[work/large]" in done.stdout
    for line in ("round 1 · work large · ok", "round 1 · large · check test -e done · green",
            "round 1 · chosen: small · the smaller change"):  # fmt: skip
        assert line in done.stderr
        assert line in desk.penstock("loop", "log").stdout
    assert "chosen: the smaller change" in desk.penstock("loop", "status").stdout
    [shown] = [line for line in done.stderr.splitlines() if "to see another candidate" in line]
    assert "more" in desk.user.git(*shown.partition("git ")[2].split(), "--stat")
    assert desk.penstock("trees", "clean").stdout.count("the loop has not landed") == 3
    assert len(list(desk.user.root.parent.glob("app.l1*"))) == 3
    assert desk.penstock("loop", "land").returncode == 0
    assert not list(desk.user.root.parent.glob("app.l1*"))
    assert desk.penstock("trees").stdout == "There are no trees.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--candidates=small"], "1 candidates are named"),
        (["--candidates=small,small", "--work=small"], "exclude each other"),
        (["--work=small", "--judge=small"], "there are none"),
        (["--candidates=" + ",".join(["small"] * 9)], "9 candidates are named"),
    ],
)
def test_candidates_that_cannot_be(desk: Desk, words: list[str], message: str) -> None:
    """Too few, too many, or with --work: an error before anything is made."""
    desk.agent("small", SMALL)
    done = desk.penstock("loop", "PROMPT.md", *words, "--check=true")
    assert (done.returncode, message in done.stderr) == (2, True)
    assert not (desk.data / "loops").exists()


def test_candidates_of_the_configuration(desk: Desk) -> None:
    """`candidates` and `[loop.judge]` are read, and --work takes precedence over both."""
    desk.agent("small", SMALL)
    with desk.config_file.open("a") as file:
        file.write('[loop]\ncandidates = ["small", "small"]\n[loop.judge]\nagents = ["small"]\n')
    words = "loop", "PROMPT.md", "--check=true", "--dry-run"
    assert "candidates  small, small (allow edits)\njudge       small\n" in desk.penstock(*words).stdout
    shown = desk.penstock(*words, "--work=small").stdout
    assert "work        small" in shown
    assert "judge" not in shown


def test_the_same_agent_twice(desk: Desk) -> None:
    """Two candidates of one agent have trees and refs of their own."""
    desk.agent("small", SMALL)
    status, _ = desk.run(settings(desk, "small", "small"))
    assert status == 0
    assert desk.user.git("show", "refs/penstock/l1.small/1:done") == "a"
    assert desk.user.git("show", "refs/penstock/l1.small-2/1:done") == "a"


def test_the_setup_runs_in_each_tree(desk: Desk) -> None:
    """What the setup makes is in the tree of each candidate before its agent begins."""
    desk.user.commit("Ignore", {".gitignore": "deps\n"})
    desk.agent("one", "test -e deps && " + SMALL)
    desk.agent("two", "test -e deps && " + LARGE)
    status, state = desk.run(settings(desk, "one", "two", setup="touch deps"))
    assert status == 0
    assert all(one.work is not None and one.work.outcome == "ok" for one in state.rounds[0].candidates)
