"""`penstock acp` with a real gateway: what an editor sees, and what a hostile client gets."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from acp_client import AcpClient, selected, words
from lazy_modules import LazyModule
from pictures import png
from served import AGENTS, PLAYER, RECORDINGS, SECONDS, TESTS, Gateway
from waiting import until

from penstock._version import __version__
from penstock.cli.acp import parser
from penstock.cli.serve import hidden
from penstock.cli.stdio.link import TurnStep
from penstock.cli.stdio.peer import Peer

if TYPE_CHECKING:
    import acp.schema as acp
    import pydantic
else:
    acp = LazyModule("acp.schema")
    pydantic = LazyModule("pydantic")

MORE = f"""
[agents.failing]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "err500"}", "--speed=0"]
adapter = "claude"

[agents.cut]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "thinktools"}", "--speed=0", "--lines=30"]
adapter = "claude"

[agents.chooser]
command = ["{sys.executable}", "-S", "{TESTS / "support" / "acp_chooser.py"}"]
protocol = "acp"

[agents.steady]
command = ["{sys.executable}", "-S", "{TESTS / "support" / "acp_chooser.py"}", "--resumes"]
protocol = "acp"

[agents.thinker]
command = ["sh", "-c", 'echo "$@" >> EFFORTS; exec {sys.executable} -S {PLAYER} {RECORDINGS / "text"} --speed=0', "sh",
  "--effort={{effort}}"]
adapter = "claude"

[agents.loggedout]
command = ["cat", "LOGGED_OUT"]
adapter = "claude"

[agents.held]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "thinktools"}", "--speed=0", "--hold=38:HELD"]
adapter = "claude"
"""
LOGGED_OUT: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "cwd": "/x", "tools": []},
    {
        "type": "assistant",
        "error": "authentication_failed",
        "message": {"id": "m", "model": "<synthetic>", "content": [{"type": "text", "text": "Please run /login"}]},
    },
    {"type": "result", "subtype": "success", "is_error": True, "result": "Please run /login", "session_id": "s"},
]
"""What Claude Code prints if nobody is logged in."""

REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, page: Path) -> Iterator[Gateway]:
    """A gateway with more agents."""
    folder = tmp_path_factory.mktemp("acp")
    more = MORE.replace("HELD", str(folder / "go")).replace("EFFORTS", str(folder / "efforts"))
    more = more.replace("LOGGED_OUT", str(folder / "logged-out.ndjson"))
    (folder / "logged-out.ndjson").write_text("".join(json.dumps(line) + "\n" for line in LOGGED_OUT))
    (folder / "agents.toml").write_text(AGENTS + more)
    made = Gateway(folder, page, ping=0.1)
    yield made
    made.close()


@pytest.fixture
def editor(gateway: Gateway) -> Iterator[AcpClient]:
    """A client of the agent `scripted`."""
    (gateway.folder / "go").unlink(missing_ok=True)
    made = AcpClient(gateway.folder, gateway.url)
    yield made
    made.close()


def another(gateway: Gateway, agent: str = "scripted") -> AcpClient:
    """One more client."""
    return AcpClient(gateway.folder, gateway.url, agent)


def turns_of(gateway: Gateway, chat: str) -> list[dict[str, Any]]:
    """The turns of a chat, as the page has them."""
    with gateway.client() as one:
        found: list[dict[str, Any]] = one.get(f"/api/chats/{chat}/turns").json()["turns"]
        return found


def test_a_prompt_is_a_turn_of_a_chat(gateway: Gateway, editor: AcpClient) -> None:
    """Its text is the reply alone; a second client that loads the session gets the same, and then the list."""
    told = editor.ask("initialize", protocolVersion=1, clientCapabilities={})
    assert told["protocolVersion"] == 1
    session = editor.new(gateway.root)
    with gateway.client() as one:
        assert one.get(f"/api/chats/{session}").status_code == 404, "a chat without a prompt"
    result = editor.prompt(session, "Hello")
    assert result["stopReason"] == "end_turn"
    assert result["usage"]["inputTokens"] > 0
    assert editor.text() == REPLY
    assert [it["status"] for it in editor.updates if it["sessionUpdate"] == "tool_call_update"] == ["completed"]
    assert editor.updates[-1] == {"sessionUpdate": "session_info_update", "title": "Hello"}
    assert [(it["prompt"], it["message"]) for it in turns_of(gateway, session)] == [("Hello", REPLY)]

    second = another(gateway)
    second.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    assert second.updates[0]["sessionUpdate"] == "user_message_chunk"
    assert second.shown[1:] == editor.shown[:-1]
    listed = second.ask("session/list", cwd=str(gateway.root))["sessions"]
    assert (listed[0]["sessionId"], listed[0]["title"]) == (session, "Hello")
    assert second.ask("session/list", cwd="/nowhere")["sessions"] == []
    assert second.ask("session/close", sessionId=session) == {}
    assert second.ask("session/delete", sessionId=session) == {}
    assert second.fail("session/load", sessionId=session)["code"] == -32002
    assert editor.fail("session/prompt", sessionId=session, prompt=words("More"))["code"] == -32002
    second.close()


TERMINALS: list[dict[str, Any]] = [{"auth": {"terminal": True}}, {"_meta": {"terminal-auth": True}}]
"""Features of clients that start the login of an agent: as the protocol has them, and as they were before."""


@pytest.mark.slow
@pytest.mark.parametrize("features", TERMINALS)
def test_a_login_is_offered(editor: AcpClient, features: dict[str, Any]) -> None:
    """To clients with a terminal, as a command that exists; the others are offered none."""
    nothing: list[dict[str, Any]] = [
        {},
        {"auth": {}},
        {"auth": {"terminal": False}},
        {"_meta": {"terminal-auth": "yes"}},
        {"_meta": {}},
    ]
    for none in nothing:
        assert editor.ask("initialize", protocolVersion=1, clientCapabilities=none)["authMethods"] == []
    [login] = editor.ask("initialize", protocolVersion=1, clientCapabilities=features)["authMethods"]
    acp.TerminalAuthMethod.model_validate(login, strict=True)
    assert parser().parse(login["args"]).setup
    started = login["_meta"]["terminal-auth"]
    assert [started["command"], *started["args"]] == [sys.executable, "-m", "penstock", "acp", *login["args"]]
    assert editor.ask("authenticate", methodId=login["id"]) == {}
    assert editor.fail("authenticate", methodId="nothing")["code"] == -32602


@pytest.mark.slow
@pytest.mark.parametrize("features", [{}, TERMINALS[0]])
def test_an_agent_without_a_login(gateway: Gateway, features: dict[str, Any]) -> None:
    """Its failure is the protocol's error for it in clients that can start a login, and any other error elsewhere."""
    editor = another(gateway, "loggedout")
    editor.ask("initialize", protocolVersion=1, clientCapabilities=features)
    error = editor.fail("session/prompt", sessionId=editor.new(gateway.root), prompt=words("Hello"))
    assert (error["code"], error["data"]["cause"]) == (-32000 if features else -32603, "auth")
    editor.close()


