"""`penstock acp` whose client, pipe, process and server are killed at random: what a client sees when it returns.

`PENSTOCK_SOAK=1` does so 200 times, each ten by a seed of their own.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from cut_editor import CutEditor, Machine, Message, connected
from waiting import is_alive, until

COUNT = 10
SEEDS = range(20 if os.environ.get("PENSTOCK_SOAK") else 1)
TURNS_EACH_CHAT = 5
KINDS = ("client", "into", "out of", "agent", "server", "client and server")
"""What is killed: the client, its pipe after some bytes in either direction, `penstock acp`, the server."""
CASES = ("text", "thinktools", "tools", "parallel")
MAX_PROMPT_BYTES, MAX_ANSWER_BYTES = 250, 4000
"""Bytes of a prompt, and of the updates of most of these turns."""


class Moment:
    """One prompt, and what is killed while it is answered."""

    def __init__(self, number: int, dice: random.Random) -> None:
        self.kind = KINDS[number % len(KINDS)]
        self.name = f"prompt{number}"
        before, between = dice.choice((0, 0, 0.2)), dice.choice((0.001, 0.01, 0.02))
        self.text = f"{dice.choice(CASES)} {before} {between} {self.name}"
        self.seconds = dice.choice((0.0, 0.05, 0.3, 1.0)) * dice.random()
        """Time before the kill."""
        self.is_at_work = dice.random() < 0.7
        """Whether this time begins when the agent has started, and not with the prompt."""
        self.limits: dict[str, int] = {}
        if self.kind == "into":
            self.limits["bytes_in"] = dice.randint(1, MAX_PROMPT_BYTES)
        elif self.kind == "out of":
            self.limits["bytes_out"] = dice.randint(1, MAX_ANSWER_BYTES)
        self.signal = dice.choice((signal.SIGKILL, signal.SIGHUP, signal.SIGTERM))

    def __str__(self) -> str:
        return f"{self.kind}, {self.text!r}, {self.seconds:.3f} s, {self.is_at_work}, {self.limits}, {self.signal.name}"

    @property
    def leaves_server(self) -> bool:
        """Whether the server lives on."""
        return "server" not in self.kind

    @property
    def leaves_client(self) -> bool:
        """Whether the client and its agent live on."""
        return self.kind == "server"


class Seen:
    """What a client saw of a turn before the kill."""

    def __init__(self, updates: list[Message], answer: Message | None) -> None:
        self.updates, self.answer = updates, answer


class Figures:
    """What came of all moments."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        """From the request of a client that returns until all text was there."""
        self.found: Counter[str] = Counter()

    def __str__(self) -> str:
        times = sorted(self.seconds)
        middle, last = (f"{times[at]:.3f} s" for at in (len(times) // 2, -1))
        return f"{len(times)} returns; the text was there after {middle} (median), {last} (most); {dict(self.found)}"


def text_of(updates: Sequence[Message], message: str) -> str:
    """The text of a message."""
    texts = (it for it in updates if it["sessionUpdate"].endswith("_message_chunk") and it["messageId"] == message)
    return "".join(it["content"]["text"] for it in texts)


def of_turn(updates: list[Message], turn: int) -> list[Message]:
    """The updates after those of a turn's prompt: of the last turn, to the end."""
    prompts = [at for at, it in enumerate(updates) if it.get("messageId") == f"t{turn}.prompt"]
    return updates[prompts[-1] + 1 :] if prompts else []


