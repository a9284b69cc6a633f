"""New chats that begin before a message of another one: with its conversation, and one for each request."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from pictures import png
from waiting import PATIENCE

from penstock.chat.errors import Conflicting, NoSuchChat, NoSuchTurn, TooMany
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.branches import CONVERSATION_NAME
from penstock.chat.service.limits import Retention, ServiceLimits
from penstock.chat.store.rows import SENDING, Origin
from penstock.config import settings

if TYPE_CHECKING:
    from chat.service.conftest import Home
    from penstock.chat.service.service import Service


def messages(prompt: str) -> list[dict[str, str]]:
    """Return the messages that a prompt has before the new one."""
    return [json.loads(line) for line in prompt.split("\n") if line.startswith("{")]


async def said(home: Home, service: Service, *prompts: str) -> str:
    """Make a chat in which this was asked, and return its id."""
    chat = await service.create()
    for prompt in prompts:
        await service.prompt(chat.id, prompt)
        await home.settled(service, chat.id)
    return chat.id


@pytest.mark.slow
def test_a_branch_has_the_conversation_before(home: Home) -> None:
    """Its first prompt has the messages before the one that is edited, later ones do not; the old chat is untouched."""

    async def chat() -> None:
        async with home.service() as service:
            old = await said(home, service, "one", "two", "three")
            before = await home.rows(old, service._store)
            made = await service.branch(old, 3)
            assert (made.prompt, made.attachments, made.turn, made.repeated) == ("three", [], None, False)
            origin = made.chat.origin
            assert origin is not None
            assert (origin.chat, origin.turn) == (old, 3)
            await service.prompt(made.chat.id, "three, but better")
            (view,) = await home.settled(service, made.chat.id)
            assert view.prompt == "three, but better"
            asked = home.asked()[-1]
            assert asked.endswith("\n\nthree, but better")
            reply = (await home.settled(service, old))[0].message
            assert messages(asked) == [{"user": "one"}, {"assistant": reply}, {"user": "two"}, {"assistant": reply}]
            await service.prompt(made.chat.id, "four")
            await home.settled(service, made.chat.id)
            assert home.asked()[-1] == "four", "the agent has a conversation of its own by now"
            assert await home.rows(old, service._store) == before

    asyncio.run(chat())


@pytest.mark.slow
def test_a_branch_before_the_first_message_has_nothing(home: Home) -> None:
    """And the branch of a branch has what was said before in both chats."""

    async def chat() -> None:
        async with home.service() as service:
            old = await said(home, service, "one", "two")
            made = await service.branch(old, 1)
            assert made.chat.origin == Origin(old, 1, None)
            await service.prompt(made.chat.id, "ONE")
            await home.settled(service, made.chat.id)
            assert home.asked()[-1] == "ONE"
            second = await service.branch(old, 2)
            await service.prompt(second.chat.id, "TWO")
            await home.settled(service, second.chat.id)
            await service.prompt(second.chat.id, "3")
            await home.settled(service, second.chat.id)
            third = await service.branch(second.chat.id, 2, sends=True)
            await home.settled(service, third.chat.id)
            assert [it["user"] for it in messages(home.asked()[-1]) if "user" in it] == ["one", "TWO"]
            assert home.asked()[-1].endswith("\n\n3")

    asyncio.run(chat())


@pytest.mark.slow
def test_another_agent_is_asked_the_same(home: Home) -> None:
    """It gets the conversation and the files, works in the same directory, and may do the same."""
    home.scripted("other", "claude/text.nopartial", "--speed=0")

    async def chat() -> None:
        async with home.service() as service:
            below = home.work / "below"
            below.mkdir()
            await service.places.trust(below)
            old = (await service.create(cwd=below, model="strong")).id
            await service.prompt(old, "one")
            await home.settled(service, old)
            picture = png()
            file = await service.attachments.add(old, "shot.png", picture, person="owner")
            await service.change(old, budget=5.0)
            await service.prompt(old, "two", attachments=[file.id])
            await home.settled(service, old)
            made = await service.branch(old, 2, agent="other", sends=True)
            assert made.turn == 1
            assert (made.chat.agent, made.chat.cwd, made.chat.model, made.chat.budget) == ("other", str(below), None, 5)
            (view,) = await home.settled(service, made.chat.id)
            assert (view.outcome, view.prompt) == ("ok", "two"), view.reason
            assert view.attachments is not None
            (copy,) = view.attachments
            assert (copy.name, copy.id != file.id) == ("shot.png", True)
            asked = home.asked()[-1]
            assert [it["user"] for it in messages(asked) if "user" in it] == ["one"]
            path = re.search(r"- (.*) \(image/png", asked)
            assert path is not None
            assert (await service.attachments.find(made.chat.id, copy.id))[1] == picture
            assert made.chat.id in path[1], "a file of the new chat, which stays when the old one goes"
            await service.delete(old)
            assert (await service.attachments.find(made.chat.id, copy.id))[1] == picture

    asyncio.run(chat())


@pytest.mark.slow
def test_the_same_request_makes_one_chat(home: Home) -> None:
    """Sent twice at once and once more, it makes one chat with one turn; another request with its key is an error."""
    home.scripted("other", "claude/text.nopartial", "--speed=0")

    async def chat() -> None:
        async with home.service() as service:
            old = await said(home, service, "one", "two")
            made = await asyncio.gather(*(service.branch(old, 2, sends=True, key="k") for _ in range(4)))
            assert {it.chat.id for it in made} == {made[0].chat.id}
            assert [it.repeated for it in made].count(False) == 1
            assert {it.turn for it in made} == {1}
            assert len(await home.settled(service, made[0].chat.id)) == 1
            again = await service.branch(old, 2, sends=True, key="k")
            assert (again.chat.id, again.turn, again.repeated) == (made[0].chat.id, 1, True)
            assert len(service.chat_list.all()) == 2
            with pytest.raises(Conflicting, match="key was used"):
                await service.branch(old, 2, agent="other", key="k")
            others = [await service.branch(old, 2, key="l"), await service.branch(old, 1, key="k")]
            others += [await service.branch(old, 2, key="k", person="ana"), await service.branch(old, 2)]
            assert len({it.chat.id for it in [*made, *others]}) == 5

    asyncio.run(chat())


@pytest.mark.slow
def test_a_request_that_was_cut_is_finished_by_its_repetition(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ended after the chat was made, and before its conversation was kept: until then nothing is sent."""

    async def chat() -> None:
        async with home.service() as service:
            old = await said(home, service, "one", "two")
            put = service.attachments.put

            async def cut(*_: Any, **__: Any) -> None:
                raise ConnectionError

            monkeypatch.setattr(service.attachments, "put", cut)
            with pytest.raises(ConnectionError):
                await service.branch(old, 2, key="k", sends=True)
            (half,) = [it for it in service.chat_list.all() if it.id != old]
            await service.prompt(half.id, "lost?")
            (view,) = await home.settled(service, half.id)
            assert "are not kept" in (view.reason or "")
            assert "lost?" not in home.asked()
            monkeypatch.setattr(service.attachments, "put", put)
            made = await service.branch(old, 2, key="k", sends=True)
            assert (made.chat.id, made.turn, made.repeated) == (half.id, 2, True)
            await home.settled(service, half.id)
            assert messages(home.asked()[-1])[0] == {"user": "one"}

    asyncio.run(chat())


