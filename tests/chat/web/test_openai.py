"""OpenAI's interface of a real gateway, asked by OpenAI's own client, with agents that play recordings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from lazy_modules import LazyModule
from pictures import png
from serve_process import LINK
from served import AGENTS, PLAYER, RECORDINGS, TESTS, TOKEN, Gateway
from waiting import until

from penstock.chat.service.limits import ServiceLimits
from penstock.chat.web import foreign_turns
from penstock.chat.web.routes import ADDRESSES

if TYPE_CHECKING:
    import openai
else:
    openai = LazyModule("openai")

PEER = TESTS / "support" / "acp_peer.py"

MORE = f"""
[agents.failing]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "err500"}", "--speed=0"]
adapter = "claude"

[agents.peer]
command = ["{sys.executable}", "{PEER}"]
protocol = "acp"

[agents.held]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "text"}", "--speed=0", "--hold=4:HELD"]
adapter = "claude"

[agents.noting]
command = ["sh", "-c", "echo $PENSTOCK_DEPTH >> DEPTHS; exec $0 $@", "{sys.executable}", "-S", "{PLAYER}",
    "{RECORDINGS / "text"}", "--speed=0"]
adapter = "claude"

[agents.hiding]
command = ["{sys.executable}", "-S", "{TESTS / "support" / "hiding_agent.py"}", "FOLDER",
    "{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "text"}", "--speed=0"]
adapter = "claude"
"""

REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]

ASK = """
import sys, urllib.request, urllib.error
head = {"Authorization": "Bearer " + sys.argv[3], "Content-Type": "application/json"}
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), head)
try:
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as error:
    print(error.status, error.read().decode())
"""
"""A program that asks for a turn: its arguments are the address, the body and the token."""

HELLO: Any = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def home(tmp_path: Path, page: Path) -> Iterator[Callable[[], Gateway]]:
    """Starts a gateway with more agents; started again, it has the same chats."""
    started: list[Gateway] = []

    def start() -> Gateway:
        more = MORE.replace("HELD", str(tmp_path / "go")).replace("DEPTHS", str(tmp_path / "depths"))
        more = more.replace("FOLDER", str(tmp_path))
        (tmp_path / "agents.toml").write_text(AGENTS + more)
        started.append(Gateway(tmp_path, page))
        return started[-1]

    yield start
    for gateway in started:
        gateway.close()


@pytest.fixture
def gateway(home: Callable[[], Gateway]) -> Gateway:
    """A gateway of the test's own."""
    return home()


def client(gateway: Gateway, headers: dict[str, str] | None = None, *, retries: int = 2) -> openai.OpenAI:
    """The official client."""
    return openai.OpenAI(
        api_key=TOKEN, base_url=f"{gateway.url}/v1", max_retries=retries, default_headers=headers, timeout=60
    )


def post(gateway: Gateway, body: dict[str, Any], **headers: str) -> httpx.Response:
    """A request as it stands."""
    with gateway.client(**headers) as one:
        return one.post("/v1/chat/completions", json={"model": "scripted", "messages": HELLO, **body})


def turns(gateway: Gateway) -> list[tuple[str, str]]:
    """The prompts and outcomes of all turns of all chats, oldest chat first."""
    with gateway.client() as one:
        chats = sorted(one.get("/api/chats").json()["chats"], key=lambda chat: chat["created_at"])
        found = [one.get(f"/api/chats/{chat['id']}/turns").json().get("turns", []) for chat in chats]
    return [(turn["prompt"], turn.get("outcome", turn["state"])) for views in found for turn in views]


