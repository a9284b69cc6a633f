"""A conversation in Python: the session goes from prompt to prompt, whatever becomes of a prompt."""

from __future__ import annotations

import asyncio
import copy
import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import Agent, AgentFailed, Conversation, Delta, UsageError, agent, conversation

AGENT = """\
import json, sys, time
from pathlib import Path

def say(**line):
    print(json.dumps(line), flush=True)

words = [part for word in sys.argv[1:] for part in word.split("=", 1)]
old = words[words.index("--resume") + 1] if "--resume" in words else None
prompt = sys.stdin.read()
number = len(list(Path().glob("s*"))) + 1
new = old or f"s{number}"
if ("--fork-session" in words and "same" not in prompt) or "renamed" in prompt:
    new = f"s{number}"
if "early" in prompt:
    sys.exit(3)
known = {} if "nameless" in prompt else {"session_id": new}
say(type="system", subtype="init", model="m1", **known)
if "refused" in prompt:
    say(type="result", subtype="success", is_error=True, result="no", api_error_status=401, session_id="s99")
    sys.exit(1)
before = Path(old).read_text() if old else ""
Path(new).write_text(before + prompt + ";")
if "slow" in prompt:
    say(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": "Half"}]}, **known)
    time.sleep(600)
text = before + prompt
say(type="assistant", message={"id": "m2", "content": [{"type": "text", "text": text}]}, **known)
say(type="result", subtype="success", is_error=False, result=text, **known)
"""


@pytest.fixture
def scripted(tmp_path: Path) -> Agent:
    """An agent that keeps its sessions in files, and replies with all prompts of the session."""
    program = tmp_path / "agent.py"
    program.write_text(AGENT, "utf-8")
    work = tmp_path / "work"
    work.mkdir()
    return agent("claude", command=[sys.executable, str(program)], route="exec", cwd=work)


def session_of(chat: Conversation) -> str | None:
    """Return the session of a conversation as it is now."""
    return chat.session_id


def test_each_prompt_continues(scripted: Agent) -> None:
    """The second prompt knows the first one, whether it is asked, run, or streamed."""
    chat = scripted.conversation()
    assert session_of(chat) is None
    assert chat.ask("one").reply == "one"
    assert chat.session_id == "s1"
    with chat.run("two") as run:
        assert run.wait().reply == "one;two"
    [*_, last] = chat.stream("three")
    assert last.reply == "one;two;three"
    assert chat.session_id == "s1"
    assert repr(chat) == "<Conversation with claude: s1>"


def test_each_prompt_continues_in_async_code(scripted: Agent) -> None:
    """The same in an event loop."""

    async def talk() -> list[str]:
        chat = scripted.conversation()
        first = await chat.ask_async("one")
        async with chat.run("two") as run:
            async for _ in run:
                pass
        return [first.reply, run.result.reply]

    assert asyncio.run(talk()) == ["one", "one;two"]


def test_a_conversation_of_before(scripted: Agent, tmp_path: Path) -> None:
    """A session id of another program is continued."""
    session = scripted.ask("one").session_id
    assert scripted.conversation(session_id=session).ask("two").reply == "one;two"


def test_the_short_form(tmp_path: Path) -> None:
    """`conversation(name, …)` is `agent(name, …).conversation(…)`."""
    program = tmp_path / "agent.py"
    program.write_text(AGENT, "utf-8")
    chat = conversation("claude", command=[sys.executable, str(program)], route="exec", cwd=tmp_path)
    assert isinstance(chat, Conversation)
    assert chat.ask("one").reply == "one"


def test_a_fork_leaves_the_original(scripted: Agent) -> None:
    """A fork knows what was before; afterwards neither knows of the other."""
    chat = scripted.conversation()
    chat.ask("one")
    branch = chat.fork()
    assert session_of(branch) is None
    assert branch.ask("two").reply == "one;two"
    assert branch.ask("three").reply == "one;two;three"
    assert chat.ask("four").reply == "one;four"
    assert (chat.session_id, branch.session_id) == ("s1", "s2")
    assert scripted.conversation(session_id="s1", fork=True).ask("five").reply == "one;four;five"


@pytest.mark.slow
def test_a_fork_that_failed_is_tried_again(scripted: Agent) -> None:
    """A fork whose first prompt failed still leaves the original as it is."""
    chat = scripted.conversation()
    chat.ask("one")
    branch = chat.fork()
    with pytest.raises(AgentFailed):
        branch.ask("refused")
    assert branch.ask("two").reply == "one;two"
    assert chat.ask("three").reply == "one;three"


def test_a_fork_that_is_none(scripted: Agent) -> None:
    """An agent that continues the original in place of a fork is found out before it does so again."""
    chat = scripted.conversation()
    chat.ask("one")
    branch = chat.fork()
    branch.ask("same")
    with pytest.raises(UsageError, match="the agent gave the fork no session id of its own"):
        branch.ask("two")