@pytest.mark.slow
def test_a_failed_turn_is_an_error(gateway: Gateway) -> None:
    """A cut after the agent has begun never ends in success; who loads it later reads the reason."""
    for agent, outcome in (("failing", "error"), ("cut", "cut_off")):
        editor = another(gateway, agent)
        session = editor.new(gateway.root)
        error = editor.fail("session/prompt", sessionId=session, prompt=words("Hello"))
        assert (error["code"], error["data"]["outcome"]) == (-32603, outcome)
        editor.updates.clear()
        editor.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
        last = editor.updates[-1]["content"]["text"]
        space = "\n\n" if editor.text() != last else ""  # many clients join the messages of a turn
        assert last == f"{space}[{error['message']}]"
        editor.close()


def test_a_turn_outlives_its_client(gateway: Gateway) -> None:
    """An editor that goes in the middle stops nothing; the next one gets what there is, and then the rest."""
    editor = another(gateway, "held")
    session = editor.new(gateway.root)
    editor.send("session/prompt", sessionId=session, prompt=words("Hello"))
    editor.until(lambda: any(it["sessionUpdate"] == "tool_call_update" for it in editor.updates))
    before = [*editor.shown]
    editor._agent._peer.wait = lambda seconds: None  # type: ignore[method-assign]  # it goes at once
    editor.close()
    second = another(gateway, "held")
    second.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    assert second.shown[1:] == before
    (gateway.folder / "go").touch()
    second.until(lambda: second.shown[-1]["sessionUpdate"] == "usage_update")  # it is the last one
    assert second.text() == REPLY == turns_of(gateway, session)[0]["message"]
    third = another(gateway)
    third.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    assert third.shown == second.shown
    third.close()
    second.close()
    (gateway.folder / "go").unlink()


def test_a_reply_is_shown_before_its_run_has_ended(gateway: Gateway, editor: AcpClient) -> None:
    """A session is loaded once all text is there, while the process of the agent still ends."""
    session = editor.new(gateway.root)
    editor.prompt(session, "Hello")
    until(lambda: turns_of(gateway, session)[0]["finalized"])
    second = another(gateway)
    chats, has_ended, is_over = second._agent._chats, threading.Event(), threading.Event()
    follow, turns = chats.follow, chats.turns

    def follow_on(id: str, turn: int, after: int) -> Iterator[TurnStep]:
        yield from follow(id, turn, after)
        has_ended.wait(SECONDS)
        is_over.set()

    chats.follow = follow_on  # type: ignore[method-assign]
    chats.turns = lambda id: [msgspec.structs.replace(turn, finalized=False) for turn in turns(id)]  # type: ignore[method-assign]
    second.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    assert not is_over.is_set()
    assert second.text() == REPLY
    has_ended.set()
    second.close()