def test_agents_are_models(gateway: Gateway) -> None:
    """Those that are available, by the names that a request may have."""
    with client(gateway) as ask:
        found = [model.id for model in ask.models.list()]
    assert {"scripted", "slow", "peer"} <= set(found)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_turn_is_a_completion(gateway: Gateway, stream: bool) -> None:
    """The reply, its usage, and the headers that name the chat on the page."""
    options: Any = {"stream_options": {"include_usage": True}} if stream else {}
    with client(gateway) as ask:
        made = ask.chat.completions.with_raw_response.create(model="scripted", messages=HELLO, stream=stream, **options)
        chat = made.headers["x-penstock-chat"]
        found = made.parse()
        assert isinstance(found, openai.Stream) == stream
        if isinstance(found, openai.Stream):
            chunks = list(found)
            assert "".join(it.choices[0].delta.content or "" for it in chunks if it.choices) == REPLY
            assert chunks[0].choices[0].delta.role == "assistant"
            usage = chunks[-1].usage
        else:
            assert (found.choices[0].message.content, found.choices[0].finish_reason) == (REPLY, "stop")
            usage = found.usage
    with gateway.client() as one:
        until(lambda: one.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("finalized"))
        [turn] = one.get(f"/api/chats/{chat}/turns").json()["turns"]
        assert one.get(f"/api/chats/{chat}").json()["title"] == "Hello"
    assert (turn["prompt"], turn["message"]) == ("Hello", REPLY)
    assert usage is not None
    assert usage.prompt_tokens == turn["usage"]["input_tokens"]


@pytest.mark.slow
def test_a_conversation_is_one_chat(gateway: Gateway) -> None:
    """The messages before the last one are a chat that is there: only the last is a prompt. Others begin a new one."""
    with client(gateway) as ask:
        messages = [{"role": "system", "content": "Be brief."}, *HELLO]
        for word in ("And then?", "And now?"):
            reply = ask.chat.completions.create(model="scripted", messages=messages).choices[0].message.content
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": word}]
        ask.chat.completions.create(model="scripted", messages=messages)
        first, *rest = [prompt for prompt, _ in turns(gateway)]
        assert rest == ["And then?", "And now?"]
        assert first.endswith("Hello")
        assert "Be brief." in first
        edited = [*messages[:3], {"role": "user", "content": "Or this?"}]
        ask.chat.completions.create(model="scripted", messages=edited)
    prompts = [prompt for prompt, _ in turns(gateway)]
    assert len(prompts) == 4
    assert prompts[-1].endswith("Or this?")
    assert REPLY in prompts[-1]


@pytest.mark.slow
def test_two_conversations_that_begin_alike_are_two(gateway: Gateway) -> None:
    """The same words, asked twice, are two turns of two chats; each goes on by itself."""
    with client(gateway) as ask:
        for _ in range(2):
            ask.chat.completions.create(model="scripted", messages=HELLO)
        more = [*HELLO, {"role": "assistant", "content": REPLY}, {"role": "user", "content": "More"}]
        for _ in range(2):
            ask.chat.completions.create(model="scripted", messages=more)
    assert [prompt for prompt, _ in turns(gateway)] == ["Hello", "More", "Hello", "More"]


@pytest.mark.parametrize("header", ["X-Penstock-Chat", "X-OpenWebUI-Chat-Id"])
@pytest.mark.slow
def test_a_program_has_its_own_ids(gateway: Gateway, header: str) -> None:
    """A chat is found by the program's id, whatever the messages before say; a value from before it has one is none."""
    for id, word in (("a-1", "One"), ("a-1", "Two"), ("b:2", "Three"), ("new", "Four"), ("{{ID}}", "Five")):
        with client(gateway, {header: id}) as ask:
            ask.chat.completions.create(model="scripted", messages=[{"role": "user", "content": word}])
    assert [prompt for prompt, _ in turns(gateway)] == ["One", "Two", "Three", "Four", "Five"]
    with gateway.client() as one:
        counts = sorted(chat["turns"] for chat in one.get("/api/chats").json()["chats"])
    assert counts == [1, 1, 1, 2]


