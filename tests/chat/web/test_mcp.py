"""`penstock mcp` as a program: its lines, judged by the models of the protocol for both of its generations."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lazy_modules import LazyModule
from served import AGENTS, RECORDINGS, SECONDS, held_and_asking
from waiting import until

from penstock.cli.mcp import tasks, tools
from penstock.cli.mcp.calls import Call
from penstock.cli.stdio.agents import agent_of
from penstock.cli.stdio.peer import RpcError
from penstock.run.locks import holder

if TYPE_CHECKING:
    import mcp_types
else:
    mcp_types = LazyModule("mcp_types")

REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]
OLD, NEW = "2025-11-25", "2026-07-28"


class Client:
    """A client of a process, without the protocol's own package: it sends what it likes."""

    def __init__(self, folder: Path, *more: str, version: str = OLD, has_tasks: bool = False, **env: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
        given = {"HOME": folder, "PENSTOCK_CONFIG": folder / "agents.toml", "PENSTOCK_DATA": folder / "data"}
        self.version = version
        self.capabilities: dict[str, Any] = {"extensions": {tasks.EXTENSION: {}}} if has_tasks else {}
        self.told: list[dict[str, Any]] = []
        self._answers: dict[Any, queue.Queue[dict[str, Any]]] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "mcp", *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept, **{name: str(value) for name, value in given.items()}, "PENSTOCK_SANDBOX": "off", **env},
            cwd=folder / "root",
        )
        self._last = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if "id" in message:
                self._answers.setdefault(message["id"], queue.Queue()).put(message)
            else:
                self.told.append(message)

    def send(self, data: bytes) -> None:
        """Send bytes."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def begin(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request, in the form of the client's generation."""
        self._last += 1
        given = dict(params or {})
        if self.version == NEW:
            info = {"name": "tests", "version": "1"}
            envelope = {"protocolVersion": NEW, "clientInfo": info, "clientCapabilities": self.capabilities}
            meta = {f"io.modelcontextprotocol/{name}": value for name, value in envelope.items()}
            given["_meta"] = {**given.get("_meta", {}), **meta}
        self._answers.setdefault(self._last, queue.Queue())
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": given}).encode() + b"\n")
        return self._last

    def answer(self, id: Any) -> dict[str, Any]:
        """The answer to a request."""
        return self._answers.setdefault(id, queue.Queue()).get(timeout=SECONDS)

    def is_answered(self, id: int) -> bool:
        """Whether an answer has come."""
        return not self._answers[id].empty()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request."""
        found: dict[str, Any] = self.answer(self.begin(method, params))["result"]
        return found

    def call(self, name: str, token: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The result of a tool, which the protocol's models accept."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        result = self.ask("tools/call", {"name": name, "arguments": arguments, **meta})
        read = mcp_types.CallToolResult.model_validate(result)
        assert read.content
        assert ("resultType" in result) == (self.version == NEW)
        return result

    def leave(self) -> int:
        """Close stdin; return the exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._ended()

    def end(self, number: signal.Signals) -> int:
        """Send a signal while stdin is open; return the exit status."""
        self._process.send_signal(number)
        status = self._ended()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return status

    def _ended(self) -> int:
        status = self._process.wait(SECONDS)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A machine without a server: agents, and a directory to work in."""
    (tmp_path / "root").mkdir()
    (tmp_path / "agents.toml").write_text(AGENTS + held_and_asking(tmp_path / "go"))
    yield tmp_path
    lock = tmp_path / "data" / "serving.lock"
    if lock.exists() and (pid := holder(lock)):
        os.kill(pid, 15)
        until(lambda: holder(lock) is None)


@pytest.fixture
def client(folder: Path) -> Iterator[Callable[..., Client]]:
    """Starts clients, and lets them leave."""
    made: list[Client] = []

    def start(*more: str, **options: Any) -> Client:
        made.append(Client(folder, "--trust", "--agent=scripted", *more, **options))
        return made[-1]

    yield start
    for each in made:
        assert each.leave() == 0


def states(folder: Path) -> dict[str, str]:
    """The state of each chat."""
    listed = [sys.executable, "-m", "penstock", "chats", "--json", f"--data={folder / 'data'}"]
    done = subprocess.run(listed, capture_output=True, timeout=SECONDS, check=True)
    return {row["id"]: row["state"] for row in map(json.loads, done.stdout.splitlines())}


def text_of(result: dict[str, Any]) -> str:
    """The text of a result."""
    return "".join(block["text"] for block in result["content"])


@pytest.mark.slow
def test_both_generations(client: Callable[..., Client]) -> None:
    """Each begins in its own way and gets the same tools, as its models have them."""
    old, new = client(), client(version=NEW)
    begun = old.ask(
        "initialize", {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    )
    assert mcp_types.InitializeResult.model_validate(begun).protocol_version == OLD
    newer = old.ask("initialize", {"protocolVersion": "2027-01-01", "capabilities": {}})
    assert newer["protocolVersion"] == OLD
    found = mcp_types.DiscoverResult.model_validate(new.ask("server/discover"))
    assert found.supported_versions == [NEW]
    lists = [one.ask("tools/list") for one in (old, new)]
    for tool in lists[0]["tools"]:
        assert tool.pop("execution")["taskSupport"] == ("optional" if tool["name"] == "ask_agent" else "forbidden")
    assert lists[0]["tools"] == lists[1]["tools"]
    assert {"ttlMs", "cacheScope", "resultType"} <= set(lists[1])
    assert not {"ttlMs", "cacheScope", "resultType"} & set(lists[0])
    assert [tool.name for tool in mcp_types.ListToolsResult.model_validate(lists[0]).tools] == [*tools.TOOLS]
    assert old.ask("ping") == {}


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.slow
def test_an_agent_is_asked(client: Callable[..., Client], version: str) -> None:
    """The reply is the result, what it does meanwhile is progress, and the chat goes on with its id."""
    one = client(version=version)
    result = one.call("ask_agent", prompt="Hello", token="t")
    facts = result["structuredContent"]
    assert (text_of(result), facts["state"], facts["outcome"]) == (REPLY, "ended", "ok")
    assert not result["isError"]
    assert facts["usage"]["output_tokens"] > 0
    said = [message["params"] for message in one.told if message["method"] == "notifications/progress"]
    assert said
    assert all(it["progressToken"] == "t" and it["message"] for it in said)
    assert [it["progress"] for it in said] == sorted({it["progress"] for it in said})
    again = one.call("ask_agent", prompt="More", chat=facts["chat"])["structuredContent"]
    assert (again["chat"], again["turn"]) == (facts["chat"], 2)


@pytest.mark.slow
def test_what_is_listed(client: Callable[..., Client]) -> None:
    """Agents that can be asked, with the one that a call without a name asks."""
    listed = client().call("list_agents")["structuredContent"]
    assert listed["default"] == "scripted"
    assert {"scripted", "held", "peer"} <= {agent["name"] for agent in listed["agents"]}


@pytest.mark.slow
def test_a_turn_that_is_started_and_waited_for(client: Callable[..., Client], folder: Path) -> None:
    """It works while nobody waits; a wait ends in time, and the last one has the reply."""
    one = client()
    facts = one.call("start_turn", prompt="Hello", agent="held")["structuredContent"]
    assert facts["state"] == "working"
    turn = {"chat": facts["chat"], "turn": facts["turn"]}
    began = time.monotonic()
    assert one.call("wait_turn", **turn, seconds=0.2)["structuredContent"]["state"] == "working"
    assert time.monotonic() - began < SECONDS / 2
    (folder / "go").touch()
    result = one.call("wait_turn", **turn)
    assert text_of(result) == REPLY
    assert one.call("wait_turn", **turn, seconds=0)["structuredContent"]["state"] in ("working", "ended")


@pytest.mark.slow
def test_a_turn_is_stopped(client: Callable[..., Client], folder: Path) -> None:
    """By the tool, and by a client that gives up its call; a call that was given up gets no answer."""
    one = client()
    facts = one.call("start_turn", prompt="Hello", agent="held")["structuredContent"]
    until(lambda: states(folder)[facts["chat"]] == "running")
    stopped = one.call("stop_turn", chat=facts["chat"], turn=1)
    assert stopped["structuredContent"]["outcome"] == "cancelled"
    assert "[the turn was stopped]" in text_of(stopped)
    assert not stopped["isError"]
    arguments = {"prompt": "Hello", "chat": facts["chat"]}
    asked = one.begin("tools/call", {"name": "ask_agent", "arguments": arguments, "_meta": {"progressToken": 5}})
    until(lambda: any(it["params"]["progressToken"] == 5 for it in one.told))
    one.send(
        json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": asked}}).encode()
    )
    one.send(b"\n")
    result = one.call("wait_turn", chat=facts["chat"], turn=2)
    assert result["structuredContent"]["outcome"] == "cancelled"
    assert result["isError"], "who only waited has to know that it is no whole reply"
    assert not one.is_answered(asked)


@pytest.mark.slow
def test_the_client_leaves(client: Callable[..., Client], folder: Path) -> None:
    """What it was waiting for is stopped. What it only started goes on."""
    one = Client(folder, "--trust", "--agent=held")
    kept = one.call("start_turn", prompt="Hello")["structuredContent"]["chat"]
    one.begin("tools/call", {"name": "ask_agent", "arguments": {"prompt": "Hello"}, "_meta": {"progressToken": 5}})
    until(lambda: any("progressToken" in it.get("params", {}) for it in one.told))
    assert one.leave() == 0
    until(lambda: sorted(states(folder).values()) == ["idle", "running"])
    assert states(folder)[kept] == "running"


def given_up(one: Client, **arguments: Any) -> int:
    """The id of a call that works, which its client then gives up."""
    meta = {"progressToken": 5}
    asked = one.begin("tools/call", {"name": "ask_agent", "arguments": {"prompt": "Hello", **arguments}, "_meta": meta})
    until(lambda: any(it.get("params", {}).get("progressToken") == 5 for it in one.told))
    given = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": asked}}
    one.send(json.dumps(given).encode() + b"\n")
    return asked


@pytest.mark.slow
def test_the_client_gives_up_and_leaves(client: Callable[..., Client], folder: Path) -> None:
    """The turn is stopped, though the client closes the connection and ends the server as soon as it can."""
    one = Client(folder, "--trust", "--agent=held")
    given_up(one)
    one.end(signal.SIGTERM)
    until(lambda: [*states(folder).values()] == ["idle"])


@pytest.mark.slow
@pytest.mark.parametrize("gives_up", [False, True])
def test_the_client_kills_the_server(client: Callable[..., Client], folder: Path, gives_up: bool) -> None:
    """The turn is stopped by the server of the chats, as nobody waits for it. One that was started goes on."""
    one = Client(folder, "--trust", "--agent=held")
    kept = one.call("start_turn", prompt="Hello")["structuredContent"]["chat"]
    until(lambda: states(folder)[kept] == "running")
    if gives_up:
        given_up(one)
    else:
        one.begin("tools/call", {"name": "ask_agent", "arguments": {"prompt": "Hello"}, "_meta": {"progressToken": 5}})
        until(lambda: any("progressToken" in it.get("params", {}) for it in one.told))
    assert one.end(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: sorted(states(folder).values()) == ["idle", "running"])
    assert states(folder)[kept] == "running"


def test_a_call_that_is_given_up_is_heard_of_at_once() -> None:
    """The thread that answers it is woken, and does not look again and again."""
    call = Call(None)
    woken = threading.Event()

    def wait() -> None:
        assert call.steps.get(timeout=SECONDS) is None
        woken.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    call.cancel()
    assert woken.wait(SECONDS)
    assert call.is_cancelled
    waiting.join()


def test_no_agent_is_there() -> None:
    """The error says what to do, and does not end in the middle of a sentence."""
    with pytest.raises(RpcError, match=r'expected one that is installed; "penstock agents" lists them$'):
        agent_of([], "claude")


@pytest.mark.slow
def test_a_question_is_never_answered_by_a_program(client: Callable[..., Client]) -> None:
    """Where there is no page, it is rejected, and the agent goes on without."""
    result = client().call("ask_agent", prompt="permission", agent="peer")
    assert result["structuredContent"]["state"] == "ended"
    assert "once" not in text_of(result)
    assert "always" not in text_of(result)


REJECTED: list[tuple[str, dict[str, Any], str]] = [
    ("ask_agent", {}, "missing required field `prompt`"),
    ("ask_agent", {"prompt": ""}, "length >= 1"),
    ("ask_agent", {"prompt": 5}, "Expected `str`"),
    ("ask_agent", {"prompt": "a\0b"}, "NUL"),
    ("start_turn", {"prompt": "x" * (512 * 1024 + 1)}, "524,289 bytes"),
    ("ask_agent", {"prompt": "x", "trust": True}, "unknown field `trust`"),
    ("ask_agent", {"prompt": "x", "allow": "all"}, "Invalid enum value 'all'"),
    ("ask_agent", {"prompt": "x", "agent": "nobody"}, "there is no agent 'nobody'"),
    ("ask_agent", {"prompt": "x", "chat": "0" * 32}, "there is no chat '0000"),
    ("ask_agent", {"prompt": "x", "cwd": "here"}, "expected an absolute path"),
    ("ask_agent", {"prompt": "x", "cwd": "/etc"}, "/etc is not trusted"),
    ("wait_turn", {"chat": "../api", "turn": 1}, "there is no chat"),
    ("wait_turn", {"chat": "x", "turn": 0}, ">= 1"),
    ("wait_turn", {"chat": "x", "turn": 1, "seconds": 1e9}, "<= 45"),
    ("stop_turn", {"chat": "x", "turn": 1}, "there is no chat"),
]


@pytest.mark.slow
def test_what_a_tool_rejects(client: Callable[..., Client], folder: Path) -> None:
    """The calling model reads why, nothing is started, and no chat is left."""
    one = client()
    for tool, arguments, said in REJECTED:
        result = one.call(tool, **arguments)
        assert result["isError"], (tool, arguments)
        assert said in text_of(result), (tool, arguments)
    assert states(folder) == {}


@pytest.mark.slow
def test_what_the_protocol_rejects(client: Callable[..., Client]) -> None:
    """Errors of the protocol have its codes, and the next request is answered."""
    one = client()
    assert one.answer(one.begin("tools/call", {"name": "rm"}))["error"]["code"] == -32602
    assert one.answer(one.begin("resources/list"))["error"]["code"] == -32601
    wrong = one.begin("ping", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}})
    error = one.answer(wrong)["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": [NEW], "requested": "2030-01-01"})
    for line in (b"{", b"[]", b"5", b"\xff", b"null", b'{"id":1}'):
        one.send(line + b"\n")
        assert one.answer(None)["error"]["code"] in (-32700, -32600)
    chance = random.Random(5)
    for _ in range(200):
        one.send(bytes(chance.choice(b'{}[]":,0\\u \xc3a') for _ in range(chance.randrange(1, 40))) + b"\n")
    one.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}\n')
    one.send(b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":[1]}\n')
    assert one.answer("x")["error"]["code"] == -32602
    assert one.ask("ping") == {}


@pytest.mark.slow
def test_it_is_trusted_by_its_user_alone(folder: Path) -> None:
    """Without --trust no agent works in a directory that no person has trusted."""
    one = Client(folder, "--agent=scripted")
    result = one.call("ask_agent", prompt="Hello")
    assert "is not trusted" in text_of(result)
    assert one.leave() == 0


@pytest.mark.slow
def test_an_agent_below_an_agent(folder: Path) -> None:
    """It cannot ask for another one without end, also if it starts the program without its own environment."""
    words = [sys.executable, "-m", "penstock", "mcp", f"--data={folder / 'data'}"]
    env = {**os.environ, "PENSTOCK_DEPTH": "2"}
    for start in (words, ["sh", "-c", 'env -u PENSTOCK_DEPTH "$@"; exit $?', "-", *words]):
        done = subprocess.run(start, input=b"", capture_output=True, env=env, timeout=SECONDS, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"an agent asks for another one" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.slow
def test_the_client_ends_it_by_a_signal(folder: Path, number: signal.Signals) -> None:
    """As if the client had left: what it was waiting for is stopped."""
    one = Client(folder, "--trust", "--agent=held")
    one.begin("tools/call", {"name": "ask_agent", "arguments": {"prompt": "Hello"}, "_meta": {"progressToken": 5}})
    until(lambda: bool(one.told))
    assert one.end(number) == 0
    until(lambda: [*states(folder).values()] == ["idle"])


# --- tasks ---


def begun(one: Client, **arguments: Any) -> str:
    """The id of a task of `ask_agent`, as the models of its generation have it."""
    given = {"name": "ask_agent", "arguments": {"prompt": "Hello", **arguments}}
    if one.version == NEW:
        made = one.ask("tools/call", given)
        assert made["resultType"] == "task"
        assert not {"result", "error"} & set(made)
    else:
        made = one.ask("tools/call", {**given, "task": {"ttl": 60_000}})["task"]
        mcp_types.Task.model_validate(made)
    assert made["status"] in ("working", "completed", "failed")
    return str(made["taskId"])


def task_of(one: Client, id: str) -> dict[str, Any]:
    """A task, as the models of its generation have it."""
    found = one.ask("tasks/get", {"taskId": id})
    if one.version == OLD:
        mcp_types.GetTaskResult.model_validate(found)
    else:
        assert found["resultType"] == "complete"
        assert set(found) >= {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"}
    return found


def result_of(one: Client, id: str) -> dict[str, Any]:
    """The result of a task, once it has ended."""
    if one.version == OLD:
        found = one.ask("tasks/result", {"taskId": id})
        assert found["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": id}}
    else:
        found = until(lambda: task_of(one, id).get("result"), "the task has a result")
    mcp_types.CallToolResult.model_validate(found)
    return found


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.slow
def test_a_call_is_a_task(client: Callable[..., Client], folder: Path, version: str) -> None:
    """The call returns while the agent works; what it does and its reply are read from the task."""
    one = client(version=version, has_tasks=True)
    id = begun(one, agent="held")
    working = until(lambda: (found := task_of(one, id)).get("statusMessage") and found)
    assert working["status"] == "working"
    assert "result" not in working
    (folder / "go").touch()
    result = result_of(one, id)
    assert (text_of(result), result["structuredContent"]["outcome"]) == (REPLY, "ok")
    assert task_of(one, id)["status"] == "completed"
    assert text_of(result_of(one, id)) == REPLY, "it can be read again"


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.slow
def test_a_task_is_cancelled(client: Callable[..., Client], folder: Path, version: str) -> None:
    """Its turn is stopped, and it stays cancelled. One that has ended cannot be cancelled."""
    one = client(version=version, has_tasks=True)
    id = begun(one, agent="held")
    until(lambda: task_of(one, id).get("statusMessage"))
    cancelled = one.ask("tasks/cancel", {"taskId": id})
    assert cancelled.get("status") == ("cancelled" if version == OLD else None)
    until(lambda: [*states(folder).values()] == ["idle"])
    found = task_of(one, id)
    assert (found["status"], "result" in found) == ("cancelled", False)
    if version == OLD:
        assert one.ask("tasks/result", {"taskId": id})["isError"]
    ended = begun(one)
    result_of(one, ended)
    again = one.answer(one.begin("tasks/cancel", {"taskId": ended}))
    assert again.get("error", {}).get("code") == (-32602 if version == OLD else None)
    assert task_of(one, ended)["status"] == "completed"


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.slow
def test_a_task_that_fails(client: Callable[..., Client], version: str) -> None:
    """The result is the error of the tool, which is a failure of the task in the earlier generation alone."""
    one = client(version=version, has_tasks=True)
    for arguments, said in (({"agent": "nobody"}, "there is no agent"), ({"prompt": 5}, "Expected `str`")):
        id = begun(one, **arguments)
        result = result_of(one, id)
        assert result["isError"]
        assert said in text_of(result)
        found = task_of(one, id)
        assert found["status"] == ("failed" if version == OLD else "completed")
        assert said in found["statusMessage"], "some clients show nothing else"


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_client_of_a_task_leaves(folder: Path, is_killed: bool) -> None:
    """Nobody can ask for the task any more, so its turn is stopped, also if there was no time to do so."""
    one = Client(folder, "--trust", "--agent=held")
    id = begun(one)
    until(lambda: task_of(one, id).get("statusMessage"))
    if is_killed:
        assert one.end(signal.SIGKILL) == -signal.SIGKILL
    else:
        assert one.leave() == 0
    until(lambda: [*states(folder).values()] == ["idle"])


@pytest.mark.slow
def test_what_is_no_task(client: Callable[..., Client]) -> None:
    """Each generation has its own methods; a client that does not know tasks gets the result of its call."""
    old, new, plain = client(), client(version=NEW, has_tasks=True), client(version=NEW)
    assert text_of(plain.call("ask_agent", prompt="Hello")) == REPLY
    assert text_of(new.call("list_agents"))

    def code(one: Client, method: str, **params: Any) -> int:
        return int(one.answer(one.begin(method, params))["error"]["code"])

    ids: list[Any] = ["0" * 32, 5, None, [], {}]
    for one in (old, new):
        for wrong in ids:
            assert code(one, "tasks/get", taskId=wrong) == -32602
            assert code(one, "tasks/cancel", taskId=wrong) == -32602
    assert code(plain, "tasks/get", taskId="0" * 32) == -32021
    assert code(new, "tasks/result", taskId="0" * 32) == code(new, "tasks/list") == -32601
    assert code(old, "tasks/update", taskId="0" * 32) == code(old, "tasks/") == -32601
    assert code(old, "tools/call", name="list_agents", task={}) == -32601
    assert code(old, "tools/call", name="ask_agent", task=[]) == -32602
    id = begun(old)
    assert code(new, "tasks/get", taskId=id) == -32602, "that of another client"
    listed = old.ask("tasks/list")
    mcp_types.ListTasksResult.model_validate(listed)
    assert [task["taskId"] for task in listed["tasks"]] == [id]
