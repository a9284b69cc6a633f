"""The service with real agents' recordings, played through the real runner."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from waiting import until_true

from penstock import events as ev
from penstock.chat.errors import (
    Conflicting,
    ContentTooLarge,
    Invalid,
    NoSuchAgent,
    NoSuchChat,
    NoSuchTurn,
    OutsideRoots,
    ShuttingDown,
    TooMany,
    UntrustedDirectory,
)
from penstock.chat.history.entries import Prompted, TurnBegan, TurnEnded
from penstock.chat.service.limits import Retention, ServiceLimits
from penstock.chat.service.validation import text_of
from penstock.chat.store.protocol import Trimmed, UnknownChat
from penstock.chat.web.schemas import Changes
from penstock.run.history import History

if TYPE_CHECKING:
    from pathlib import Path

    from chat.service.conftest import Home


@pytest.mark.slow
def test_a_prompt_becomes_a_turn(home: Home) -> None:
    """A prompt is in the store before it is acknowledged; the turn has the agent's reply, and the chat its session."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create(agent="scripted", model="m7")
            turn, new = await service.prompt(made.id, "  Hello, \t you\nthere")
            assert (turn, new) == (1, True)
            assert (await service.turns(made.id))[0][0].prompt == "  Hello, \t you\nthere"
            (view,) = await home.settled(service, made.id)
            assert (view.state, view.outcome, view.agent, view.model) == (
                "completed",
                "ok",
                "scripted",
                "claude-sonnet-4-5",
            )
            assert view.message.startswith("# Résumé — 你好，世界")
            shown = service.chat(made.id)
            assert (shown.title, shown.state, shown.turns, shown.asks) == ("Hello, you", "idle", 1, False)
            assert shown.used_at >= shown.created_at
            await service.prompt(made.id, "again")
            await home.settled(service, made.id)
        rows = await home.rows(made.id)
        home.judge(rows)
        assert [type(row.what) for row in rows[:2]] == [Prompted, TurnBegan]
        first, second = home.runs()
        assert (first["prompt"], first["model"], first["resume"]) == ("  Hello, \t you\nthere", "m7", None)
        started = next(row.what for row in rows if isinstance(row.what, ev.RunStarted))
        assert second["resume"] == started.session_id

    asyncio.run(chat())


@pytest.mark.slow
def test_runs_are_in_the_history(home: Home, tmp_path: Path) -> None:
    """Each turn is a run of the kind `chat`, with its conversation and its end; the second one resumes the first."""
    history = History(tmp_path / "data")

    async def chat() -> None:
        async with home.service(history=history) as service:
            made = await service.create()
            for prompt in ("first", "second"):
                await service.prompt(made.id, prompt)
                await home.settled(service, made.id)
            await until_true(lambda: [run.outcome for run in history.runs()] == ["ok", "ok"])

    asyncio.run(chat())
    first, second = history.runs()
    assert (first.kind, first.agent, first.title, first.cwd) == ("chat", "scripted", "first", str(home.work.resolve()))
    assert first.session_id == second.session_id
    assert first.session_id is not None


@pytest.mark.slow
def test_a_history_that_cannot_be_written_changes_no_turn(home: Home, tmp_path: Path) -> None:
    """The turn ends well, and the next one too."""
    (tmp_path / "data").touch()

    async def chat() -> None:
        async with home.service(history=History(tmp_path / "data")) as service:
            made = await service.create()
            for _ in range(2):
                await service.prompt(made.id, "hi")
                turns = await home.settled(service, made.id)
            assert [turn.outcome for turn in turns] == ["ok", "ok"]

    asyncio.run(chat())