@pytest.mark.slow
def test_a_failure_is_an_error_and_no_second_turn(gateway: Gateway) -> None:
    """A run that failed is an error for the client, streamed and whole, and it does not ask again."""
    with client(gateway) as ask:
        with pytest.raises(openai.InternalServerError, match="the agent failed"):
            ask.chat.completions.create(model="failing", messages=HELLO)
        with pytest.raises(openai.APIError, match="the agent failed"):
            list(ask.chat.completions.create(model="failing", messages=HELLO, stream=True))
    assert [outcome for _, outcome in turns(gateway)] == ["error", "error"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("chat", [{}, {"X-Penstock-Chat": "c"}], ids=["by text", "by id"])
@pytest.mark.slow
def test_a_request_that_comes_again_is_the_same_turn(gateway: Gateway, stream: bool, chat: dict[str, str]) -> None:
    """By the count of retries or a key of the client's; the same text alone is asked anew."""
    body = {"stream": stream}
    first = post(gateway, body, **chat, **{"x-stainless-retry-count": "0"})
    again = post(gateway, body, **chat, **{"x-stainless-retry-count": "1"})
    assert REPLY[:20] in again.text
    assert again.headers["x-penstock-turn"] == first.headers["x-penstock-turn"]
    assert again.headers["x-penstock-chat"] == first.headers["x-penstock-chat"]
    assert len(turns(gateway)) == 1
    keyed = [post(gateway, {**body, "user": name}, **chat, **{"Idempotency-Key": "order 66"}) for name in "ab"]
    assert len({it.headers["x-penstock-chat"] + it.headers["x-penstock-turn"] for it in keyed}) == 1
    assert len(turns(gateway)) == 2
    post(gateway, body, **chat, **{"x-stainless-retry-count": "0"})
    assert len(turns(gateway)) == 3


@pytest.mark.parametrize("chat", [{}, {"X-Penstock-Chat": "c"}], ids=["by text", "by id"])
@pytest.mark.slow
def test_a_key_is_of_one_request(gateway: Gateway, chat: dict[str, str]) -> None:
    """With another message or model it is an error, and not the answer to the first message."""
    key = {"Idempotency-Key": "order 66"}
    first = post(gateway, {}, **chat, **key)
    otherwise: list[dict[str, Any]] = [{"messages": [{"role": "user", "content": "Else"}]}]
    for other in otherwise if chat else [*otherwise, {"model": "peer"}]:
        answer = post(gateway, other, **chat, **key)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert "Idempotency-Key" in answer.json()["error"]["message"]
    again = post(gateway, {}, **chat, **key)
    assert again.headers["x-penstock-turn"] == first.headers["x-penstock-turn"]
    assert again.headers["x-penstock-chat"] == first.headers["x-penstock-chat"]
    assert len(turns(gateway)) == 1


def test_a_retry_after_a_restart_is_the_same_turn(home: Callable[[], Gateway]) -> None:
    """What was asked before the server ended is in its store."""
    gateway = home()
    first = post(gateway, {}, **{"x-stainless-retry-count": "0"})
    gateway.close()
    gateway = home()
    again = post(gateway, {}, **{"x-stainless-retry-count": "2"})
    assert again.json()["choices"] == first.json()["choices"]
    assert len(turns(gateway)) == 1


@pytest.mark.slow
def test_an_old_request_is_not_come_again(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """After ten minutes the count of retries says nothing."""
    post(gateway, {}, **{"x-stainless-retry-count": "0"})
    monkeypatch.setattr(foreign_turns, "AGAIN_MS", -1)
    post(gateway, {}, **{"x-stainless-retry-count": "1"})
    assert len(turns(gateway)) == 2


# --- those who go ---


def left(gateway: Gateway, *, viewers: int = 0) -> str:
    """Begin a stream, go when its first chunk is there, and return the chat."""
    with (
        gateway.client() as one,
        one.stream("POST", "/v1/chat/completions", json={"model": "held", "messages": HELLO, "stream": True}) as answer,
    ):
        chat = str(answer.headers["x-penstock-chat"])
        lines = answer.iter_lines()  # kept: an iterator that is freed closes the connection
        next(lines)
        until(lambda: gateway.watches.clients(chat) == 1 + viewers)
    return chat


def test_who_goes_stops_the_turn(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open WebUI's stop button closes the stream, and says nothing else."""
    monkeypatch.setattr(foreign_turns, "LEFT_SECONDS", 0.05)
    left(gateway)
    until(lambda: turns(gateway) == [("Hello", "cancelled")])


def test_a_turn_that_another_follows_goes_on(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that asks again at once finds its turn; it is not stopped for the first that went."""
    monkeypatch.setattr(foreign_turns, "LEFT_SECONDS", 0.5)
    chat = left(gateway)
    found: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: found.append(
            post(gateway, {"model": "held", "stream": True}, **{"x-stainless-retry-count": "1"})
        )
    )
    asking.start()
    until(lambda: gateway.watches.clients(chat) == 1)
    until(lambda: not gateway.call(leaving(gateway)))
    (gateway.folder / "go").touch()
    asking.join()
    assert found[0].headers["x-penstock-chat"] == chat
    assert found[0].text.endswith("data: [DONE]\n\n")
    assert turns(gateway) == [("Hello", "ok")]


async def leaving(gateway: Gateway) -> int:
    """The number of turns whose program has gone and may still return."""
    app: Any = gateway.server.config.app
    [api] = {route.app._api for route in app._inside.routes if hasattr(route.app, "_api")}
    return len(api.foreign_turns._leaving)


def test_a_server_that_ends_says_so(gateway: Gateway) -> None:
    """The turn is cut off: the stream has the error, and no client takes it for an answer."""
    failures: list[BaseException] = []

    def read() -> None:
        try:
            with client(gateway, retries=0) as ask:
                list(ask.chat.completions.create(model="held", messages=HELLO, stream=True))
        except openai.APIError as error:
            failures.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    until(lambda: turns(gateway) == [("Hello", "running")])
    gateway.close()
    reading.join()
    assert len(failures) == 1
    assert type(failures[0]) is openai.APIError, "the connection was cut"


def test_a_chat_that_is_deleted_says_so(gateway: Gateway) -> None:
    """Whoever follows it has the reason: as the end of the turn if that came before the deletion, else as an error."""
    with (
        gateway.client() as one,
        one.stream("POST", "/v1/chat/completions", json={"model": "held", "messages": HELLO, "stream": True}) as answer,
    ):
        with gateway.client() as two:
            assert two.delete(f"/api/chats/{answer.headers['x-penstock-chat']}").status_code == 204
        text = "".join(answer.iter_text())
    assert "the chat was deleted" in text
    assert ('"error":' in text) != ('"finish_reason":"stop"' in text)
    assert text.endswith("data: [DONE]\n\n")


# --- questions ---


@pytest.mark.slow
def test_a_question_is_answered_by_the_next_message(gateway: Gateway) -> None:
    """The agent waits; the client's next message is the answer, and the turn goes on, with an id and without."""
    for headers in ({}, {"X-Penstock-Chat": "q"}):
        with client(gateway, headers) as ask:
            messages: Any = [{"role": "user", "content": "permission"}]
            asked = ask.chat.completions.create(model="peer", messages=messages).choices[0].message.content
            assert asked is not None
            assert "Yes, once" in asked
            messages += [{"role": "assistant", "content": asked}, {"role": "user", "content": "Yes, once"}]
            reply = ask.chat.completions.create(model="peer", messages=messages).choices[0].message.content
            assert reply is not None
            assert "once" in reply
    assert [outcome for _, outcome in turns(gateway)] == ["ok", "ok"]


@pytest.mark.slow
def test_an_answer_that_is_none_is_an_error(gateway: Gateway) -> None:
    """The question stays open, and the error names the answers."""
    head = {"X-Penstock-Chat": "q"}
    post(gateway, {"model": "peer", "messages": [{"role": "user", "content": "permission"}]}, **head)
    wrong = post(gateway, {"model": "peer", "messages": [{"role": "user", "content": "perhaps"}]}, **head)
    assert wrong.status_code == 400
    assert "Yes, once" in wrong.json()["error"]["message"]
    right = post(gateway, {"model": "peer", "messages": [{"role": "user", "content": "No"}]}, **head)
    assert right.status_code == 200


# --- files ---


def part(url: str) -> dict[str, Any]:
    """A picture as a part of a message."""
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.slow
def test_pictures_and_files_go_with_a_message(gateway: Gateway) -> None:
    """Data in a message are files of its turn; the conversation goes on in the same chat when they are sent again."""
    picture = part(f"data:image/png;base64,{b64encode(png()).decode()}")
    note = {"type": "file", "file": {"filename": "../n.txt", "file_data": b64encode(b"a note").decode()}}
    first = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture, note]}
    reply = post(gateway, {"messages": [first]})
    assert reply.status_code == 200, reply.text
    said = reply.json()["choices"][0]["message"]
    again = post(gateway, {"messages": [first, said, {"role": "user", "content": "And now?"}]})
    assert again.status_code == 200, again.text
    with gateway.client() as one:
        (chat,) = one.get("/api/chats").json()["chats"]
        turns_ = one.get(f"/api/chats/{chat['id']}/turns").json()["turns"]
    assert [it["prompt"] for it in turns_] == ["What is this?", "And now?"]
    assert [(it["name"], it["media_type"]) for it in turns_[0]["attachments"]] == [
        ("picture", "image/png"),
        ("n.txt", "text/plain"),
    ]
    assert "attachments" not in turns_[1]


def test_files_that_are_rejected(gateway: Gateway) -> None:
    """No address is fetched, and what is no file, or a bomb, is an error in the shape of the interface; no turn."""
    bomb = f"data:image/png;base64,{b64encode(png(claims=(50_000, 50_000))).decode()}"
    wrong: list[tuple[dict[str, Any], int, str]] = [
        (part("http://127.0.0.1:1/a.png"), 400, "not fetched"),
        (part("file:///etc/passwd"), 400, "not fetched"),
        (part("data:image/png;base64,%%%"), 400, "not base64"),
        (part("data:image/png;base64,"), 400, "empty"),
        (part(bomb), 413, "50,000 × 50,000 pixels"),
        ({"type": "image_url"}, 400, "not fetched"),
        ({"type": "file", "file": {"file_id": "f1"}}, 400, "no data"),
        ({"type": "file", "file": {"file_data": "https://evil.example/x"}}, 400, "not fetched"),
        ({"type": "input_audio"}, 400, "input_audio"),
    ]
    for given, status, words in wrong:
        answer = post(gateway, {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, given]}]})
        assert answer.status_code == status, (given, answer.text)
        assert words in answer.json()["error"]["message"]
    many = [part("data:,x")] * 11
    assert "11 files" in post(gateway, {"messages": [{"role": "user", "content": many}]}).text
    assert turns(gateway) == []