@pytest.mark.parametrize("count", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_a_session_is_loaded_as_the_page_shows_it(gateway: Gateway, editor: AcpClient, count: int) -> None:
    """Each prompt and each message in their order, whatever became of the turns."""
    names = sorted(folder.name for folder in RECORDINGS.iterdir() if folder.name.isalnum())[:count]
    session = editor.new(gateway.root)
    for name in names:
        number = editor.send("session/prompt", sessionId=session, prompt=words(f"play {name}"))
        answer = editor.read()
        assert answer["id"] == number
        outcome = turns_of(gateway, session)[-1]["outcome"]
        assert ("result" in answer) == (outcome in ("ok", "empty", "cancelled")), (name, answer)
    second = another(gateway)
    second.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    shown: dict[str, str] = {}
    for update in second.updates:
        if update["sessionUpdate"] in ("user_message_chunk", "agent_message_chunk"):
            id = update["messageId"]
            shown[id] = shown.get(id, "") + update["content"]["text"]
    expected: dict[str, str] = {}
    for turn in turns_of(gateway, session):
        expected[f"t{turn['turn']}.prompt"] = turn["prompt"]
        if turn.get("message", "").strip():
            expected[f"t{turn['turn']}"] = turn["message"]
    assert {id: text for id, text in shown.items() if not id.endswith(".end")} == expected
    failed = {f"t{it['turn']}.end" for it in turns_of(gateway, session) if it["outcome"] not in ("ok", "empty")}
    assert {id for id in shown if id.endswith(".end")} == failed
    second.close()


def test_cancel_stops_the_turn(gateway: Gateway) -> None:
    """The prompt is answered as cancelled; another one in between is an error, and the next one is answered."""
    editor = another(gateway, "staying")
    session = editor.new(gateway.root)
    first = editor.send("session/prompt", sessionId=session, prompt=words("Hello"))
    second = editor.fail("session/prompt", sessionId=session, prompt=words("At once"))
    assert second["code"] == -32600
    until(lambda: "running" in [it.state for it in gateway.service.chat_list.all() if it.id == session])
    editor.notify("session/cancel", sessionId=session)
    answer = editor.read()
    assert (answer["id"], answer["result"]["stopReason"]) == (first, "cancelled")
    assert [it["outcome"] for it in turns_of(gateway, session)] == ["cancelled"]
    editor.send("session/prompt", sessionId=session, prompt=words("Again"))
    editor.notify("$/cancel_request", requestId=editor._last)  # before the turn has a number
    assert editor.read()["result"]["stopReason"] == "cancelled"
    until(lambda: gateway.service.chat(session).state == "idle")
    third = editor.send("session/prompt", sessionId=session, prompt=words("Once more"))
    closing = editor.send("session/close", sessionId=session)
    answers = {answer["id"]: answer for answer in (editor.read(), editor.read())}
    assert answers[closing]["result"] == {}
    assert answers[third]["result"]["stopReason"] == "cancelled"
    editor.close()


NO_METHOD = {"error": {"code": -32601, "message": "no such method"}}
CANCELLED = {"result": {"outcome": {"outcome": "cancelled"}}}


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        (selected("once"), "once"),
        (NO_METHOD, "never"),
        *(
            pytest.param(answer, option, marks=pytest.mark.slow)
            for answer, option in ((selected("never"), "never"), (CANCELLED, "never"), ({"result": 7}, "never"))
        ),
    ],
)
def test_a_permission_is_asked_for(gateway: Gateway, answer: dict[str, Any], option: str) -> None:
    """With the diff and our options; the answer reaches the agent, and a client that cannot answer rejects."""
    editor = another(gateway, "chooser")
    editor.answer = lambda asked: answer
    session = editor.new(gateway.root)
    assert editor.prompt(session, "edit")["stopReason"] == "end_turn"
    assert editor.text() == f"chosen: {option}"
    [asked] = editor.permissions
    assert [it["kind"] for it in asked["options"]] == ["allow_once", "allow_always", "reject_once"]
    assert asked["toolCall"]["toolCallId"] in {it.get("toolCallId") for it in editor.updates}
    assert {it["type"] for it in asked["toolCall"]["content"]} >= {"diff"}
    editor.close()


@pytest.mark.slow
def test_a_choice_is_text_and_the_next_prompt_its_answer(gateway: Gateway) -> None:
    """A wrong answer is an error that names the right ones; who loads the session meanwhile can answer too."""
    editor = another(gateway, "chooser")
    session = editor.new(gateway.root)
    assert editor.prompt(session, "Ask")["stopReason"] == "end_turn"
    assert "Answer with one of: Apples, Bananas" in editor.text()
    assert editor.permissions == []
    assert editor.fail("session/prompt", sessionId=session, prompt=words("Cherries"))["code"] == -32602
    second = another(gateway)
    second.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    second.until(lambda: "Answer with one of" in second.text())
    second.updates.clear()
    until(lambda: second._agent._sessions[session].waiting is not None)
    assert second.prompt(session, "bananas")["stopReason"] == "end_turn"
    assert second.text() == "chosen: b"
    editor.updates.clear()
    error = editor.fail("session/prompt", sessionId=session, prompt=words("Apples"))
    assert "resume" in error["message"], (
        "a new prompt, which this agent cannot have: the question was answered elsewhere"
    )
    assert editor.text() == "chosen: b"
    assert [it["prompt"] for it in turns_of(gateway, session)] == ["Ask", "Apples"]
    for one in (editor, second):
        one.close()


@pytest.mark.slow
def test_a_question_stands_apart_from_the_reply_before_it(gateway: Gateway) -> None:
    """The answer to a prompt may be two texts, which many editors join: the rest of a turn, and the next question."""
    editor, second = another(gateway, "steady"), another(gateway)
    session = editor.new(gateway.root)
    editor.prompt(session, "Ask")
    asked = editor.text()
    second.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    until(lambda: second._agent._sessions[session].waiting is not None)
    second.prompt(session, "bananas")
    editor.updates.clear()
    editor.prompt(session, "Ask again")
    assert editor.text() == f"chosen: b\n\n{asked}"
    editor.updates.clear()
    editor.prompt(session, "apples")
    assert editor.text() == "chosen: a"
    for one in (editor, second):
        one.close()