@pytest.mark.slow
def test_turns_wait_for_each_other(home: Home) -> None:
    """A chat does one turn after another, in the order of their prompts."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            for number in range(1, 6):
                assert await service.prompt(made.id, f"prompt {number}") == (number, True)
            turns = await home.settled(service, made.id)
            assert [turn.outcome for turn in turns] == ["ok"] * 5
        home.judge(await home.rows(made.id))
        assert home.asked() == [f"prompt {number}" for number in range(1, 6)]

    asyncio.run(chat())


@pytest.mark.slow
def test_no_more_agents_work_than_may(home: Home) -> None:
    """Chats share the slots: of three, two run and one waits until one is free."""
    home.scripted("held", "claude/text.nopartial", "--speed=0", f"--hold=2:{home.folder}/go")

    async def chat() -> None:
        async with home.service(limits=ServiceLimits(max_runs=2)) as service:
            chats = [(await service.create(agent="held")).id for _ in range(3)]
            for id in chats:
                await service.prompt(id, id)
            await until_true(lambda: len(home.runs()) == 2)
            assert sorted(view.state for view in service.chat_list.all()) == ["queued", "running", "running"]
            (home.folder / "go").touch()
            for id in chats:
                assert [turn.outcome for turn in await home.settled(service, id)] == ["ok"]
        assert sorted(home.asked()) == sorted(chats)

    asyncio.run(chat())


@pytest.mark.slow
def test_a_key_makes_a_prompt_once(home: Home) -> None:
    """A prompt that comes again with its key is the same turn, also after a restart."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            both = await asyncio.gather(*(service.prompt(made.id, "once", key="k1") for _ in range(4)))
            assert sorted(both) == [(1, False)] * 3 + [(1, True)]
            await home.settled(service, made.id)
        async with home.service() as service:
            assert await service.prompt(made.id, "once", key="k1") == (1, False)
            assert await service.prompt(made.id, "once", key="k2") == (2, True)
            await home.settled(service, made.id)
        assert home.asked() == ["once", "once"]

    asyncio.run(chat())


def test_stop_ends_the_run_and_takes_back_the_queue(home: Home) -> None:
    """What runs is cancelled with what was said; what waits never begins."""
    home.scripted("held", "claude/text", "--speed=0", f"--hold=60:{home.folder}/never")

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create(agent="held")
            for number in range(1, 5):
                await service.prompt(made.id, str(number))
            async with asyncio.timeout(30):
                while not (await service.turns(made.id))[0][0].reply:
                    await asyncio.sleep(0.01)
            assert await service.stop(made.id, 3) == [3]
            assert await service.stop(made.id, 3) == []
            assert await service.stop(made.id) == [1, 2, 4]
            turns = await home.settled(service, made.id)
            assert [turn.outcome for turn in turns] == ["cancelled"] * 4
            assert turns[0].message.startswith("# R")
            assert [turn.began_at is None for turn in turns] == [False, True, True, True]
            with pytest.raises(NoSuchTurn):
                await service.stop(made.id, 5)
        home.judge(await home.rows(made.id))
        assert home.asked() == ["1"]
        assert home.left_over() == []

    asyncio.run(chat())


@pytest.mark.slow
def test_a_question_is_answered_while_the_run_waits(home: Home) -> None:
    """The answer goes to the agent that waits for it, once; afterwards nobody asks any more."""
    home.peer()

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create(agent="peer")
            await service.prompt(made.id, "permission")
            await until_true(lambda: service.chat(made.id).asks)
            (view,), _ = await service.turns(made.id)
            assert view.question is not None
            assert view.question.options
            with pytest.raises(Conflicting):
                await service.answer(made.id, "another", "yes")
            with pytest.raises(Invalid, match="one of: Yes, once, Always, No"):
                await service.answer(made.id, view.question.id, "perhaps")
            assert await service.answer(made.id, view.question.id, view.question.options[0].id) == 1
            with pytest.raises(Conflicting):
                await service.answer(made.id, view.question.id, "never")
            (view,) = await home.settled(service, made.id)
            assert (view.message, view.outcome) == ("asked: once", "ok")
            assert not service.chat(made.id).asks
        home.judge(await home.rows(made.id))

    asyncio.run(chat())


