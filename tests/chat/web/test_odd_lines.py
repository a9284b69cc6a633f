"""Odd lines on stdin of `penstock acp` and `penstock mcp`: each request gets an error of JSON-RPC, and nothing is left.

`PENSTOCK_SOAK=1` sends 6,000 of them, 150 by each seed to each program.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from effort import SOAK
from lazy_modules import LazyModule
from odd_requests import Changes
from served import AGENTS, RECORDINGS, TOKEN, Gateway, held_and_asking
from waiting import until

from penstock.cli.mcp import tools
from penstock.cli.stdio.peer import Peer, RpcError, Work

if TYPE_CHECKING:
    import acp.schema as acp
    import mcp_types
else:
    acp = LazyModule("acp.schema")
    mcp_types = LazyModule("mcp_types")

COUNT = 150
"""Lines of each seed."""

SEEDS = range(20 if SOAK else 2)

REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]

Message = dict[str, Any]

TEXTS = ("Hello", "permission", "", "\0", "a\0b", "x" * (512 * 1024 + 1))
"""Prompts: two that an agent can answer, and those that are rejected."""


# --- what a line is, told a second time ---


class Meant(NamedTuple):
    """What a line is: a request, something without an answer, or wrong; with the id that its answer has."""

    kind: str
    id: str | int | None = None


def meaning(line: bytes) -> Meant:
    """What JSON-RPC says of a line. It does not look at methods and parameters."""
    if not line.strip():
        return Meant("silent")
    try:
        message = json.loads(line.decode("utf-8-sig"), parse_constant=_no_json, parse_float=_finite)
    except (ValueError, RecursionError):
        return Meant("wrong")
    if not isinstance(message, dict):
        return Meant("wrong")
    id, method = message.get("id"), message.get("method")
    is_number = isinstance(id, int) and not isinstance(id, bool) and -(2**63) <= id < 2**63
    found = id.encode("utf-8", "replace").decode() if isinstance(id, str) else id if is_number else None
    if isinstance(method, str) and found is not None:
        return Meant("request", found)
    if isinstance(method, str) and "id" not in message:
        return Meant("silent")
    if method is None and ("result" in message or "error" in message):
        return Meant("silent")
    return Meant("wrong", found if "method" in message else None)


def _no_json(name: str) -> None:
    raise ValueError(name)


def _finite(digits: str) -> float:
    if isinf(found := float(digits)):
        raise ValueError(digits)
    return found


# --- the program ---


def started(gateway: Gateway, command: str, errors: Path) -> subprocess.Popen[bytes]:
    """One of the two commands, which writes its stderr to a file."""
    token = gateway.folder / "program-token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    words = [sys.executable, "-m", "penstock", command, "--agent=scripted", f"--server={gateway.url}"]
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
    env = {**kept, "HOME": str(gateway.folder), "PENSTOCK_CONFIG": str(gateway.folder / "agents.toml")}
    pipe = subprocess.PIPE
    with errors.open("wb") as file:
        return subprocess.Popen(
            [*words, f"--token-file={token}"], stdin=pipe, stdout=pipe, stderr=file, cwd=gateway.root, env=env
        )


class Program:
    """One of the two commands as a process, whose client sends any bytes."""

    def __init__(self, gateway: Gateway, command: str) -> None:
        self.command = command
        self.folder = gateway.root
        self.errors = gateway.folder / f"{command}-stderr"
        self.messages: list[Message] = []
        """All that it sent so far."""
        self.process = started(gateway, command, self.errors)
        self._syncs = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # the client closes it
            for line in self.process.stdout:
                self.messages.append(json.loads(line))

    def send(self, line: bytes) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        assert b"\n" not in line
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def sync(self) -> int:
        """Send a request that is answered before the next line is read; return the number of messages up to then."""
        self._syncs += 1
        id, begin = f"sync-{self._syncs}", len(self.messages)
        self.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": "sync"}).encode())

        def places() -> list[int]:
            return [at for at in range(begin, len(self.messages)) if self.messages[at].get("id") == id]

        [found] = until(places, f"{self.command} answers")
        return int(found)

    def ask(self, id: str, method: str, **params: Any) -> Any:
        """The result of a request."""
        self.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
        answer: Message = until(lambda: self.answer(id), f"{method} is answered")
        assert "result" in answer, answer
        return answer["result"]

    def answer(self, id: str | int) -> Message | None:
        """The answer to a request, if it is there."""
        found = (it for it in self.messages if "method" not in it and it["id"] == id and type(it["id"]) is type(id))
        return next(found, None)

    def leave(self) -> int:
        """Close stdin; return the exit status."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self._ended()

    def _ended(self) -> int:
        until(lambda: self.process.poll() is not None, f"{self.command} ends")
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.leave()

    def check_quiet(self) -> None:
        """It has reported no error inside of itself."""
        said = self.errors.read_text("utf-8", "replace")
        assert "Traceback" not in said, said
        assert "Exception" not in said, said


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """One with an agent that asks, and a directory that nobody trusts."""
    (tmp_path / "agents.toml").write_text(AGENTS + held_and_asking(tmp_path / "go"))
    made = Gateway(tmp_path, page)
    yield made
    made.close()