@pytest.mark.slow
def test_a_choice_is_a_form(gateway: Gateway) -> None:
    """For an editor that has forms; what it does not fill in is asked again as text."""
    editor = another(gateway, "chooser")
    editor.ask("initialize", protocolVersion=1, clientCapabilities={"elicitation": {"form": {}}})
    session = editor.new(gateway.root)
    editor.form = {"action": "accept", "content": {"answer": "b"}}
    assert editor.prompt(session, "Ask")["stopReason"] == "end_turn"
    assert editor.text() == "chosen: b"
    [asked] = editor.forms
    acp.CreateFormSessionElicitationRequest.model_validate(asked)
    assert asked["requestedSchema"]["properties"]["answer"]["oneOf"][1] == {"const": "b", "title": "Bananas"}
    for editor.form in ({"action": "decline"}, {"action": "accept", "content": {"answer": 7}}, {}):
        again = editor.new(gateway.root)
        editor.updates.clear()
        assert editor.prompt(again, "Ask")["stopReason"] == "end_turn"
        assert "Answer with one of: Apples, Bananas" in editor.text()
        editor.ask("session/close", sessionId=again)
    editor.close()


@pytest.mark.slow
def test_a_form_stays_while_another_question_comes(gateway: Gateway) -> None:
    """What a person has begun to fill in is not taken away, and the second form follows."""
    editor = another(gateway, "chooser")
    editor.ask("initialize", protocolVersion=1, clientCapabilities={"elicitation": {"form": {}}})
    editor.form = None
    session = editor.new(gateway.root)
    editor.send("session/prompt", sessionId=session, prompt=words("both"))
    editor.until(lambda: len(editor.forms) == 1)
    with gateway.client() as page:

        def shown() -> str:
            [turn] = page.get(f"/api/chats/{session}/turns").json()["turns"]
            return str((turn["question"] or {}).get("text"))

        until(lambda: "colour" in shown(), "the page shows the second question")
    first, second = ("a", "g") if "Apples" in json.dumps(editor.forms[0]) else ("g", "a")
    editor.fill_in(editor.form_ids[0], {"action": "accept", "content": {"answer": first}})
    editor.until(lambda: len(editor.forms) == 2)
    editor.fill_in(editor.form_ids[1], {"action": "accept", "content": {"answer": second}})
    assert editor.read()["result"]["stopReason"] == "end_turn"
    assert editor.text() == "chosen: a, g"
    assert editor.withdrawn == []
    editor.close()


@pytest.mark.slow
def test_a_question_that_is_answered_elsewhere_is_withdrawn(gateway: Gateway) -> None:
    """The page answers, and the editor's dialog closes; an answer that comes after that changes nothing."""
    editor = another(gateway, "chooser")
    editor.answer = lambda asked: None
    session = editor.new(gateway.root)
    editor.send("session/prompt", sessionId=session, prompt=words("edit"))
    editor.until(lambda: bool(editor.permissions))
    with gateway.client() as page:
        [turn] = page.get(f"/api/chats/{session}/turns").json()["turns"]
        page.post(f"/api/chats/{session}/questions", json={"id": turn["question"]["id"], "answer": "always"})
    assert editor.read()["result"]["stopReason"] == "end_turn"
    assert editor.text() == "chosen: always"
    assert len(editor.withdrawn) == 1
    editor.write(json.dumps({"jsonrpc": "2.0", "id": editor.withdrawn[0], **selected("never")}).encode() + b"\n")
    assert editor.ask("session/close", sessionId=session) == {}
    editor.close()


def test_two_editors_and_the_page_share_a_question(gateway: Gateway) -> None:
    """The answer in one editor closes it in the other one and on the page, and both have the reply."""
    first, second = another(gateway, "chooser"), another(gateway, "chooser")
    first.answer = lambda asked: None
    second.answer = lambda asked: selected("once")
    session = first.new(gateway.root)
    first.send("session/prompt", sessionId=session, prompt=words("edit"))
    first.until(lambda: bool(first.permissions))
    assert turns_of(gateway, session)[0]["question"]["options"]
    second.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    until(lambda: second.ask("session/list") and second.permissions, "the second editor is asked")
    assert first.read()["result"]["stopReason"] == "end_turn"
    assert len(first.withdrawn) == 1
    [turn] = turns_of(gateway, session)
    assert (turn.get("question"), turn["message"]) == (None, "chosen: once")
    until(lambda: second.ask("session/list") and second.text(), "the second editor has the reply")
    assert first.text() == second.text() == "chosen: once"
    for one in (first, second):
        one.close()


@pytest.mark.slow
def test_a_person_trusts_a_directory(gateway: Gateway, editor: AcpClient) -> None:
    """The editor is asked at the first prompt, once; without trust nothing runs and no chat is made."""
    folder = gateway.root / "strange"
    folder.mkdir()
    session = editor.new(folder)
    editor.answer = lambda asked: selected("no")
    assert "not trusted" in editor.fail("session/prompt", sessionId=session, prompt=words("Hello"))["message"]
    assert editor.ask("session/list", cwd=str(folder))["sessions"] == []
    editor.answer = lambda asked: selected("trust")
    assert editor.prompt(session, "Hello")["stopReason"] == "end_turn"
    assert len(editor.permissions) == 2
    editor.prompt(editor.new(folder), "Hello")
    assert len(editor.permissions) == 2
    outside = editor.new(gateway.folder)
    error = editor.fail("session/prompt", sessionId=outside, prompt=words("Hello"))
    assert "root" in error["message"]