def question() -> list[dict[str, Any]]:
    """An agent's first words, and a question that its run does not wait for."""
    content = [{"type": "text", "text": "I could remove it."}]
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "rm all"}}
    return [
        {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"},
        {"type": "assistant", "message": {"id": "m1", "content": content}},
        {"type": "control_request", "request_id": "q1", "request": request},
    ]


@pytest.mark.slow
def test_a_run_that_waits_for_a_person_holds_nobody_up(home: Home) -> None:
    """With one place for agents, another chat works while a question stands, and the answer goes through after it."""
    home.peer()
    home.scripted("quick", "claude/tools", "--speed=0")

    async def chat() -> None:
        async with home.service(limits=ServiceLimits(max_runs=1)) as service:
            asks, works = await service.create(agent="peer"), await service.create(agent="quick")
            await service.prompt(asks.id, "permission")
            await until_true(lambda: service.chat(asks.id).asks)
            await service.prompt(works.id, "work")
            (view,) = await home.settled(service, works.id)
            assert view.outcome == "ok"
            (view,), _ = await service.turns(asks.id)
            assert view.question is not None
            assert view.question.options
            await service.answer(asks.id, view.question.id, view.question.options[0].id)
            (view,) = await home.settled(service, asks.id)
            assert view.message == "asked: once"

    asyncio.run(chat())


@pytest.mark.slow
def test_a_question_that_nobody_waits_for_ends_the_turn(home: Home) -> None:
    """The run is stopped after a grace, the turn has the question, and the answer is the next turn, once."""
    home.scripted("asks", home.lines("asks", question()), "--stay")

    async def chat() -> None:
        async with home.service(limits=ServiceLimits(asking_grace=0.05)) as service:
            made = await service.create(agent="asks")
            await service.prompt(made.id, "remove it")
            (view,) = await home.settled(service, made.id)
            assert view.question is not None
            assert (view.outcome, view.reason) == ("ok", None)
            assert "I could remove it." in view.message
            assert "rm all" in view.message
            assert service.chat(made.id).asks
        async with home.service(limits=ServiceLimits(asking_grace=0.05)) as service:
            assert service.chat(made.id).asks
            assert await service.answer(made.id, "q1", "yes, all of it") == 2
            with pytest.raises(Conflicting):
                await service.answer(made.id, "q1", "no!")
            turns = await home.settled(service, made.id)
            assert [turn.by for turn in turns] == ["person", "answer"]
        rows = await home.rows(made.id)
        home.judge(rows)
        ends = [row.what.outcome for row in rows if isinstance(row.what, ev.RunEnded)]
        assert ends == ["ok", "ok"], "a run that was stopped as all was said did not fail"
        assert home.asked() == ["remove it", "yes, all of it"]
        assert [run["resume"] for run in home.runs()] == [None, "s-1"]
        assert home.left_over() == []

    asyncio.run(chat())


def test_what_cannot_be_started_ends_its_turn_in_words(home: Home) -> None:
    """An agent that is not installed, one that takes no model, a directory that is gone: the turn says so."""
    home.configure("missing", ["no-such-program-anywhere"])
    home.configure("plain", ["true"])

    async def chat() -> None:
        async with home.service() as service:
            missing = await service.create(agent="missing")
            await service.prompt(missing.id, "hi")
            (view,) = await home.settled(service, missing.id)
            assert (view.outcome, view.message) == ("error", "")
            assert "no-such-program-anywhere" in (view.reason or "")
            plain = await service.create(agent="plain", model="m")
            await service.prompt(plain.id, "hi")
            (view,) = await home.settled(service, plain.id)
            assert "model" in (view.reason or "")
            here = home.work / "here"
            here.mkdir()
            await service.places.trust(here)
            gone = await service.create(cwd=here)
            here.rmdir()
            await service.prompt(gone.id, "hi")
            (view,) = await home.settled(service, gone.id)
            assert "no directory" in (view.reason or "")
            for id in (missing.id, plain.id, gone.id):
                home.judge(await home.rows(id, service._store))

    asyncio.run(chat())


@pytest.mark.slow
def test_a_session_is_kept_once_the_agent_spoke(home: Home) -> None:
    """An agent that was stopped before it said anything may know nothing of the session that it told."""
    start = question()[:1]
    home.scripted("mute", home.lines("mute", start), "--stay")

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create(agent="mute")
            for number in (1, 2):
                await service.prompt(made.id, "hi")
                async with asyncio.timeout(30):
                    while not any(
                        isinstance(row.what, ev.RunStarted) for row in (await service.turn(made.id, number))[1]
                    ):
                        await asyncio.sleep(0.01)
                await service.stop(made.id)
                await home.settled(service, made.id)
        assert [run["resume"] for run in home.runs()] == [None, None]

    asyncio.run(chat())


def test_what_is_refused_changes_nothing(home: Home) -> None:
    """Values that cannot be, chats and turns that are not there, too much of anything: each has its own refusal."""
    (home.folder / "outside").mkdir()
    (home.work / "unknown").mkdir()

    async def chat() -> None:
        limits = ServiceLimits(max_chats=2, max_queue=2, max_prompt_bytes=100)
        async with home.service(limits=limits) as service:
            for refusal, asked in (
                (NoSuchAgent, {"agent": "nobody"}),
                (NoSuchAgent, {"agent": "acp:true"}),
                (NoSuchAgent, {"agent": "ccs/--version"}),
                (OutsideRoots, {"cwd": home.folder / "outside"}),
                (OutsideRoots, {"cwd": f"{home.work}/../outside"}),
                (UntrustedDirectory, {"cwd": home.work / "unknown"}),
                (Invalid, {"model": "--flag"}),
                (Invalid, {"title": "\ud800"}),
                (ContentTooLarge, {"title": "x" * 1000}),
                (Invalid, {"allow": "anything"}),
            ):
                with pytest.raises(refusal):
                    await service.create(**asked)
            assert service.chat_list.all() == []
            made = await service.create()
            for refusal, text in (
                (Invalid, " \n"),
                (Invalid, "a\0b"),
                (Invalid, "\udc80"),
                (ContentTooLarge, "ü" * 51),
            ):
                with pytest.raises(refusal):
                    await service.prompt(made.id, text)
            assert len(text_of("ü" * 50, limits.max_prompt_bytes)) == 50
            with pytest.raises(Invalid):
                await service.prompt(made.id, "hi", key="k" * 1000)
            with pytest.raises(NoSuchChat):
                await service.prompt("../" + made.id, "hi")
            with pytest.raises(NoSuchTurn):
                await service.turn(made.id, 1)
            with pytest.raises(Conflicting):
                await service.answer(made.id, "q", "yes")
            for changes in ({"agent": "claude"}, {"heartbeat": {"minutes": 0, "prompt": "x"}}, {"heartbeat": 5}):
                with pytest.raises(Invalid):
                    await service.change(made.id, **changes)
            assert await home.rows(made.id, service._store) == []
            local = await service.create(agent="ollama", model="m")
            with pytest.raises(Invalid, match="needs the name of a model"):
                await service.change(local.id, model=None)
            assert service.chat(local.id).model == "m"
            with pytest.raises(TooMany):
                await service.create()

    asyncio.run(chat())


@pytest.mark.slow
def test_a_full_queue_takes_no_more(home: Home) -> None:
    """The turn that runs and as many as may wait; the next one is refused and not in the store."""
    home.scripted("held", "claude/text.nopartial", "--speed=0", f"--hold=1:{home.folder}/go")

    async def chat() -> None:
        async with home.service(limits=ServiceLimits(max_queue=2)) as service:
            made = await service.create(agent="held")
            await service.prompt(made.id, "1")
            await until_true(lambda: service.chat(made.id).state == "running")
            await service.prompt(made.id, "2")
            await service.prompt(made.id, "3")
            with pytest.raises(TooMany):
                await service.prompt(made.id, "4")
            (home.folder / "go").touch()
            assert len(await home.settled(service, made.id)) == 3

    asyncio.run(chat())


def test_each_field_of_a_request_can_be_changed(home: Home) -> None:
    """A field that requests name and `Service.change` has no check for is named."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            with pytest.raises(Invalid) as problem:
                await service.change(made.id, nothing=1)
            names = str(problem.value.expected).split(", ")
            assert {*names} == {*Changes.__struct_fields__}, "the checks in Service.change"

    asyncio.run(chat())


def test_changes_hold_over_a_restart(home: Home) -> None:
    """Title, model, what is allowed and the heartbeat are as they were set."""

    async def chat() -> None:
        beat = {"minutes": 30, "prompt": "News?", "quiet": "22:00-07:00", "on": False}
        async with home.service() as service:
            made = await service.create(title="first")
            changed = await service.change(made.id, title="  se  cond ", model="m2", allow="edits", heartbeat=beat)
            assert changed.title == "se cond"
        async with home.service() as service:
            assert service.chat_list.all() == [changed]
            assert (await service.change(made.id, heartbeat=None)).heartbeat is None

    asyncio.run(chat())


def test_a_message_ends_archived(home: Home) -> None:
    """An archived chat stays so over a restart, also when its title changes; a message returns it to the lists."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            assert (made.pinned, made.archived) == (False, False)
            await service.change(made.id, pinned=True, archived=True)
        async with home.service() as service:
            changed = await service.change(made.id, title="kept")
            assert (changed.pinned, changed.archived) == (True, True)
            with pytest.raises(Invalid):
                await service.change(made.id, archived="yes")
            with pytest.raises(Invalid):
                await service.prompt(made.id, "\0")
            assert service.chat(made.id).archived
            await service.prompt(made.id, "hi")
            now = service.chat(made.id)
            assert (now.title, now.pinned, now.archived) == ("kept", True, False)

    asyncio.run(chat())


def test_a_deleted_chat_is_gone(home: Home) -> None:
    """What ran is stopped, the store has nothing of it any more, and nothing of it comes back."""
    home.scripted("held", "claude/text", "--speed=0", f"--hold=60:{home.folder}/never")

    async def chat() -> None:
        async with home.service() as service:
            made, other = await service.create(agent="held"), await service.create()
            for text in ("1", "2"):
                await service.prompt(made.id, text)
            await until_true(lambda: len(home.runs()) == 1)
            await service.delete(made.id)
            assert home.left_over() == []
            with pytest.raises(NoSuchChat):
                await service.prompt(made.id, "hi")
            for call in (service._store.read(made.id), service._store.get_chat(made.id)):
                with pytest.raises(UnknownChat):
                    await call
        async with home.service() as service:
            assert [view.id for view in service.chat_list.all()] == [other.id]
        assert home.asked() == ["1"]

    asyncio.run(chat())


@pytest.mark.slow
def test_the_end_kills_what_runs(home: Home) -> None:
    """Four agents that take no signal are gone, and their turns are marked, before the service has closed."""
    home.scripted("deaf", "claude/text", "--speed=0", f"--hold=60:{home.folder}/never", "--stubborn")

    async def chat() -> None:
        async with home.service() as service:
            chats = [(await service.create(agent="deaf")).id for _ in range(4)]
            for id in chats:
                await service.prompt(id, "1")
                await service.prompt(id, "2")
            await until_true(lambda: len(home.runs()) == 4)
            async with asyncio.timeout(30):
                for id in chats:
                    while not (await service.turns(id))[0][0].reply:
                        await asyncio.sleep(0.01)
            await service.close()
            assert home.left_over() == []
            with pytest.raises(ShuttingDown):
                await service.prompt(chats[0], "3")
            for id in chats:
                rows = await home.rows(id, service._store)
                home.judge(rows)
                ended = rows[-1].what
                assert isinstance(ended, ev.RunEnded | TurnEnded)
                assert ended.outcome == "cut_off"
                assert "ended while the agent worked" in (ended.reason or "")

    asyncio.run(chat())


@pytest.mark.slow
def test_old_turns_are_dropped_whole(home: Home) -> None:
    """Retention goes back to the end of a turn, and leaves each chat its newest."""

    async def chat() -> None:
        time = [1_000_000]
        async with home.store() as store:
            service = await home.open(store, now=lambda: time[0])
            made = await service.create()
            for number in range(1, 5):
                time[0] += 1000
                await service.prompt(made.id, str(number))
                await home.settled(service, made.id)
            last = (await store.read(made.id)).last
            retention = Retention(max_age_ms=1500)
            trimmed = await service.old_turns.drop(retention)
            turns, earlier = await service.turns(made.id)
            assert [turn.turn for turn in turns] == [3, 4]
            assert not earlier
            with pytest.raises(Trimmed) as told:
                await store.read(made.id)
            assert turns[0].first == told.value.first == trimmed[made.id] + 1
            time[0] += 100_000
            await service.old_turns.drop(retention)
            assert [turn.turn for turn in (await service.turns(made.id))[0]] == [4]
            assert [type(row.what) for row in (await service.turn(made.id, 4))[1]][:2] == [Prompted, TurnBegan]
            with pytest.raises(NoSuchTurn):
                await service.turn(made.id, 3)
            assert (await store.read(made.id, after=last)).last == last
            assert await service.prompt(made.id, "5") == (5, True)
            await home.settled(service, made.id)
            await service.close()

    asyncio.run(chat())


@pytest.mark.slow
def test_the_rows_of_a_turn_are_its_own(home: Home) -> None:
    """A prompt that came while another turn ran is no part of that turn."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            await service.prompt(made.id, "1")
            await service.prompt(made.id, "2")
            await home.settled(service, made.id)
            for turn in (1, 2):
                rows = [row.what for row in (await service.turn(made.id, turn))[1]]
                assert [what.turn for what in rows if isinstance(what, Prompted | TurnBegan)] == [turn, turn]
                assert [what.outcome for what in rows if isinstance(what, ev.RunEnded)] == ["ok"]
                assert rows[-1] is not None
            everything = await home.rows(made.id, service._store)
            assert len(everything) == sum([len((await service.turn(made.id, turn))[1]) for turn in (1, 2)])

    asyncio.run(chat())


@pytest.mark.slow
def test_turns_are_given_page_by_page(home: Home) -> None:
    """Those before a turn, newest first in pages, also where some were taken back out of their order."""
    home.scripted("held", "claude/text.nopartial", "--speed=0", f"--hold=1:{home.folder}/go")

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create(agent="held")
            for number in range(1, 9):
                await service.prompt(made.id, str(number))
            await service.stop(made.id, 8)
            await service.stop(made.id, 5)
            (home.folder / "go").touch()
            await home.settled(service, made.id)
        async with home.service() as service:
            assert service.chat(made.id).turns == 8
            seen: list[int] = []
            before, earlier = None, True
            while earlier:
                page, earlier = await service.turns(made.id, before=before, limit=3)
                seen = [turn.turn for turn in page] + seen
                before = seen[0]
            assert seen == [*range(1, 9)]

    asyncio.run(chat())


def test_chats_of_other_programs_are_found_by_who_asked_for_them(home: Home) -> None:
    """By the beginning of their foreign id, the newest first; one of another depth or person is another chat."""

    async def chat() -> None:
        times = itertools.count(1)
        async with home.service(now=lambda: next(times)) as service:
            made = [await service.create(foreign_id=id, depth=depth) for id, depth in (("x1", 0), ("x2", 0), ("x3", 1))]
            await service.create(foreign_id="y")
            await service.create()
            ids = [it.id for it in made]
            assert [row.id for row, _ in service.chat_list.foreign("x")] == [ids[1], ids[0]]
            assert [row.id for row, _ in service.chat_list.foreign("x", depth=1)] == [ids[2]]
            assert service.chat_list.foreign("x", person="somebody else") == []

    asyncio.run(chat())