class Attacked:
    """A chat whose clients and servers are killed."""

    def __init__(self, machine: Machine, figures: Figures) -> None:
        self.machine, self.figures = machine, figures
        self.session: str | None = None
        """The chat, once a client has its id."""

    def attack(self, moment: Moment) -> None:
        """Prompt, kill, return, and look at everything."""
        with connected(self.machine, **moment.limits) as first:
            agent = first.begin()
            session = self.session = self.session or str(first.result("session/new", **self._place)["sessionId"])
            if self.turns():
                first.result("session/load", sessionId=session, **self._place)
            first.forget()
            prompt = first.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": moment.text}])
            self._kill(first, moment, prompt, agent)
            if moment.leaves_client:
                first.answer(prompt)
            else:
                first.end()
            seen = Seen(first.updates, first.answered(prompt))
            if moment.leaves_client:
                self._return(first, moment, seen)
        if not moment.leaves_client:
            if not self._is_begun(moment) and not self._ever_begins(moment, agent):
                assert not seen.updates, "what was shown is lost"
                assert seen.answer is None
                self.figures.found["not begun"] += 1
                self.session = self.session if self.turns() else None
                return
            with connected(self.machine) as back:
                back.begin()
                self._return(back, moment, seen)

    @property
    def _place(self) -> Message:
        return {"cwd": str(self.machine.work), "mcpServers": []}

    def _kill(self, editor: CutEditor, moment: Moment, prompt: int, agent: int) -> None:
        if moment.is_at_work:
            is_past = lambda: self.machine.starts()[moment.name] or editor.is_answered(prompt)  # noqa: E731
            until(is_past, "the agent starts")
        time.sleep(moment.seconds)
        if not moment.leaves_server:
            self.machine.kill_server()
        if moment.kind == "agent":
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, moment.signal)

    def turns(self) -> list[Message]:
        """The turns as the page has them."""
        return [] if self.session is None else self.machine.turns(self.session)

    def _turn(self, moment: Moment) -> Message | None:
        return next((turn for turn in self.turns() if turn["prompt"] == moment.text), None)

    def _is_begun(self, moment: Moment) -> bool:
        return self._turn(moment) is not None

    def _ever_begins(self, moment: Moment, agent: int) -> bool:
        """Whether a prompt that the server did not have at the kill is taken by the time that the process has ended."""
        with connected(self.machine) as looking:  # which starts a server if none runs
            looking.begin()
            looking.result("session/list")
            until(lambda: self._is_begun(moment) or not is_alive(agent), "the process of the client that is gone ends")
            return self._is_begun(moment)

    def _return(self, back: CutEditor, moment: Moment, seen: Seen) -> None:
        """Load the session, twice: what is shown, and goes on, is what the client saw and the page has."""
        assert self.session is not None
        back.result("session/list")  # there is a server again
        back.forget()
        begin = time.monotonic()
        back.result("session/load", sessionId=self.session, **self._place)
        self.figures.seconds.append(time.monotonic() - begin)
        at_once = back.updates
        turn = until(lambda: self._turn(moment))
        number = turn["turn"]
        shown = of_turn(at_once, number)
        assert shown[: len(seen.updates)] == seen.updates, "what was shown is not shown again"
        turn = until(lambda: self._ended(moment), "the turn ends")
        is_there = lambda: self._is_whole(back.updates, turn)  # noqa: E731
        until(is_there, "the client that returned has the whole turn")
        self.figures.found["in the middle" if len(back.updates) > len(at_once) else "at the end"] += 1
        whole = back.updates
        back.forget()
        back.result("session/load", sessionId=self.session, **self._place)
        assert back.updates == whole, "a second look shows something else"
        turns = self.turns()
        assert [it["prompt"] for it in turns].count(moment.text) == 1
        for one in turns:
            assert text_of(whole, f"t{one['turn']}.prompt") == one["prompt"]
            assert self._is_whole(whole, one)
        self._judge_end(moment, turn, seen.answer)

    def _ended(self, moment: Moment) -> Message | None:
        turn = self._turn(moment)
        return turn if turn is not None and turn.get("finalized") else None

    def _is_whole(self, updates: list[Message], turn: Message) -> bool:
        message = turn.get("message", "")
        number, ended_well = turn["turn"], turn["outcome"] == "ok"
        if bool(text_of(updates, f"t{number}.end")) == ended_well:
            return False
        return text_of(updates, f"t{number}") == (message if message.strip() else "")

    def _judge_end(self, moment: Moment, turn: Message, answer: Message | None) -> None:
        """No second run; a turn survives its client, and ends in no success if its agent was killed."""
        outcome = turn["outcome"]
        self.figures.found[outcome] += 1
        starts = self.machine.starts()[moment.name]
        assert starts == 1 if outcome == "ok" else starts <= 1
        assert outcome == "ok" or (outcome == "cut_off" and turn["reason"] and not moment.leaves_server)
        if answer is not None:
            assert ("result" in answer) == (outcome == "ok"), answer
        else:
            assert not moment.leaves_client


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_who_returns_after_a_kill_sees_the_same_text_and_nothing_ran_twice(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was killed, what the client saw is shown again, the turn goes on or says why not, and it ran once."""
    figures, dice = Figures(), random.Random(seed)
    with Machine(tmp_path) as machine:
        chat = Attacked(machine, figures)
        for number in range(COUNT):
            if number % TURNS_EACH_CHAT == 0:
                chat = Attacked(machine, figures)
            moment = Moment(seed * COUNT + number, dice)
            try:
                chat.attack(moment)
            except BaseException as error:
                error.add_note(f"moment {number}: {moment}")
                raise
        starts = machine.starts()
    assert max(starts.values()) == 1, "an agent was started twice for one prompt"
    with capsys.disabled():
        sys.stdout.write(f"\n{figures}\n")