@pytest.mark.slow
def test_a_cancelled_prompt_waits_for_no_trust(gateway: Gateway, editor: AcpClient) -> None:
    """The dialog closes and no chat is made, also if the client never answers; the next prompt asks again."""

    def is_asked(before: int) -> bool:
        return len(editor.permissions) > before

    folder = gateway.root / "stranger"
    folder.mkdir()
    session = editor.new(folder)
    editor.answer = lambda asked: None
    for method in ("session/cancel", "session/close"):
        number, asked = editor.send("session/prompt", sessionId=session, prompt=words("Hello")), len(editor.permissions)
        editor.until(partial(is_asked, asked))
        closing = editor.send(method, sessionId=session) if method == "session/close" else 0
        if not closing:
            editor.notify(method, sessionId=session)
        answers = {it["id"]: it["result"] for it in [editor.read() for _ in range(2 if closing else 1)]}
        assert answers[number] == {"stopReason": "cancelled"}
    assert len(editor.withdrawn) == 2
    with gateway.client() as one:
        assert one.get(f"/api/chats/{session}").status_code == 404
    session = editor.new(folder)
    editor.answer = lambda asked: selected("trust")
    assert editor.prompt(session, "Hello")["stopReason"] == "end_turn"


@pytest.mark.slow
def test_a_first_prompt_that_is_rejected_leaves_no_chat(gateway: Gateway, editor: AcpClient) -> None:
    """However often it is tried; the session goes on, and its next prompt is a turn of a chat."""
    session = editor.new(gateway.root)
    with gateway.client() as one:
        before = {it["id"] for it in one.get("/api/chats").json()["chats"]}
        for text in ("a\0b", "x" * (512 * 1024 + 1)):
            assert editor.fail("session/prompt", sessionId=session, prompt=words(text))["code"] == -32602
            assert {it["id"] for it in one.get("/api/chats").json()["chats"]} == before
    odd = {"sessionId": session, "prompt": words("Hello"), "cwd": 5, "mcpServers": None}  # fields of other methods
    assert editor.ask("session/prompt", **odd)["stopReason"] == "end_turn"
    assert editor.prompt(session, "More")["stopReason"] == "end_turn"
    assert [it["prompt"] for it in turns_of(gateway, session)] == ["Hello", "More"]
    assert editor.fail("session/prompt", sessionId=session, prompt=words("a\0b"))["code"] == -32602
    assert len(turns_of(gateway, session)) == 2


def test_settings_are_those_of_the_chat(gateway: Gateway, editor: AcpClient) -> None:
    """A new session can get another agent; the whole list is the answer, and what it does not have is an error."""
    made = editor.ask("session/new", cwd=str(gateway.root), mcpServers=[])
    session = made["sessionId"]
    assert {it["id"]: it["currentValue"] for it in made["configOptions"]} == {"agent": "scripted", "permission": "own"}
    found = editor.ask("session/set_config_option", sessionId=session, configId="agent", value="cut")
    assert found["configOptions"][0]["currentValue"] == "cut"
    assert found["configOptions"][1]["id"] == "permission"
    editor.fail("session/prompt", sessionId=session, prompt=words("Hello"))
    assert gateway.service.chat(session).agent == "cut"
    assert editor.ask("session/set_mode", sessionId=session, modeId="own") == {}
    assert editor.fail("session/set_mode", sessionId=session, modeId="all")["code"] == -32602
    for option, value in (("agent", "scripted"), ("permission", "all"), ("none", "x")):
        error = editor.fail("session/set_config_option", sessionId=session, configId=option, value=value)
        assert error["code"] == -32602
    assert gateway.service.chat(session).agent == "cut"


def image(content: bytes, **more: Any) -> dict[str, Any]:
    """A picture, as editors send one."""
    return {"type": "image", "data": b64encode(content).decode(), "mimeType": "image/png", **more}


def resource(**what: str) -> dict[str, Any]:
    """A file that the editor has read."""
    return {"type": "resource", "resource": {"uri": "file:///src/c.md", **what}}


@pytest.mark.slow
def test_pictures_and_resources_go_with_the_message(gateway: Gateway, editor: AcpClient) -> None:
    """They are files of its turn, byte for byte; links are paths; a session that is loaded shows them again."""
    session = editor.new(gateway.root)
    small, large = png(), png() + random.Random(0).randbytes(600 * 1024)
    prompt = [
        {"type": "text", "text": "Look at "},
        {"type": "resource_link", "uri": "file:///a%20b.txt", "name": "a b.txt"},
        {"type": "resource_link", "uri": "https://example.org/x.png", "name": "x"},
        image(small, uri="https://example.org/shots/a%20b.png?size=2"),
        image(large),
        resource(text="Umlaut ü\n"),
        resource(uri="zed:///empty", text=""),
        resource(uri="file:///../../.ssh/..%2fkey.bin", blob=b64encode(b"\0\1").decode()),
    ]
    assert editor.ask("session/prompt", sessionId=session, prompt=prompt)["stopReason"] == "end_turn"
    [turn] = turns_of(gateway, session)
    assert turn["prompt"] == ("Look at /a b.txthttps://example.org/x.png/src/c.mdzed:///empty/../../.ssh/../key.bin")
    files = [(file["name"], file["media_type"]) for file in turn["attachments"]]
    assert files == [
        ("a b.png", "image/png"),
        ("picture-2.png", "image/png"),
        ("c.md", "text/plain"),
        ("key.bin", "application/octet-stream"),
    ]
    with gateway.client() as one:
        kept = [one.get(f"/api/chats/{session}/attachments/{it['id']}").content for it in turn["attachments"]]
    assert kept == [small, large, "Umlaut ü\n".encode(), b"\0\1"]
    editor.updates.clear()
    editor.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])
    shown = [it["content"] for it in editor.updates if it["sessionUpdate"] == "user_message_chunk"]
    for block in shown:
        pydantic.TypeAdapter(acp.UserMessageChunk).validate_python(
            {"sessionUpdate": "user_message_chunk", "content": block}
        )
    assert shown[0] == {"type": "text", "text": turn["prompt"]}
    assert shown[1] == image(small)
    assert [it["text"] for it in shown[2:]] == ["\n[picture-2.png]", "\n[c.md]", "\n[key.bin]"]