def test_settings_of_a_model_have_no_effect(gateway: Gateway) -> None:
    """Clients send them with each request, also such as no model could have; the agent chooses its own."""
    settings = {"temperature": 9, "top_p": -1, "max_tokens": 1, "max_completion_tokens": 1, "stop": ["F"], "seed": 7}
    answer = post(gateway, {**settings, "presence_penalty": 2, "logprobs": True, "n": 1})
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == REPLY
    assert answer.json()["choices"][0]["finish_reason"] == "stop"


# --- what is refused ---


def test_errors_have_the_clients_shape(gateway: Gateway) -> None:
    """Whatever is wrong, the official client reads the sentence, and asks no second time where it would be in vain."""
    (gateway.root / "inner").mkdir()
    picture = [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": "x"}}]
    wrong: list[tuple[dict[str, Any], dict[str, str], int, str]] = [
        ({"model": "nobody"}, {}, 404, "no agent"),
        ({"messages": []}, {}, 400, "last message"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "x"}]}, {}, 400, "last message"),
        (
            {"messages": [{"role": "user", "content": picture}]},
            {},
            400,
            "not fetched",
        ),
        ({"messages": [{"role": "user", "content": "  "}]}, {}, 400, "empty"),
        ({"messages": "Hello"}, {}, 400, "invalid request body"),
        ({"n": 2}, {}, 400, "one answer"),
        ({"response_format": {"type": "json_object"}}, {}, 400, "text only"),
        ({"tool_choice": "required"}, {}, 400, "its own tools"),
        ({}, {"X-Penstock-Cwd": str(gateway.root / "inner")}, 403, "not trusted"),
        ({}, {"X-Penstock-Cwd": "/"}, 403, "not below a root"),
        ({}, {"X-Penstock-Detail": "all"}, 400, "detail"),
        ({}, {"Authorization": "Bearer no"}, 401, "token"),
        ({}, {"Host": "evil.example"}, 421, "host"),
        ({}, {"Content-Type": "text/plain"}, 415, "type"),
    ]
    for body, headers, status, words in wrong:
        answer = post(gateway, body, **headers)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), body
        found = answer.json()["error"]
        assert set(found) == {"message", "type", "param", "code"}
        assert words in found["message"], found
    with gateway.client() as one:
        for path, status in (("/v1", 404), ("/v1/nothing", 404), ("/v1/chat/completions", 405)):
            answer = one.get(path)
            assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert turns(gateway) == []