@pytest.fixture
def program(gateway: Gateway) -> Iterator[Callable[[str], Program]]:
    """Starts a command, and ends it after the test."""
    made: list[Program] = []

    def start(command: str) -> Program:
        made.append(Program(gateway, command))
        return made[-1]

    yield start
    for one in made:
        one.close()


# --- lines of a client ---


class Client:
    """Client whose lines are mostly odd; it knows the sessions and chats that it was given."""

    def __init__(self, program: Program, dice: random.Random) -> None:
        self.program = program
        self.dice = dice
        self.asked = 0
        """Number of messages in which requests to the client were looked for."""

    def line(self, number: int) -> bytes:
        """The next line."""
        dice = self.dice
        if dice.random() < 0.1:
            messages = [self.message(number), self.message(number)]
            return json.dumps(dice.choice(([], messages, [messages], messages[0]["method"], 5))).encode()
        return Changes(dice).body(self.message(number)).replace(b"\n", b" ")

    def message(self, number: int) -> Message:
        """A message that is right."""
        dice = self.dice
        method, params = dice.choice(self._acp() if self.program.command == "acp" else self._mcp())
        id = dice.choice((number, number, str(number), "same", 2**60, -1, f"{number}\ud800", "x" * 2000))
        found: Message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        if method in ("session/cancel", "$/cancel_request", "notifications/cancelled", "notifications/initialized"):
            del found["id"]
        return found

    def answers(self) -> Iterator[bytes]:
        """Answers to what the program asks, and to what it does not."""
        dice, messages = self.dice, self.program.messages
        count = len(messages)
        ids = [it["id"] for it in messages[self.asked : count] if "method" in it and "id" in it]
        self.asked = count
        for id in [*ids, *([dice.choice((1, True, "1", 1.0, None, 99))] if dice.random() < 0.1 else [])]:
            chosen = {"outcome": {"outcome": "selected", "optionId": dice.choice(("trust", "once", "no", "", 5))}}
            for _ in range(dice.choice((0, 1, 1, 2))):
                result: Any = dice.choice(
                    (chosen, chosen, {}, None, [], {"outcome": []}, {"outcome": {"outcome": "x"}})
                )
                more = dice.choice(({"result": result}, {"result": result, "error": None}, {"error": 5}))
                yield json.dumps({"jsonrpc": "2.0", "id": id, **more}).encode()

    def session(self) -> str:
        """The id of a session that the program has named, or of none."""
        made = [it["result"]["sessionId"] for it in self.program.messages if "sessionId" in (it.get("result") or {})]
        return str(self.dice.choice([*made[-3:], *made[-3:], "nothing"]))

    def _acp(self) -> list[tuple[str, Message]]:
        dice, session = self.dice, self.session()
        cwd = dice.choice((str(self.program.folder), str(self.program.folder / "untrusted"), "/nowhere"))
        picture = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
        file = {"type": "resource", "resource": {"uri": "file:///a/b.txt", "text": "a file"}}
        blocks = [{"type": "text", "text": dice.choice(TEXTS)}, *dice.choice(([], [], [picture], [file]))]
        features: Message = {"elicitation": {"form": {}}, "session": {"notices": {}}}
        of = {"sessionId": session}
        return [
            ("initialize", {"protocolVersion": 1, "clientCapabilities": dice.choice(({}, features))}),
            *[("session/new", {"cwd": cwd, "mcpServers": []})] * 2,
            *[("session/prompt", {**of, "prompt": blocks})] * 3,
            ("session/prompt", {**of, "prompt": blocks, "cwd": 5}),
            ("session/load", {**of, "cwd": cwd, "mcpServers": []}),
            ("session/resume", {**of, "cwd": cwd, "mcpServers": []}),
            ("session/list", {"cwd": cwd, "cursor": dice.choice(("0", "100", "-1", "\u0663"))}),
            ("session/close", of),
            ("session/delete", of),
            ("session/set_config_option", {**of, "configId": "agent", "value": dice.choice(("peer", "slow"))}),
            ("session/set_mode", {**of, "modeId": dice.choice(("read", "ask", "all"))}),
            ("session/cancel", of),
            ("$/cancel_request", {"requestId": dice.choice(("same", -1, True, None))}),
            ("session/fork", of),
        ]

    def _mcp(self) -> list[tuple[str, Message]]:
        dice = self.dice
        results = [it.get("result") or {} for it in self.program.messages[-50:]]
        facts = [it["structuredContent"] for it in results if "chat" in (it.get("structuredContent") or {})]
        chat = dice.choice([it["chat"] for it in facts[-3:]] or ["nothing"])
        info = {"name": "t", "version": "1"}
        names = {"protocolVersion": "2026-07-28", "clientInfo": info, "clientCapabilities": {}}
        new = {"_meta": {f"io.modelcontextprotocol/{name}": value for name, value in names.items()}}
        more = dice.choice(({}, new, {"_meta": {"progressToken": dice.choice((1, "t", True, 1.5, None))}}))
        asking = {"prompt": dice.choice(("Hello", "", "a\0b", TEXTS[-1])), "agent": dice.choice(("scripted", "nobody"))}
        turn = {"chat": chat, "turn": dice.choice((1, 2, 2**70))}
        calls: list[Message] = [
            {"name": "list_agents", "arguments": {}},
            *[{"name": "ask_agent", "arguments": asking}] * 3,
            {"name": "ask_agent", "arguments": {**asking, "chat": chat}},
            {"name": "ask_agent", "arguments": {**asking, "model": dice.choice(("", "-x", "a\0"))}},
            {"name": "start_turn", "arguments": asking},
            {"name": "wait_turn", "arguments": {**turn, "seconds": 0.1}},
            {"name": "stop_turn", "arguments": turn},
        ]
        return [
            ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}),
            ("notifications/initialized", {}),
            ("ping", more),
            ("tools/list", more),
            ("server/discover", new),
            *[("tools/call", {**call, **more}) for call in calls],
            ("notifications/cancelled", {"requestId": dice.choice(("same", -1, True, None))}),
            ("resources/list", more),
        ]