@pytest.mark.slow
def test_a_picture_alone_is_a_message(gateway: Gateway, editor: AcpClient) -> None:
    """It needs no text; as the answer to a question it is an error, and the question stays open."""
    session = editor.new(gateway.root)
    assert editor.ask("session/prompt", sessionId=session, prompt=[image(png())])["stopReason"] == "end_turn"
    [turn] = turns_of(gateway, session)
    assert (turn["prompt"], len(turn["attachments"])) == ("", 1)
    asking = another(gateway, "chooser")
    session = asking.new(gateway.root)
    assert asking.prompt(session, "Ask")["stopReason"] == "end_turn"
    error = asking.fail("session/prompt", sessionId=session, prompt=[*words("b"), image(png())])
    assert (error["code"], "an answer in words" in error["message"]) == (-32602, True)
    asking.updates.clear()
    assert asking.prompt(session, "bananas")["stopReason"] == "end_turn"
    assert asking.text() == "chosen: b"
    asking.close()


@pytest.mark.slow
def test_files_that_no_agent_can_use(gateway: Gateway, editor: AcpClient) -> None:
    """Each is an error of the protocol that says what is expected; no turn begins, and the server keeps nothing."""
    session = editor.new(gateway.root)
    editor.prompt(session, "Hello")
    bomb = png(claims=(50_000, 50_000))
    too_many = [resource(text=str(number)) for number in range(11)]
    for blocks, expected in (
        ([{"type": "image", "mimeType": "image/png"}], "in base64"),
        ([{"type": "image", "data": "", "uri": "https://example.org/a.png"}], "addresses are not fetched"),
        ([{"type": "image", "data": "https://example.org/a.png"}], "base64"),
        ([{"type": "image", "data": "AAAA\n"}], "base64"),
        ([{"type": "image", "data": "äöü="}], "base64"),
        ([image(b"<svg xmlns='http://www.w3.org/2000/svg'/>")], "PNG, JPEG, GIF or WebP"),
        ([image(b"%PDF-1.7")], "PNG, JPEG, GIF or WebP"),
        ([image(bomb)], "100,000,000 pixels"),
        ([resource(blob=b64encode(bomb).decode())], "100,000,000 pixels"),
        ([image(png() + bytes(10 * 1024 * 1024))], "at most 10,485,760 bytes"),
        ([resource(text="x" * (10 * 1024 * 1024 + 1))], "at most 10,485,760 bytes"),
        ([resource()], "its text, or its bytes"),
        ([resource(blob="*")], "base64"),
        ([resource(blob="")], "a file with content"),
        ([*words("hi"), *too_many], "at most 10"),
        ([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}], "text, links, images and resources"),
        ([{"type": "resource"}], "text, links, images and resources"),
        (words(" "), "a message for the agent"),
        ([{"type": 7}], "str"),
    ):
        error = editor.fail("session/prompt", sessionId=session, prompt=blocks)
        assert (error["code"], expected in error["message"]) == (-32602, True), (expected, error)
    assert len(turns_of(gateway, session)) == 1
    assert gateway.call(gateway.store.list_attachments(session)) == []


def test_a_message_that_cannot_begin_leaves_no_files(gateway: Gateway, editor: AcpClient) -> None:
    """The server has no part of them afterwards: a chat takes few files whose messages are not sent."""
    session = editor.new(gateway.root)
    editor.prompt(session, "Hello")
    prompt = [image(png()), *words("x" * (600 * 1024))]
    for _ in range(2):
        error = editor.fail("session/prompt", sessionId=session, prompt=prompt)
        assert (error["code"], error["data"]["reason"]) == (-32602, "content_too_large")
    assert gateway.call(gateway.store.list_attachments(session)) == []


def test_a_first_message_with_files_is_one_step(gateway: Gateway, editor: AcpClient) -> None:
    """The chat is there with its turn and its files, or not at all: no other request comes between."""
    asked: list[str] = []
    link = editor._agent._chats._link
    ask = link.ask

    def noted(method: str, path: str, *rest: Any, **more: Any) -> Any:
        asked.append(f"{method} {path}")
        return ask(method, path, *rest, **more)

    link.ask = noted  # type: ignore[method-assign]
    session = editor.new(gateway.root)
    error = editor.fail("session/prompt", sessionId=session, prompt=[image(png()), *words("x" * (600 * 1024))])
    assert error["data"]["reason"] == "content_too_large"
    with gateway.client() as one:
        assert one.get(f"/api/chats/{session}").status_code == 404
    asked.clear()
    editor.ask("session/prompt", sessionId=session, prompt=[image(png()), *words("See")])
    assert [it for it in asked if it.startswith("POST")] == ["POST /api/chats"]
    [turn] = turns_of(gateway, session)
    assert (turn["prompt"], [it["media_type"] for it in turn["attachments"]]) == ("See", ["image/png"])
    [file] = gateway.call(gateway.store.list_attachments(session))
    assert (file.turn, file.size) == (1, len(png()))