@pytest.mark.slow
def test_a_person_decides_what_an_agent_may_do(gateway: Gateway) -> None:
    """A chat whose agent was allowed more is not a program's any more."""
    chat = post(gateway, {}, **{"X-Penstock-Chat": "c"}).headers["x-penstock-chat"]
    with gateway.client() as one:
        assert one.patch(f"/api/chats/{chat}", json={"allow": "all"}).status_code == 200
        answer = post(gateway, {"model": "scripted/sonnet"}, **{"X-Penstock-Chat": "c"})
        assert one.get(f"/api/chats/{chat}").json().get("model") is None
    assert answer.status_code == 403
    assert len(turns(gateway)) == 1


@pytest.mark.slow
def test_what_is_rejected_changes_nothing(tmp_path: Path, page: Path) -> None:
    """Too large, too many or not valid: the chat keeps its model and gets no file, however often a client tries."""
    held = MORE.replace('HELD"', f'{tmp_path / "go"}", "--model={{model}}"')
    (tmp_path / "agents.toml").write_text(AGENTS + held)
    gateway, named = Gateway(tmp_path, page, limits=ServiceLimits(max_queue=1)), {"X-Penstock-Chat": "c"}
    file = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(png()).decode()}"}}

    def ask(model: str, text: str) -> int:
        content = [{"type": "text", "text": text}, file]
        return post(gateway, {"model": model, "messages": [{"role": "user", "content": content}]}, **named).status_code

    def left(chat: str) -> tuple[str | None, int]:
        """The model of the chat, and how many files it has whose messages were not sent."""
        files = gateway.call(gateway.store.list_attachments(chat))
        return gateway.service.row(chat).model, sum(it.turn == 0 for it in files)

    (tmp_path / "go").touch()
    try:
        assert ask("held/one", "Hello") == 200
        chat = gateway.service.chat_list.all()[0].id
        assert left(chat) == ("one", 0)
        for _ in range(31):  # more than a chat has files that wait for their messages
            assert ask("held/two", "x" * (gateway.service.limits.max_prompt_bytes + 1)) == 413
        assert ask("held/two", "a\0b") == 400
        assert left(chat) == ("one", 0)
        until(lambda: gateway.service.chat(chat).state == "idle")
        (tmp_path / "go").unlink()
        with gateway.client() as one:
            assert one.post(f"/api/chats/{chat}/turns", json={"text": "It runs"}).status_code == 202
            until(lambda: one.get(f"/api/chats/{chat}/turns").json()["turns"][-1]["state"] != "queued")
            assert one.post(f"/api/chats/{chat}/turns", json={"text": "It waits"}).status_code == 202
        assert ask("held/two", "One too many") == 429
        assert left(chat) == ("one", 0)
        (tmp_path / "go").touch()
        until(lambda: gateway.service.chat(chat).state == "idle")
        assert ask("held/two", "More") == 200
        assert left(chat) == ("two", 0)
    finally:
        (tmp_path / "go").touch()
        gateway.close()


