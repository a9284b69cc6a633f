from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from waiting import is_alive, until

import penstock
from penstock.run.http_bridge import main, moved, payloads

BRIDGE = Path(penstock.__file__).with_name("run") / "http_bridge.py"
PATIENCE = 30.0
"""Seconds until something that must come counts as lost."""

SERVER = textwrap.dedent(
    '''
    """A server as the bridge expects it, whose events are what /say is told."""
    import json, os, queue, sys, threading, time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    EVENTS, RELEASED, SEEN = queue.Queue(), threading.Event(), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_GET(self):
            path = self.path.partition("?")[0]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            SEEN.append(f"{self.command} {self.path}")
            if not self.headers.get("Authorization", "").startswith("Basic "):
                self.reply(401, b"")
            elif path == "/event":
                self.events()
            elif path == "/say":
                EVENTS.put(json.loads(body).encode("latin-1"))
                self.reply(200, b"true")
            elif path == "/echo":
                self.reply(200, body)
            elif path == "/slow":
                RELEASED.wait()
                self.reply(200, b'"late"')
            elif path == "/release":
                RELEASED.set()
                self.reply(200, b"null")
            elif path == "/missing":
                self.reply(404, b'{"name":"NotFoundError"}')
            elif path == "/plain":
                self.reply(500, b"Oh\\nno", "text/plain")
            elif path == "/self":
                password = os.environ["OPENCODE_SERVER_PASSWORD"]
                told = {"seen": SEEN, "long": len(password) > 20, "hidden": password not in " ".join(sys.argv)}
                self.reply(200, json.dumps({**told, "pid": os.getpid(), "group": os.getpgrp()}, indent=1).encode())
            elif path == "/die":
                sys.stderr.write("out of memory\\n")
                sys.stderr.flush()
                os._exit(7)
            else:
                self.reply(204, b"")

        do_POST = do_GET

        def reply(self, status, body, kind="application/json"):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def events(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b'data: {"type":"server.connected"}\\n\\n')
            self.close_connection = True
            while (piece := EVENTS.get()) != b"end":
                self.wfile.write(piece)
                self.wfile.flush()
                if piece.endswith(b'last"]\\n\\n'):
                    os._exit(0)

    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "broken":
        sys.stderr.write("no such option\\n")
        sys.exit(3)
    if mode == "mute":
        time.sleep(600)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print("Warning: this is a test", flush=True)
    print(f"test server listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
    '''
)