def test_a_server_of_an_older_version(gateway: Gateway, editor: AcpClient) -> None:
    """A field that the server does not know is an error with both versions, and with what to do about it."""
    link = editor._agent._chats._link
    ask = link.ask

    def newer(method: str, path: str, kind: Any, body: Any = None, **more: Any) -> Any:
        return ask(method, path, kind, {**body, "newer": True} if method == "POST" else body, **more)

    link.ask = newer  # type: ignore[method-assign]
    error = editor.fail("session/prompt", sessionId=editor.new(gateway.root), prompt=words("Hello"))
    assert error["message"].count(f"Penstock {__version__}") == 2
    assert "restart the server" in error["message"]
    assert error["data"] == {"reason": "invalid"}


@pytest.mark.slow
def test_the_effort_is_that_of_the_chat(gateway: Gateway) -> None:
    """A level from the list reaches the agent, from the next turn on; the API and the editor show the same one."""
    editor, seen = another(gateway, "thinker"), gateway.folder / "efforts"
    made = editor.ask("session/new", cwd=str(gateway.root), mcpServers=[])
    session, option = made["sessionId"], made["configOptions"][1]
    assert (option["id"], option["category"], option["currentValue"]) == ("effort", "thought_level", "default")
    assert [it["value"] for it in option["options"]] == ["default", "low", "medium", "high"]
    acp.SessionConfigOptionSelect.model_validate(option)

    def choose(value: str) -> Any:
        chosen = {"sessionId": session, "configId": "effort", "value": value}
        found = editor.ask("session/set_config_option", **chosen)["configOptions"]
        return next(it["currentValue"] for it in found if it["id"] == "effort")

    for value in ("turbo", "", "--help", "null"):
        chosen = {"sessionId": session, "configId": "effort", "value": value}
        assert editor.fail("session/set_config_option", **chosen)["code"] == -32602
    assert choose("high") == "high"
    assert editor.prompt(session, "Hello")["stopReason"] == "end_turn"
    assert choose("low") == "low"
    assert editor.prompt(session, "Hello")["stopReason"] == "end_turn"
    assert choose("default") == "default"
    assert editor.prompt(session, "Hello")["stopReason"] == "end_turn"
    assert seen.read_text().splitlines() == ["--effort=high", "--effort=low", ""]
    with gateway.client() as page:
        path = f"/api/chats/{session}"
        assert page.get(path).json()["effort"] is None
        assert page.patch(path, json={"effort": "xhigh"}).json()["effort"] == "xhigh"
    found = editor.ask("session/load", sessionId=session, cwd=str(gateway.root), mcpServers=[])["configOptions"][1]
    assert (found["currentValue"], found["options"][-1]["value"]) == ("xhigh", "xhigh")
    editor.close()


@pytest.mark.parametrize(
    ("agent", "effort"),
    [
        ("claude", "turbo"),
        ("gemini", "high"),
        ("claude", "--help"),
        ("claude", ""),
        ("claude", 7),
        ("scripted", "high"),
    ],
)
def test_an_effort_that_an_agent_does_not_have(gateway: Gateway, agent: str, effort: object) -> None:
    """It is an error at once, and not in the next turn; no chat is made, and one that exists stays as it is."""
    with gateway.client() as one:
        before = len(one.get("/api/chats").json()["chats"])
        assert one.post("/api/chats", json={"agent": agent, "effort": effort}).status_code == 400
        assert len(one.get("/api/chats").json()["chats"]) == before
        chat = one.post("/api/chats", json={"agent": agent}).json()["id"]
        assert one.patch(f"/api/chats/{chat}", json={"effort": effort}).status_code == 400
        assert one.get(f"/api/chats/{chat}").json()["effort"] is None
        one.delete(f"/api/chats/{chat}")