def test_an_agent_that_acts_unasked_is_rejected(gateway: Gateway) -> None:
    """What can be made neither to ask nor to read only is not started for a program; no chat is left."""
    answer = post(gateway, {"model": "kimi"})
    assert answer.status_code == 403
    assert "kimi acts without asking" in answer.json()["error"]["message"]
    assert turns(gateway) == []


def test_no_program_reaches_a_chat_of_the_page(gateway: Gateway) -> None:
    """The id of a chat that a person began is not an id of a program's."""
    chat = gateway.chat(allow="all")
    made = post(gateway, {}, **{"X-Penstock-Chat": chat})
    assert made.headers["x-penstock-chat"] != chat
    assert len(turns(gateway)) == 1


@pytest.mark.slow
def test_requests_beside_a_chat_start_no_agent(gateway: Gateway) -> None:
    """Titles and tags of Open WebUI and LibreChat have an answer at once; a prompt with such words is a prompt."""
    history = "<chat_history>\nUSER: Fix the build\nASSISTANT: ok\n</chat_history>"
    task = '### Task:\nMake one.\n### Output:\nJSON format: {{ "{}": "x" }}\n' + history
    for field, answer in (("title", "Fix the build"), ("tags", []), ("follow_ups", []), ("queries", []), ("text", "")):
        found = post(gateway, {"messages": [{"role": "user", "content": task.format(field)}]}).json()
        assert json.loads(found["choices"][0]["message"]["content"]) == {field: answer}
    words = "Provide a concise, 5-word-or-less title for the conversation, using title case conventions."
    title = f"{words} Only return the title itself.\n\nConversation:\nUser: Fix the build\nAI: ok"
    found = post(gateway, {"messages": [{"role": "user", "content": title}]}).json()
    assert found["choices"][0]["message"]["content"] == "Fix the build"
    assert turns(gateway) == []
    post(gateway, {"stream": True, "messages": [{"role": "user", "content": task.format("title")}]})
    post(gateway, {"messages": [{"role": "user", "content": "### Task:\nWrite a title"}]})
    assert len(turns(gateway)) == 2