class Bridged:
    """A running bridge with a server of its own."""

    def __init__(self, folder: Path, mode: str = "", program: Path = BRIDGE) -> None:
        script = folder / "server.py"
        script.write_text(SERVER)
        self.process = subprocess.Popen(
            [sys.executable, "-P", program, "serve", "/event", "--", sys.executable, script, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
        )
        self.raw: list[bytes] = []
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._held: list[Any] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def send(self, id: int, path: str, body: bytes = b"", method: str = "POST", **fields: Any) -> None:
        """Write a request; `fields` are further ones of it."""
        more = b',"body":' + body if body else b""
        more += b"".join(b',"%b":%b' % (name.encode(), json.dumps(it).encode()) for name, it in fields.items())
        self.write(b'{"id":%d,"method":"%b","path":"%b"%b}\n' % (id, method.encode(), path.encode(), more))

    def write(self, data: bytes) -> None:
        """Write to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def next(self, wanted: Callable[[Any], bool]) -> Any:
        """The next line that is wanted; the others stay."""
        for index, value in enumerate(self._held):
            if wanted(value):
                return self._held.pop(index)
        while True:
            line = self._lines.get(timeout=PATIENCE)
            assert line is not None, "it ended"
            self.raw.append(line)
            value = json.loads(line)
            if wanted(value):
                return value
            self._held.append(value)

    def answer(self, id: int) -> Any:
        """The answer to a request."""
        return self.next(lambda value: "status" in value and value["id"] == id)

    def event(self) -> Any:
        """The next event."""
        return self.next(lambda value: "event" in value)["event"]

    def end(self) -> tuple[int, str]:
        """Wait for its end: the exit status, and what stderr was told."""
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        return status, self.process.stderr.read().decode()

    def close(self) -> None:
        """Let go of everything, and leave nothing of it running."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


@pytest.fixture
def bridged(tmp_path: Path) -> Iterator[Callable[..., Bridged]]:
    """Starts bridges that are gone after the test."""
    made: list[Bridged] = []

    def start(mode: str = "", program: Path = BRIDGE) -> Bridged:
        made.append(Bridged(tmp_path, mode, program))
        return made[-1]

    yield start
    for bridge in made:
        bridge.close()


@pytest.mark.slow
def test_it_subscribes_before_it_asks_for_anything(bridged: Callable[..., Bridged], tmp_path: Path) -> None:
    """All is about its own directory, the server is in its group, and the secret is in no argument."""
    bridge = bridged()
    bridge.send(1, "/self?x=1", method="GET")
    told = bridge.answer(1)["body"]
    directory = "directory=" + str(tmp_path.resolve()).replace("/", "%2F")
    assert told["seen"] == [f"GET /event?{directory}", f"GET /self?x=1&{directory}"]
    assert told["long"]
    assert told["hidden"]
    assert told["group"] == bridge.process.pid
    assert bridge.event() == {"type": "server.connected"}


def test_events_are_passed_on_byte_for_byte(bridged: Callable[..., Bridged]) -> None:
    """However they are cut into chunks, and with comments and other fields between."""
    bridge = bridged()
    assert bridge.event()["type"] == "server.connected"
    pieces = [
        b": heartbeat\n\nevent: x\nda",
        b'ta: {"b" : 1.50, "a":"\\u003c \xe2\x80\xa8\xf0\x9f',
        b'\x98\x80"}\r\n',
        b"\r\n",
    ]
    for number, piece in enumerate(pieces, 1):
        bridge.send(number, "/say", json.dumps(piece.decode("latin-1")).encode())
        assert bridge.answer(number)["body"] is True
    assert bridge.event() == {"b": 1.5, "a": "< \u2028😀"}
    payload = b'{"b" : 1.50, "a":"\\u003c \xe2\x80\xa8\xf0\x9f\x98\x80"}'
    assert b'{"event":' + payload + b"}\n" in bridge.raw


def test_answers_are_one_line_of_json_each(bridged: Callable[..., Bridged]) -> None:
    """Pretty JSON, no body, text that is no JSON, an error status."""
    bridge = bridged()
    bridge.send(1, "/echo", b'{"n":1.50,"s":"\\u003c"}')
    assert bridge.answer(1)["body"] == {"n": 1.5, "s": "<"}
    assert b'"body":{"n":1.50,"s":"\\u003c"}}' in bridge.raw[-1]
    bridge.send(2, "/self", method="GET")
    assert bridge.answer(2)["status"] == 200
    bridge.send(3, "/nothing")
    assert bridge.answer(3) == {"id": 3, "status": 204, "body": None}
    bridge.send(4, "/plain")
    assert bridge.answer(4) == {"id": 4, "status": 500, "body": "Oh\nno"}
    bridge.send(5, "/missing")
    assert bridge.answer(5) == {"id": 5, "status": 404, "body": {"name": "NotFoundError"}}

    bridge.send(6, "/echo", b'[{"a":1,"b":"x","c":[2]},{"b":null},7]', fields=["a", "b"])
    assert bridge.answer(6)["body"] == [{"a": 1, "b": "x"}, {"b": None}, {}]
    bridge.send(7, "/echo", b'{"a":1,"c":2}', fields=["a"])
    assert bridge.answer(7)["body"] == {"a": 1, "c": 2}


@pytest.mark.slow
def test_a_request_that_is_answered_late(bridged: Callable[..., Bridged], tmp_path: Path) -> None:
    """It is given up after a time limit, unless it is one that may take as long as a turn."""
    program = tmp_path / "bridge.py"
    program.write_text(BRIDGE.read_text("utf-8").replace("REQUEST_SECONDS = 300.0", "REQUEST_SECONDS = 0.2"), "utf-8")
    bridge = bridged(program=program)
    bridge.send(1, "/slow", patient=True)
    bridge.send(2, "/echo", b"2")
    assert bridge.answer(2)["body"] == 2
    bridge.send(3, "/slow")
    assert bridge.answer(3)["status"] == 0
    bridge.send(4, "/release")
    assert bridge.answer(1)["body"] == "late"


@pytest.mark.slow
def test_requests_do_not_wait_for_each_other(bridged: Callable[..., Bridged]) -> None:
    """One that takes long is answered after a later one."""
    bridge = bridged()
    bridge.send(1, "/slow")
    bridge.send(2, "/echo", b"2")
    assert bridge.answer(2)["body"] == 2
    bridge.send(3, "/release")
    assert bridge.answer(1)["body"] == "late"


@pytest.mark.slow
def test_big_bodies_and_many_lines_are_never_mixed(bridged: Callable[..., Bridged]) -> None:
    """Each line that was read is whole JSON: reading it fails otherwise."""
    bridge = bridged()
    big = b'"' + b"x" * 3_000_000 + b'"'
    for id in range(1, 9):
        bridge.send(id, "/echo", big if id % 2 else b'"small"')
    sizes = [len(bridge.answer(id)["body"]) for id in range(1, 9)]
    assert sizes == [3_000_000, 5] * 4


@pytest.mark.slow
def test_what_is_no_request_is_answered_too(bridged: Callable[..., Bridged]) -> None:
    """And the next line is read."""
    bridge = bridged()
    bridge.write(b'\nnonsense\n{"id":7,"path":"http://elsewhere/"}\n')
    assert bridge.answer(None)["error"].startswith("no request")  # type: ignore[arg-type]  # it has no id
    assert "begin with '/'" in bridge.answer(7)["error"]
    bridge.send(8, "/echo", b"8")
    assert bridge.answer(8)["body"] == 8


def test_the_end_of_stdin_ends_the_server(bridged: Callable[..., Bridged]) -> None:
    """With status 0; what the server printed on stdout besides its address is on stderr."""
    bridge = bridged()
    bridge.send(1, "/self", method="GET")
    pid = bridge.answer(1)["body"]["pid"]
    assert bridge.process.stdin is not None
    bridge.process.stdin.close()
    assert bridge.end() == (0, "Warning: this is a test\n")
    until(lambda: not is_alive(pid), "the server ends")


def test_the_end_of_stdin_ends_a_server_that_never_listens(bridged: Callable[..., Bridged]) -> None:
    """Also while a request waits for it."""
    bridge = bridged("mute")
    bridge.send(1, "/self")
    assert bridge.process.stdin is not None
    bridge.process.stdin.close()
    assert bridge.end()[0] == 0


@pytest.mark.slow
def test_a_server_that_dies_gives_its_status(bridged: Callable[..., Bridged]) -> None:
    """What it wrote to stderr is passed on."""
    bridge = bridged()
    bridge.send(1, "/die")
    assert bridge.end() == (7, "Warning: this is a test\nout of memory\n")


@pytest.mark.slow
def test_the_last_events_of_a_server_that_dies_are_passed_on(bridged: Callable[..., Bridged]) -> None:
    """What it had sent is on its way when its death is known already."""
    bridge = bridged()
    assert bridge.event()["type"] == "server.connected"
    long = "x" * 1_000_000
    bridge.send(1, "/say", json.dumps(f'data: ["{long}"]\n\n' * 3 + 'data: ["last"]\n\n').encode())
    assert [bridge.event() for _ in range(4)] == [[long]] * 3 + [["last"]]
    assert bridge.end()[0] == 0


def test_a_server_that_does_not_start(bridged: Callable[..., Bridged]) -> None:
    """The same before it listens."""
    assert bridged("broken").end() == (3, "no such option\n")


@pytest.mark.slow
def test_a_server_that_ends_its_events(bridged: Callable[..., Bridged]) -> None:
    """There is no replay, so nothing more can be known: that is a failure."""
    bridge = bridged()
    bridge.send(1, "/self", method="GET")
    pid = bridge.answer(1)["body"]["pid"]
    bridge.send(2, "/say", b'"end"')
    status, said = bridge.end()
    assert status == 1
    assert "closed its event stream" in said
    until(lambda: not is_alive(pid), "the server ends")


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_both(bridged: Callable[..., Bridged], number: signal.Signals) -> None:
    """Also one that cannot be caught, on Linux."""
    if number == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux tells a child that its parent has gone")
    bridge = bridged()
    bridge.send(1, "/self", method="GET")
    pid = bridge.answer(1)["body"]["pid"]
    bridge.process.send_signal(number)
    assert bridge.end()[0] == -number
    until(lambda: not is_alive(pid), "the server ends")


def test_a_program_that_is_not_there() -> None:
    """As a shell tells it."""
    found = subprocess.run(
        [sys.executable, "-P", BRIDGE, "serve", "/event", "--", "no-such-program"], input=b"", capture_output=True
    )
    assert found.returncode == 127
    assert b"'no-such-program' cannot be started" in found.stderr


def test_payloads() -> None:
    """One for each frame; several lines are one payload, which JSON reads the same."""
    frames = [
        b'data: {"a":1}\n\ndata:{"b":',
        b"2}\n\n: c\nevent: x\ndata: [1,\ndata: 2]\nid: 5\n\ndata:\n\n",
        b"data: cut",
    ]
    assert list(payloads(frames)) == [b'{"a":1}', b'{"b":2}', b"[1, 2]", b"null"]
    whole = b"".join(frames)
    assert list(payloads(whole[at : at + 1] for at in range(len(whole)))) == list(payloads(frames))
    assert list(payloads([b"data: 1\r\n\r\n"])) == [b"1"]


# --- post ------------------------------------------------------------------------------------------


class Poster(BaseHTTPRequestHandler):
    """Answers a POST as its path says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        """Two pieces, an error, an end in the middle; else what was sent."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(404 if self.path == "/error" else 200, "Not Found" if self.path == "/error" else "OK")
        if self.path == "/error":
            body = b'{"error":"model \'x\' not found"}'
        self.send_header("Content-Length", str(len(body) + (5 if self.path == "/cut" else 0)))
        self.end_headers()
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        if self.path == "/live":  # the rest only when the first half has arrived
            assert GO.wait(PATIENCE)
        self.wfile.write(body[half:])
        self.close_connection = self.path == "/cut"


GO = threading.Event()


@pytest.fixture
def poster() -> Iterator[str]:
    """The address of a server that answers posts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Poster)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def posted(*argv: str, body: bytes = b"{}", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run `bridge post`."""
    return subprocess.run(
        [sys.executable, "-P", BRIDGE, "post", *argv], input=body, capture_output=True, env={**os.environ, **env}
    )


@pytest.mark.slow
def test_an_answer_is_passed_on_raw(poster: str) -> None:
    """A big one too."""
    body = b'{"done":false}\n\r\n\x00\xff' + b"y" * 2_000_000
    found = posted(poster + "/echo", body=body)
    assert (found.returncode, found.stdout, found.stderr) == (0, body, b"")


@pytest.mark.slow
def test_an_answer_is_passed_on_as_it_comes(poster: str) -> None:
    """The first half is there before the second one is sent."""
    GO.clear()
    process = subprocess.Popen(
        [sys.executable, "-P", BRIDGE, "post", poster + "/live"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"onetwo")
    process.stdin.close()
    assert process.stdout.read(3) == b"one"
    GO.set()
    assert process.stdout.read() == b"two"
    process.stdout.close()
    assert process.wait() == 0


@pytest.mark.slow
def test_an_http_error(poster: str) -> None:
    """The status on stderr, the body on stdout."""
    found = posted(poster + "/error")
    assert (found.returncode, found.stdout) == (1, b'{"error":"model \'x\' not found"}')
    assert b"HTTP status 404 Not Found" in found.stderr


@pytest.mark.slow
def test_an_answer_that_breaks_off(poster: str) -> None:
    """What came is there, and it is a failure."""
    found = posted(poster + "/cut", body=b"abcdef")
    assert (found.returncode, found.stdout) == (1, b"abcdef")
    assert found.stderr


@pytest.mark.slow
def test_nobody_listens(poster: str) -> None:
    """A message, and no traceback. The address comes from the variable that is named."""
    found = posted("--host-from", "SOME_HOST", poster, SOME_HOST="127.0.0.1:1")
    assert (found.returncode, found.stdout) == (1, b"")
    assert found.stderr.startswith(b"penstock bridge: http://127.0.0.1:1")
    assert b"refused" in found.stderr
    assert b"Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/api/chat"),
        (":8080", "http://127.0.0.1:8080/api/chat"),
        ("box", "http://box:11434/api/chat"),
        ("box:80", "http://box:80/api/chat"),
        ("0.0.0.0", "http://127.0.0.1:11434/api/chat"),
        ("[::]:9", "http://[::1]:9/api/chat"),
        ("https://box", "https://box/api/chat"),
        (" 'http://box:5/ollama/' ", "http://box:5/ollama/api/chat"),
        ("box:port", "http://box:11434/api/chat"),
    ],
)
def test_the_host_of_the_environment(host: str, url: str) -> None:
    """All that Ollama itself takes."""
    assert moved("http://127.0.0.1:11434/api/chat", host) == url


@pytest.mark.parametrize("argv", [[], ["post"], ["serve", "/event"], ["serve", "/event", "--"], ["other", "x"]])
def test_wrong_arguments(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Are told, and nothing is started."""
    assert main(argv) == 2
    assert "usage:" in capsys.readouterr().err