def test_a_branch_while_the_agent_works(home: Home) -> None:
    """Before the turn that runs: what was said before it. Before one that waits: with the running one's prompt."""
    home.scripted("slow", "claude/text.nopartial", "--speed=1", "--hang")

    async def chat() -> None:
        async with home.service() as service:
            old = await said(home, service, "one")
            home_agent = (await service.create(agent="scripted")).id
            assert home_agent != old
            slow = (await service.create(agent="slow")).id
            await service.prompt(slow, "runs")
            async with asyncio.timeout(PATIENCE):
                while (await service.turns(slow))[0][0].began_at is None:
                    await asyncio.sleep(0.01)
            await service.prompt(slow, "waits")
            first, second = await service.branch(slow, 1), await service.branch(slow, 2)
            assert first.chat.origin == Origin(slow, 1, None)
            content = await kept(service, second.chat.id)
            assert json.loads(content.split("\n")[0]) == {"user": "runs"}
            assert (await service.turns(slow))[0][0].state == "running"
            await service.delete(slow)

    asyncio.run(chat())


async def kept(service: Service, chat: str) -> str:
    """Return the conversation that a chat begins with."""
    (found,) = [it for it in await service._store.list_attachments(chat) if it.name == CONVERSATION_NAME]
    assert found.turn == SENDING, "it stays as long as the chat"
    content = await service._store.read_attachment(chat, found.id)
    assert content is not None
    return content.decode()