@pytest.mark.slow
def test_every_route_needs_a_login(gateway: Gateway) -> None:
    """Those that are listed as public apart, no route answers anybody who has not logged in."""
    with httpx.Client(base_url=gateway.url, trust_env=False) as nobody:
        for address in ADDRESSES:
            path = address.path.replace("{", "").replace("}", "")
            answer = nobody.request(address.method, path, json={} if address.body else None)
            assert (answer.status_code == 401) is not address.public, (address.path, answer.status_code)
        for path in ("/v1", "/v1/", "/v1/models/", "/api", "/metrics/x"):
            assert nobody.get(path).status_code == 401


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
@pytest.mark.slow
def test_agents_do_not_ask_for_agents_for_ever(gateway: Gateway) -> None:
    """An agent whose own model is this server would start one agent after another: the second below it is refused."""
    body = json.dumps({"model": "noting", "messages": HELLO})
    answers = []
    for depth in ("0", "1", "2", "x"):
        words = [sys.executable, "-c", ASK, f"{gateway.url}/v1/chat/completions", body, TOKEN]
        env = {**os.environ, "PENSTOCK_DEPTH": depth}
        answers.append(subprocess.run(words, capture_output=True, text=True, env=env, check=True).stdout)
    assert [answer[:3] for answer in answers] == ["200", "200", "403", "200"]
    assert "an agent asks for another one" in answers[2]
    run = json.dumps({"threadId": "t", "runId": "r", "messages": [{"id": "u", **HELLO[0]}]})
    words, env = [sys.executable, "-c", ASK, f"{gateway.url}/agui/noting", run, TOKEN], {**env, "PENSTOCK_DEPTH": "2"}
    refused = subprocess.run(words, capture_output=True, text=True, env=env, check=True).stdout
    assert refused.startswith("403")
    assert "RUN_ERROR" in refused
    assert (gateway.folder / "depths").read_text().split() == ["1", "2", "1"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_an_agent_that_hides_does_not_ask_for_ever(gateway: Gateway) -> None:
    """Each run asks for the next one, by a process with an empty environment that has left its parents."""
    body = json.dumps({"model": "hiding", "messages": HELLO})
    (gateway.folder / "request").write_text(json.dumps([f"{gateway.url}/v1/chat/completions", body, TOKEN]))
    answer = post(gateway, {"model": "hiding", "messages": HELLO})
    assert answer.status_code == 200
    assert (gateway.folder / "depths").read_text().split() == ["1", "2"]
    assert "an agent asks for another one" in (gateway.folder / "answer2").read_text()
    assert (gateway.folder / "answer1").read_text().startswith("200")


@pytest.mark.slow
def test_a_server_that_is_killed_is_no_answer(serve: Callable[..., Any]) -> None:
    """No end can be written then: the client sees that the body is not whole."""
    started = serve(f"--root={TESTS}", "--port=0", agents=AGENTS)
    url = LINK.search(started.line())[1]  # type: ignore[index]
    token = (started.data / "token").read_text().strip()
    with openai.OpenAI(api_key=token, base_url=f"{url}/v1", max_retries=0) as ask:
        head = {"Authorization": f"Bearer {token}"}
        assert httpx.post(f"{url}/api/workspaces", json={"path": str(TESTS)}, headers=head).status_code == 200
        chunks = ask.chat.completions.create(model="staying", messages=HELLO, stream=True)
        next(chunks)
        started.process.kill()
        with pytest.raises(openai.APIConnectionError):
            list(chunks)