@pytest.mark.slow
def test_hostile_lines(gateway: Gateway, editor: AcpClient) -> None:
    """Each is an error with a code, or is skipped, and the connection goes on."""
    deep = b"[" * 100_000
    for line, code in (
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (deep, -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc": "2.0"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "initialize"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "initialize"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "x"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "relative"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/a\\u0000"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "../../about"}}', -32002),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/delete", "params": {"sessionId": "%2e%2e"}}', -32002),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {"cursor": "-1"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {"cwd": "/a\\u0000"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {"cwd": "\\ud800"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1e400, "method": "session/list"}', -32700),
        (b'{"id": 1, "method": "session/prompt", "params": {"sessionId": "x", "prompt": []}}', -32002),
        (b" " * (33 * 1024 * 1024), -32600),
    ):
        editor.write(line + b"\n")
        found = editor.read()
        assert found["error"]["code"] == code, (line[:200], found)
        assert found["error"]["message"]
    long = b"x" * (33 * 1024 * 1024)
    for head, id in (
        (b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":"', 5),
        (b'{"method": "session/prompt", "jsonrpc": "2.0", "id": "a-1", "params": "', "a-1"),
        (b'{"params":{"id":7,"x":"', None),
        (b'{"jsonrpc":"2.0","id":"\xff","params":"', None),
    ):
        editor.write(head + long + b'"}\n')
        found = editor.read()
        assert (found["id"], found["error"]["code"]) == (id, -32600)
        assert "expected at most 33,554,432 bytes" in found["error"]["message"]
    for skipped in (b"", b"\r", b'{"method": "session/cancel"}', b'{"method": "none"}', b'{"id": 99, "result": 1}'):
        editor.write(skipped + b"\n")
    assert editor.ask("initialize", protocolVersion=99)["protocolVersion"] == 1


def test_the_entries_of_a_turn(gateway: Gateway) -> None:
    """A stream of a turn that has ended, or that runs, continues after any entry, and says that it has ended."""
    chat = gateway.chat()
    with gateway.client() as one:
        one.post(f"/api/chats/{chat}/turns", json={"text": "Hello"})
        live = one.get(f"/api/chats/{chat}/turns/1/entries").text
        until(lambda: bool(one.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("finalized")))
        whole = one.get(f"/api/chats/{chat}/turns/1/entries").text
        assert [block for block in live.split("\n\n") if "event: live" not in block and block != ": ping"] == [
            block for block in whole.split("\n\n") if "event: live" not in block
        ]
        blocks = whole.split("\n\n")
        assert blocks[-2:] == ["event: end\ndata: {}", ""]
        number = int(blocks[5].split("\n")[0].removeprefix("id: "))
        rest = one.get(f"/api/chats/{chat}/turns/1/entries?after={number}").text
        assert rest.split("\n\n") == blocks[6:]
        for path, status in (("2/entries", 404), ("1/entries?after=-1", 400), ("1/entries?after=x", 400)):
            assert one.get(f"/api/chats/{chat}/turns/{path}").status_code == status


def test_a_chat_can_have_a_chosen_id(gateway: Gateway) -> None:
    """One that no chat has; an agent cannot ask for others without end."""
    id = "0123456789abcdef0123456789abcdef"
    with gateway.client() as one:
        assert one.post("/api/chats", json={"id": id}).json()["id"] == id
        assert one.post("/api/chats", json={"id": id}).status_code == 409
        for wrong in ({"id": "x"}, {"id": id.upper()}, {"id": f"{id}0"}, {"depth": 2}, {"depth": -1}):
            assert one.post("/api/chats", json=wrong).status_code == 400


VALUES: list[Any] = [None, True, -1, 1.5, "", "x", "\ud800", "../..", "\0", [], {}, [[]], "a" * 500, 10**30]
VALUES += [words("hi"), [{"type": "resource", "resource": {"uri": "http://[", "text": "x"}}]]
METHODS = ["initialize", "session/new", "session/prompt", "session/load", "session/resume", "session/list"]
METHODS += ["session/close", "session/delete", "session/cancel", "session/set_mode", "session/set_config_option"]
METHODS += ["$/cancel_request", "none"]
FIELDS = ["sessionId", "cwd", "prompt", "mcpServers", "cursor", "configId", "value", "modeId", "protocolVersion"]
FIELDS += ["clientCapabilities", "requestId"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_random_lines(gateway: Gateway, editor: AcpClient, seed: int) -> None:
    """Whatever comes, no error is one inside of Penstock, and the connection goes on."""
    source = random.Random(seed)
    for number in range(150):
        params = {name: source.choice(VALUES) for name in source.sample(FIELDS, source.randint(0, len(FIELDS)))}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": source.choice([number, str(number), source.choice(VALUES)])}
        message |= {"method": source.choice(METHODS), "params": source.choice([params, params, source.choice(VALUES)])}
        for name in [*message]:
            if source.random() < 0.03:
                del message[name]
        line = bytearray(json.dumps(message).encode())
        if source.random() < 0.2:
            line[source.randrange(len(line))] = source.randrange(256)
        editor.write(bytes(line).replace(b"\n", b" ") + b"\n")
    last = editor.send("initialize", protocolVersion=1)
    while (answer := editor.read())["id"] != last or "error" in answer:
        assert answer.get("error", {}).get("code") != -32603, answer
    assert answer["result"]["agentInfo"]["name"] == "penstock"


def test_a_hidden_server_ends_when_it_is_idle(own: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while an agent works, however long."""
    monkeypatch.setattr(hidden, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(hidden, "LOOK_SECONDS", 0.05)
    gateway = own()
    chat = gateway.chat("staying")
    with gateway.client() as one:
        one.post(f"/api/chats/{chat}/turns", json={"text": "Hello"})
        keeping = asyncio.run_coroutine_threadsafe(
            hidden.end_when_idle(gateway.server, gateway.service, gateway.folder), gateway.loop
        )
        with pytest.raises(TimeoutError):
            keeping.result(0.6)
        one.post(f"/api/chats/{chat}/stop", json={})
    keeping.result(SECONDS)
    gateway.close()


def test_a_client_that_is_killed_has_gone() -> None:
    """An editor whose pipes are sockets leaves bytes unread: this ends the program without an error."""
    ours, its = socket.socketpair()
    with ours:
        peer = Peer(ours.fileno(), ours.fileno(), lambda *_: dict, lambda *_: None)
        peer.notify("session/update", {})
        its.close()
        peer.serve()