RESULTS: dict[str, Callable[[], Any]] = {
    "initialize": lambda: acp.InitializeResponse,
    "session/new": lambda: acp.NewSessionResponse,
    "session/prompt": lambda: acp.PromptResponse,
    "session/load": lambda: acp.LoadSessionResponse,
    "session/resume": lambda: acp.ResumeSessionResponse,
    "session/list": lambda: acp.ListSessionsResponse,
    "session/close": lambda: acp.CloseSessionResponse,
    "session/delete": lambda: acp.DeleteSessionResponse,
    "session/set_config_option": lambda: acp.SetSessionConfigOptionResponse,
    "session/set_mode": lambda: acp.SetSessionModeResponse,
}
"""Models of ACP for the results of requests."""

MCP_RESULTS: dict[str, Callable[[], Any]] = {
    "initialize": lambda: mcp_types.InitializeResult,
    "ping": lambda: mcp_types.EmptyResult,
    "tools/list": lambda: mcp_types.ListToolsResult,
    "server/discover": lambda: mcp_types.DiscoverResult,
    "tools/call": lambda: mcp_types.CallToolResult,
}
"""Models of MCP for the results of requests."""


def check_message(command: str, message: Message, methods: dict[str | int, str]) -> None:
    """The models of the protocol accept a message, and an error is none inside of Penstock."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        if command == "mcp":
            mcp_types.JSONRPCNotification.model_validate(message)
        elif message["method"] == "session/update":
            acp.SessionNotification.model_validate(message["params"])
        elif message["method"] == "session/request_permission":
            acp.RequestPermissionRequest.model_validate(message["params"])
        else:
            assert message["method"] == "$/cancel_request"
    elif "error" in message:
        model = mcp_types.JSONRPCError if command == "mcp" else acp.AgentErrorMessage
        model.model_validate(message)
        error = message["error"]
        assert error["message"].strip()
        assert "inside of Penstock" not in error["message"], error
        assert -32768 <= error["code"] <= -32000
    elif (method := methods.get(message["id"])) is not None:
        (RESULTS if command == "acp" else MCP_RESULTS)[method]().model_validate(message["result"])


def method_of(line: bytes) -> str:
    """The method of a request."""
    return str(json.loads(line.decode("utf-8-sig"))["method"])


def given_up_by(line: bytes) -> set[str | int]:
    """The id of the request that a client of MCP gives up by this line."""
    message = json.loads(line.decode("utf-8-sig")) if line.strip() else {}
    params = message.get("params")
    if message.get("method") != "notifications/cancelled" or not isinstance(params, dict):
        return set()
    id = params.get("requestId")
    return {id} if isinstance(id, str | int) else set()


def chats_without_a_turn(gateway: Gateway) -> list[str]:
    """The chats that nobody has asked anything."""
    with gateway.client() as one:
        chats = [it["id"] for it in one.get("/api/chats").json()["chats"]]
        answers = {id: one.get(f"/api/chats/{id}/turns") for id in chats}
    return [id for id, answer in answers.items() if answer.status_code == 200 and not answer.json()["turns"]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("command", ["acp", "mcp"])
def test_odd_lines(gateway: Gateway, program: Callable[[str], Program], command: str, seed: int) -> None:
    """Each request has one answer with its id, all else that is wrong one error, and the next request is answered."""
    (gateway.root / "untrusted").mkdir()
    one = program(command)
    client = Client(one, random.Random(f"{command} {seed}"))
    wanted: Counter[str | int] = Counter()
    methods: dict[str | int, str] = {}
    given_up: set[str | int] = set()
    """Requests that get no answer if they are answered by then."""
    begin = one.sync()
    for number in range(COUNT):
        for answer in client.answers():
            one.send(answer)
        line = client.line(number)
        meant = meaning(line)
        try:
            one.send(line)
            end = one.sync()
            wrong = [it for it in one.messages[begin:end] if it.get("id", "") is None]
            assert len(wrong) == (meant.kind == "wrong" and meant.id is None)
        except BaseException as error:
            error.add_note(f"line {number}: {line[:3000]!r} {meant}")
            raise
        begin = end
        given_up |= given_up_by(line) if meant.kind == "silent" else set()
        if meant.id is not None:
            wanted[meant.id] += 1
            methods[meant.id] = method_of(line) if meant.kind == "request" and wanted[meant.id] == 1 else ""
    for session in {it["result"]["sessionId"] for it in one.messages if "sessionId" in (it.get("result") or {})}:
        note = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        one.send(json.dumps(note).encode())

    def answered() -> Counter[str | int]:
        ids = [it["id"] for it in [*one.messages] if "method" not in it and it["id"] is not None]
        return Counter(id for id in ids if not str(id).startswith("sync-"))

    until(lambda: not {*(wanted - answered())} - given_up, "each request is answered")
    found = answered()
    assert not found - wanted, "an answer that nobody waits for"
    for message in one.messages:
        check_message(command, message, {id: method for id, method in methods.items() if wanted[id] == 1 and method})

    if command == "acp":
        one.ask("sound-1", "initialize", protocolVersion=1)
        session = one.ask("sound-2", "session/new", cwd=str(gateway.root), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": "Hello"}]
        assert one.ask("sound-3", "session/prompt", sessionId=session, prompt=prompt)["stopReason"] == "end_turn"
        updates = [it["params"] for it in one.messages if it.get("method") == "session/update"]
        mine = [it["update"] for it in updates if it["sessionId"] == session]
        said = [it["content"]["text"] for it in mine if it["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(said) == REPLY
    else:
        result = one.ask("sound-1", "tools/call", name="ask_agent", arguments={"prompt": "Hello"})
        assert [it["text"] for it in result["content"]] == [REPLY]
        assert {it["name"] for it in one.ask("sound-2", "tools/list")["tools"]} == {*tools.TOOLS}
    until(lambda: not chats_without_a_turn(gateway), "no chat is left by a request that was rejected")
    assert one.leave() == 0
    one.check_quiet()
    until(lambda: all(it.state == "idle" for it in gateway.service.chat_list.all()), "no agent is left")


# --- the two ends of the pipe ---


@pytest.mark.slow
@pytest.mark.parametrize("command", ["acp", "mcp"])
def test_a_client_that_stops_reading_has_gone(gateway: Gateway, tmp_path: Path, command: str) -> None:
    """The program ends, though stdin stays open and nothing more is sent."""
    with started(gateway, command, tmp_path / "stderr") as one:
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "no"}\n')
        one.stdin.flush()
        assert json.loads(one.stdout.readline())["error"]["code"] == -32601
        one.stdout.close()
        until(lambda: one.poll() is not None, "the program ends")
        assert one.returncode == 0
    assert (tmp_path / "stderr").read_text() == ""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["acp", "mcp"])
def test_the_end_of_stdin(program: Callable[[str], Program], command: str) -> None:
    """What is cut off by it is an error, what is whole is answered, and the program ends well; also without stdin."""
    one = program(command)
    one.sync()
    assert one.process.stdin is not None
    one.process.stdin.write(b'{"jsonrpc": "2.0", "id": 5, "method": "no"}\n{"jsonrpc": "2.0", "id": 7, "met')
    assert one.leave() == 0
    assert [(it["id"], it["error"]["code"]) for it in one.messages[1:]] == [(5, -32601), (None, -32700)]
    one.check_quiet()
    words = ["sh", "-c", 'exec "$@" <&-', "-", sys.executable, "-m", "penstock", command]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False, cwd=one.folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["acp", "mcp"])
def test_lines_that_are_too_long_or_too_deep(program: Callable[[str], Program], command: str) -> None:
    """The error has the id if it is at the beginning; the next line is read. No depth of nesting ends the program."""
    one = program(command)
    long = b"x" * (33 * 1024 * 1024)
    for head, id in ((b'{"jsonrpc":"2.0","id":5,"method":"', 5), (b'{"a":"', None), (b"", None)):
        begin = one.sync()
        one.send(head + long)
        found = one.messages[begin + 1 : one.sync()]
        assert [(it["id"], it["error"]["code"]) for it in found] == [(id, -32600)]
    for depth in (10, *range(850, 1100), 100_000):
        begin = one.sync()
        deep = b"[" * depth + b"]" * depth
        place = (b'"name":%b', b'"_meta":{"io.modelcontextprotocol/protocolVersion":%b}', b'"sessionId":%b')[depth % 3]
        method = b"session/prompt" if command == "acp" else b"tools/call"
        one.send(b'{"jsonrpc":"2.0","id":6,"method":"%b","params":{%b}}' % (method, place % deep))
        [error] = one.messages[begin + 1 : one.sync()]
        assert (error["id"], error["error"]["code"]) in ((6, -32602), (None, -32700)), depth
    assert one.leave() == 0
    one.check_quiet()


# --- one connection, without a server ---


class Wire:
    """A connection whose requests do what the test says, and the client at its other end."""

    def __init__(self, request: Callable[[str | int, str, Any], Work], *, waits: bool = True) -> None:
        """`waits`: reading and writing wait at its end of the pipes; else they fail if they would have to."""
        self._source, self._to = os.pipe()
        self._from, self._sink = os.pipe()
        for end in (self._source, self._sink):
            os.set_blocking(end, waits)
        self.notes: list[str] = []
        self.peer = Peer(self._source, self._sink, request, self._note)
        self._lines = os.fdopen(self._from, "rb")
        self._thread = threading.Thread(target=self.peer.serve)
        self._thread.start()

    def _note(self, method: str, params: Any) -> None:
        self.notes.append(method)
        assert method != "fails", "as the test wants it"

    def send(self, *lines: bytes) -> None:
        """Send lines."""
        os.write(self._to, b"".join(line + b"\n" for line in lines))

    def read(self) -> Message:
        """The next message."""
        found: Message = json.loads(self._lines.readline())
        return found

    def code(self) -> tuple[Any, int]:
        """The id and the code of the next error."""
        found = self.read()
        return found["id"], found["error"]["code"]

    def close(self) -> None:
        """Leave."""
        os.close(self._to)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.peer.wait(60)
        self._lines.close()
        os.close(self._source)
        os.close(self._sink)


@pytest.fixture
def wire() -> Iterator[Callable[..., Wire]]:
    """Makes connections, and closes them after the test."""
    made: list[Wire] = []

    def make(request: Callable[[str | int, str, Any], Work], **options: bool) -> Wire:
        made.append(Wire(request, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_id_of_an_error_is_that_of_the_request(wire: Callable[..., Wire]) -> None:
    """Where the line has one that is an id; else, and where it may be an answer of the client, it is null."""
    one = wire(lambda id, method, params: lambda: {"was": method})
    for line, id, code in (
        (b'{"jsonrpc":"2.0","id":5,"method":7}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":"a","method":null}', "a", -32600),
        (b'{"jsonrpc":"2.0","id":5}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % (b"9" * 5000), None, -32700),
        (b'{"jsonrpc":"2.0","id":5,"method":"m"', None, -32700),
        (b'[{"jsonrpc":"2.0","id":5,"method":"m"}]', None, -32600),
        (b'{\0"\0i\0d\0"\0:\x001\0}\0', None, -32700),
        (b'{"id":5,"method":"\xff"}', None, -32700),
    ):
        one.send(line)
        assert one.code() == (id, code), line
    for written, id in ((b"1152921504606846976", 2**60), (b'"\\ud800"', "?"), (b'""', ""), (b"-1", -1)):
        one.send(b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % written)
        assert one.read() == {"jsonrpc": "2.0", "id": id, "result": {"was": "m"}}


def test_an_error_inside_is_an_answer(wire: Callable[..., Wire], capfd: pytest.CaptureFixture[str]) -> None:
    """A request or a notification that fails in a way nobody thought of ends nothing; stderr says where."""

    def request(id: str | int, method: str, params: Any) -> Work:
        if method == "at once":
            raise KeyError(method)
        return lambda: {"well": {}}[method]

    one = wire(request)
    one.send(b'{"method":"fails"}', b'{"id":1,"method":"at once"}', b'{"id":2,"method":"later"}')
    assert [one.code(), one.code()] == [(1, -32603), (2, -32603)]
    one.send(b'{"id":1,"method":"well"}')
    assert one.read()["result"] == {}
    assert one.notes == ["fails"]
    assert capfd.readouterr().err.count("Traceback") == 3


def test_an_id_is_that_of_one_request_at_a_time(wire: Callable[..., Wire]) -> None:
    """While one is answered, another one with its id is an error; after the answer, it is a request."""
    go = threading.Event()

    def request(id: str | int, method: str, params: Any) -> Work:
        if method == "wrong":
            raise RpcError(-32602, "as the test wants it")
        return lambda: {"waited": go.wait(60)}

    one = wire(request)
    one.send(b'{"id":1,"method":"m"}', b'{"id":1,"method":"m"}')
    assert one.code() == (1, -32600)
    one.send(b'{"id":"1","method":"wrong"}')
    assert one.code() == ("1", -32602)
    go.set()
    assert one.read()["id"] == 1
    for _ in range(20):
        one.send(b'{"id":1,"method":"m"}')
        assert one.read() == {"jsonrpc": "2.0", "id": 1, "result": {"waited": True}}


def test_answers_that_are_none(wire: Callable[..., Wire]) -> None:
    """Only the id of a request to the client is answered by it; an error that is null is none."""
    one = wire(lambda id, method, params: dict)
    answers: list[Future[Any]] = []
    for _ in range(2):
        number, answer = one.peer.ask("question", {})
        answers.append(answer)
        assert one.read()["id"] == number
    for id in (b"true", b"1.0", b'"1"', b"null", b"3", b"[]", b"{}"):
        one.send(b'{"id":%b,"result":{"a":1}}' % id)
    one.send(b'{"id":7,"method":"m"}')
    assert one.read()["id"] == 7
    assert not answers[0].done()
    one.send(b'{"id":1,"result":{"a":1},"error":null}', b'{"id":2,"error":{"message":5}}')
    assert answers[0].result(60) == {"a": 1}
    with pytest.raises(RpcError, match="the client failed"):
        answers[1].result(60)


def test_pipes_that_do_not_wait(wire: Callable[..., Wire]) -> None:
    """As ssh and some editors leave them: nothing is lost, however slowly the client reads."""
    one = wire(lambda id, method, params: lambda: {"text": "x" * 300_000}, waits=False)
    one.send(*(b'{"id":%d,"method":"m"}' % number for number in range(5)))
    found = [one.read() for _ in range(5)]
    assert sorted(it["id"] for it in found) == [*range(5)]
    assert all(len(it["result"]["text"]) == 300_000 for it in found)