def test_a_conversation_that_has_not_begun_has_no_fork(scripted: Agent) -> None:
    """There is nothing to fork before the first answer."""
    with pytest.raises(UsageError, match="there is nothing to fork"):
        scripted.conversation().fork()
    with pytest.raises(UsageError, match="there is nothing to fork"):
        scripted.conversation(fork=True)


def test_an_agent_that_renames_the_session(scripted: Agent) -> None:
    """If a resumed conversation gets a new id, the next prompt uses that one."""
    chat = scripted.conversation()
    chat.ask("one")
    chat.ask("renamed")
    assert chat.session_id == "s2"
    assert chat.ask("three").reply == "one;renamed;three"


@pytest.mark.sample(3)
@pytest.mark.parametrize("failure", ["refused", "early", "renamed and refused"])
def test_a_failed_prompt_is_asked_again(scripted: Agent, failure: str) -> None:
    """After a run that failed before the model answered, the conversation is what it was."""
    chat = scripted.conversation()
    with pytest.raises(AgentFailed):
        chat.ask("early")
    assert session_of(chat) is None
    assert chat.ask("one").reply == "one"
    with pytest.raises(AgentFailed):
        chat.ask(failure)
    assert chat.session_id == "s1"
    assert chat.ask("two").reply == "one;two"


def test_a_cancelled_prompt_is_in_the_conversation(scripted: Agent) -> None:
    """A prompt that was cancelled while the model answered belongs to the conversation."""
    chat = scripted.conversation()
    with chat.run("slow") as run:
        next(event for event in run if isinstance(event, Delta))
    assert run.result.outcome == "cancelled"
    assert chat.ask("two").reply == "slow;two"


def test_an_agent_without_a_session_id(scripted: Agent) -> None:
    """An answer without a session id is there; the next prompt would know nothing of it, and is rejected."""
    chat = scripted.conversation()
    assert chat.ask("nameless").reply == "nameless"
    with pytest.raises(UsageError, match="the conversation cannot be continued: the agent gave it no session id"):
        chat.run("two")
    with pytest.raises(UsageError, match="cannot be continued"):
        chat.fork()


def test_one_prompt_at_a_time(scripted: Agent) -> None:
    """A second prompt is rejected while the first one is being answered, from any thread."""
    chat = scripted.conversation()
    made = chat.run("other")
    with chat.run("slow") as run:
        next(event for event in run if isinstance(event, Delta))
        for second in (lambda: chat.run("two"), made.start, chat.fork):
            with pytest.raises(UsageError, match="is answering another prompt"):
                second()
        run.kill()
    assert chat.ask("three").reply.endswith("three")


def test_of_two_threads_one_asks(scripted: Agent) -> None:
    """Of prompts that many threads ask at the same time, each is answered or rejected, and none is lost or doubled."""
    chat = scripted.conversation()
    chat.ask("zero")
    gate, replies, errors = threading.Barrier(4), [], []

    def ask(prompt: str) -> None:
        gate.wait()
        try:
            replies.append(chat.ask(prompt).reply)
        except UsageError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("a", "b", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) + len(errors) == 4
    longest = max(replies, key=len)
    assert sorted(longest.split(";")[1:]) == sorted(reply.split(";")[-1] for reply in replies)
    assert chat.ask("end").reply == f"{longest};end"


def test_a_run_of_before_is_not_started(scripted: Agent) -> None:
    """A run that was made before another prompt was answered would fork the conversation silently."""
    chat = scripted.conversation()
    stale = chat.run("stale")
    chat.ask("one")
    with pytest.raises(UsageError, match="has continued since this run was made"):
        stale.start()
    assert chat.ask("two").reply == "one;two"


@pytest.mark.slow
def test_a_run_that_is_dropped_frees_the_conversation(scripted: Agent) -> None:
    """A run that no code can read any more does not block the next prompt."""
    chat = scripted.conversation()
    chat.ask("one")
    run = chat.run("slow").start()
    del run
    gc.collect()
    assert chat.ask("two").reply.startswith("one;")


def test_a_run_that_cannot_start_frees_the_conversation(scripted: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error at the start is not a prompt that is being answered."""
    chat = scripted.conversation()
    run = chat.run("one", record="/dev/null/nowhere")
    with pytest.raises(UsageError):
        run.start()
    assert chat.ask("one").reply == "one"


@pytest.mark.parametrize("name", ["session_id", "fork", "on_question", "fallback"])
def test_what_belongs_to_the_conversation(scripted: Agent, name: str) -> None:
    """A prompt cannot leave its conversation."""
    ask: Callable[..., object] = scripted.conversation().ask
    with pytest.raises(UsageError, match=f"a prompt of a conversation has no {name}"):
        ask("one", **{name: None})


def test_a_copied_agent_is_independent(scripted: Agent) -> None:
    """A deep copy of an agent works, and its conversations are its own."""
    again = copy.deepcopy(scripted)
    assert again.conversation().ask("one").reply == "one"
    assert repr(again) == repr(scripted)