@pytest.mark.slow
def test_what_cannot_be_branched(home: Home) -> None:
    """A turn that is none, a chat that is none, files that are too many: nothing is made of them."""

    async def chat() -> None:
        limits = ServiceLimits(max_attached_bytes=1000)
        async with home.service(limits=limits) as service:
            old = await said(home, service, "one")
            for turn in (0, 3, 10**15):
                with pytest.raises(NoSuchTurn):
                    await service.branch(old, turn)
            with pytest.raises(NoSuchChat):
                await service.branch("0" * 32, 1)
            file = await service.attachments.add(old, "a", bytes(900), person="owner")
            await service.prompt(old, "two", attachments=[file.id])
            await home.settled(service, old)
            with pytest.raises(TooMany):
                await service.branch(old, 2)
            await service.change(old, archived=True)
            await service.branch(old, 1)
            assert service.chat(old).archived
            assert len(service.chat_list.all()) == 2

    asyncio.run(chat())


@pytest.mark.slow
def test_turns_that_were_dropped_are_named_as_left_out(home: Home) -> None:
    """A chat whose oldest turns are gone gives what is left, and the agent is told that it is not all."""

    async def chat() -> None:
        async with home.service() as service:
            old = await said(home, service, "one", "two", "three")
            await service.old_turns.drop(Retention(max_age_ms=None, max_bytes=1))
            left, _ = await service.turns(old)
            assert [it.turn for it in left] == [3]
            with pytest.raises(NoSuchTurn):
                await service.branch(old, 2)
            made = await service.branch(old, 3, sends=True)
            await home.settled(service, made.chat.id)
            assert home.asked()[-1].endswith("three")
            await service.prompt(old, "four")
            await home.settled(service, old)
            made = await service.branch(old, 4, sends=True)
            await home.settled(service, made.chat.id)
            assert "Older messages are left out" in home.asked()[-1]
            assert messages(home.asked()[-1])[0] == {"user": "three"}

    asyncio.run(chat())


LEVELS = [
    ("claude", "default", "codex", "ask"),
    ("claude", "ask", "gemini", "ask"),
    ("claude", "edits", "codex", "edits"),
    ("claude", "read", "pi", "read"),
    ("pi", "default", "claude", "all"),
    ("claude", "default", "pi", None),  # it cannot ask
    ("claude", "read", "kimi", None),  # it can do nothing less than everything
    ("claude", "own", "codex", None),  # what that comes to is each agent's own
    ("claude", "ask", "mine", None),  # a command of the configuration does what it does
    ("mine", "default", "claude", None),
    ("mine", "default", "mine2", "own"),
    ("peer", "ask", "claude", "ask"),
    ("claude", "ask", "peer", "ask"),
    ("claude", "ask", "ollama", "ask"),
]


@pytest.mark.parametrize(("agent", "allow", "other", "level"), LEVELS)
def test_the_permission_stays(tmp_path: Any, agent: str, allow: Any, other: str, level: str | None) -> None:
    """Another agent gets the same level by its own name, or none: it never may do more than the one before."""
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[agents.mine]\ncommand = ["a"]\n[agents.mine2]\ncommand = ["b"]\n'
        '[agents.peer]\ncommand = ["c"]\nprotocol = "acp"\n'
    )
    agents = Agents(settings.load({"PENSTOCK_CONFIG": str(file), "HOME": str(tmp_path)}), {})
    if level is None:
        with pytest.raises(Conflicting, match="cannot keep the permission"):
            agents.same_level(agent, allow, other)
    else:
        assert agents.same_level(agent, allow, other) == level
