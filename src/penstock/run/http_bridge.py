"""Bridge: a process of its own that turns HTTP into lines, so that a server is supervised like any other agent.

::

    python -P -m penstock.run.http_bridge post [--host-from VARIABLE] URL     a JSON body on stdin → the answer, raw
    python -P -m penstock.run.http_bridge serve EVENTS_PATH -- PROGRAM ARG…   requests on stdin → answers and events

`post` forwards the answer as it arrives. An HTTP error and a server that cannot be reached are reported on stderr, with
exit status 1; the body of the error is still written to stdout.

`serve` starts PROGRAM, which prints `listening on http://…` when it is ready, and subscribes to its server-sent events
before it sends anything. All requests apply to the directory that the bridge was started in. One line each::

    > {"id": 1, "method": "POST", "path": "/session", "body": {…}}            and more fields of `Ask`
    < {"id": 1, "status": 200, "body": {…}}       a body that is not JSON is a string, no body is null
    < {"id": 2, "status": 0, "body": null, "error": "…"}                      there was no answer
    < {"event": {…}}                              the server's `data:`, byte for byte

Requests run concurrently, and are answered in the order in which their answers arrive. The end of stdin ends the
server, and the bridge with status 0; a server that dies gives the bridge its exit status. The bridge imports nothing of
Penstock, so that it can be run by its file path too.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

if TYPE_CHECKING:
    import httpx

START_SECONDS = 60.0
"""Seconds for the server to print its address: the first start of some takes ten and more."""
FIRST_EVENT_SECONDS = 2.0
"""Seconds that requests wait for the first event after the subscription was answered. Servers send a greeting; if one
does not, the subscription is active by then."""
CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 300.0
"""Seconds between two bytes of an answer. Some requests are answered only when the model has answered."""
STOP_SECONDS = 1.0
"""Seconds between SIGTERM and SIGKILL for the server."""
DRAIN_SECONDS = 5.0
"""Seconds to wait for the last events of a server that died."""
MAX_SHOWN_BYTES = 500
PASSWORD, USER = "OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"
"""Environment variables with the server's credentials; they are never among its arguments."""
USER_NAME = "penstock"

PR_SET_PDEATHSIG = 1
USAGE = (
    "usage: python -m penstock.run.http_bridge "
    "(post [--host-from VARIABLE] URL | serve EVENTS_PATH -- PROGRAM [ARG...])"
)

_LISTENING = re.compile(rb"listening on (https?://[^\s\x1b]+)")


class Ask(msgspec.Struct):
    """One HTTP request, as a line of stdin."""

    id: msgspec.Raw
    path: str
    method: str = "GET"
    body: msgspec.Raw = msgspec.Raw(b"")
    fields: list[str] = []
    """Fields to keep of each object, if the answer is a list; all if empty."""
    patient: bool = False
    """True if the answer may begin later than `REQUEST_SECONDS`."""


class End(NamedTuple):
    """End of the bridge: its exit status or signal, and the reason."""

    status: int
    why: str = ""
    signal: int = 0
    drain: bool = False
    """True if events of the server may not have been read yet."""


def main(argv: list[str]) -> int:
    """Run one form of the bridge; return its exit status."""
    match argv:
        case ["post", url]:
            return post(url)
        case ["post", "--host-from", variable, url]:
            return post(moved(url, os.environ.get(variable, "")))
        case ["serve", events, "--", *command] if command:
            return serve(events, command)
    _say(USAGE)
    return 2


def post(url: str) -> int:
    """Send stdin to `url` and forward the answer; return the exit status."""
    import httpx

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    body = sys.stdin.buffer.read()
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    patience = httpx.Timeout(CONNECT_SECONDS, read=None, write=None)  # a model may take minutes to load
    try:
        with (
            httpx.Client(timeout=patience, trust_env=not is_local(url)) as client,
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            for chunk in response.iter_raw():
                _write(chunk)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        _say(f"{url}: {_words(error)}")
        return 1
    except BrokenPipeError:
        return 1  # the reader of stdout is closed
    if response.status_code >= 400:
        _say(f"{url}: HTTP status {response.status_code} {response.reason_phrase}".rstrip())
        return 1
    return 0


def moved(url: str, host: str) -> str:
    """Return `url` at another server: `HOST`, `HOST:PORT`, `:PORT` or a whole address, in the format of OLLAMA_HOST.

    The default port is that of `url`, or that of the scheme if `host` has one. A server that listens on all addresses
    is reached by loopback.
    """
    host = host.strip().strip("\"'")
    if not host:
        return url
    old = urlsplit(url)
    given = "://" in host
    new = urlsplit(host if given else f"{old.scheme}://{host}")
    try:
        port = new.port
    except ValueError:
        port = None
    name = new.hostname or old.hostname or ""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
    port = port or (None if given else old.port)
    place = (f"[{name}]" if ":" in name else name) + (f":{port}" if port else "")
    return urlunsplit((new.scheme, place, new.path.rstrip("/") + old.path, old.query, ""))


def is_local(url: str) -> bool:
    """Return whether the server is on this machine, so that no proxy may be used."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def serve(events: str, command: list[str]) -> int:
    """Start the server, forward between it and our two pipes until one of them ends; return the exit status."""
    ends: SimpleQueue[End] = SimpleQueue()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: ends.put(End(0, signal=number)))
    threading.excepthook = lambda failed: ends.put(End(1, f"a bug in the bridge: {failed.exc_value!r}"))
    password = secrets.token_urlsafe(32)
    try:
        child = _spawn(command, password)
    except OSError as error:
        _say(f"{command[0]!r} cannot be started: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    try:
        bridge = Bridge(events, password, ends.put)
        _in_thread(lambda: ends.put(_death(child.wait())))
        _in_thread(lambda: bridge.follow(child))
        _in_thread(bridge.take_requests)
        end = ends.get()
        if end.drain:
            bridge.drain()
    finally:
        _stop(child)
    if end.why:
        _say(end.why)
    if end.signal:
        signal.signal(end.signal, signal.SIG_DFL)
        os.kill(os.getpid(), end.signal)
    return end.status


class Bridge:
    """Moves requests, answers and events, each in a thread of its own; calls `end` when the bridge has to end."""

    def __init__(self, events: str, password: str, end: Callable[[End], None]) -> None:
        self._events = events
        self._auth = (USER_NAME, password)
        self._end = end
        self._client: httpx.Client | None = None
        self._base = ""
        self._directory = "directory=" + quote(os.getcwd(), safe="")
        self._subscribed, self._writing = threading.Event(), threading.Lock()
        self._listening: threading.Thread | None = None

    def follow(self, child: subprocess.Popen[bytes]) -> None:
        """Find the server's address in its output, and forward the rest of the output to stderr."""
        assert child.stdout is not None
        late = f"the server did not say within {START_SECONDS:g} s where it listens"
        _later(START_SECONDS, lambda: self._base or self._end(End(1, late)))
        for line in child.stdout:
            found = None if self._base else _LISTENING.search(line)
            if found is None:
                sys.stderr.buffer.write(line)
                sys.stderr.flush()
                continue
            self._base = found[1].decode("ascii", "replace").rstrip("/")
            self._listening = _in_thread(self._listen)

    def take_requests(self) -> None:
        """Send the requests of stdin, until it ends."""
        for line in sys.stdin.buffer:
            self._take(line)
        self._end(End(0))

    def drain(self) -> None:
        """Wait up to `DRAIN_SECONDS` for events that were not read yet."""
        if self._listening is not None:
            self._listening.join(DRAIN_SECONDS)

    def _listen(self) -> None:
        """Forward the server's events. They cannot be replayed, so the bridge ends with them."""
        import httpx

        self._client = client = httpx.Client(
            auth=self._auth,
            headers={"Accept-Encoding": "identity"},
            timeout=httpx.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        why = "the server closed its event stream"
        patience = httpx.Timeout(CONNECT_SECONDS, read=None)
        try:
            with client.stream("GET", self._url(self._events), timeout=patience) as response:
                if response.status_code == 200:
                    _later(FIRST_EVENT_SECONDS, self._subscribed.set)
                    for payload in payloads(response.iter_raw()):
                        self._put(b'{"event":%b}\n' % payload)
                        self._subscribed.set()
                else:
                    shown = response.read()[:MAX_SHOWN_BYTES].decode("utf-8", "replace")
                    why = f"the server refused its events: HTTP status {response.status_code} {shown}".rstrip()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = f"the server's event stream broke: {_words(error)}"
        _later(STOP_SECONDS, lambda: self._end(End(1, why)))  # the exit status of a server that died has precedence

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            ask = msgspec.json.decode(line, type=Ask)
            problem = "" if ask.path.startswith("/") else "its path does not begin with '/'"
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            ask, problem = Ask(msgspec.Raw(b"null"), "/"), f"no request: {error}"
        if problem:
            self._answer(ask, 0, b"null", problem)
        else:
            _in_thread(lambda: self._send(ask))

    def _send(self, ask: Ask) -> None:
        import httpx

        self._subscribed.wait()
        assert self._client is not None
        body = bytes(ask.body)
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            response = self._client.request(
                ask.method,
                self._url(ask.path),
                content=body or None,
                headers=headers,
                timeout=httpx.Timeout(None if ask.patient else REQUEST_SECONDS, connect=CONNECT_SECONDS),
            )
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            self._answer(ask, 0, b"null", _words(error))
            return
        self._answer(ask, response.status_code, _only(ask.fields, _as_json(response.content)))

    def _answer(self, ask: Ask, status: int, body: bytes, error: str = "") -> None:
        more = b',"error":' + msgspec.json.encode(error) if error else b""
        self._put(b'{"id":%b,"status":%d,"body":%b%b}\n' % (bytes(ask.id), status, body, more))

    def _put(self, line: bytes) -> None:
        """Write a line; nothing else writes to stdout in `serve`."""
        try:
            with self._writing:
                _write(line)
        except OSError:
            self._end(End(0))  # the reader of stdout is closed

    def _url(self, path: str) -> str:
        return f"{self._base}{path}{'&' if '?' in path else '?'}{self._directory}"


def payloads(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the `data:` of a stream of server-sent events, byte for byte; an empty one is null.

    Data over several lines is joined by spaces, which are white space in JSON as the line ends were.
    """
    held: list[bytes] = []
    data: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        held.append(first)
        for part in others:
            line = b"".join(held).removesuffix(b"\r")
            held = [part]
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b" ".join(data).strip() or b"null"
                data = []


def _spawn(command: list[str], password: str) -> subprocess.Popen[bytes]:
    """Start the server in our own process group, to die with us.

    Raises:
        OSError: it cannot be executed.
    """
    env = {**os.environ, PASSWORD: password, USER: USER_NAME}
    bridge, prctl = os.getpid(), _prctl()

    def die_with_us() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != bridge:
            os._exit(1)

    # No thread runs yet, and the main thread, whose death the signal reports, is the one that ends last.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, preexec_fn=die_with_us)


def _prctl() -> Callable[..., Any]:
    """Return Linux's prctl; elsewhere a function that does nothing."""
    try:
        from ctypes import CDLL

        found: Callable[..., Any] = CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return lambda *values: -1
    return found


def _death(status: int) -> End:
    if status < 0:
        return End(128 - status, f"the server was killed by signal {-status}", drain=True)
    return End(status, drain=True)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End the server, or the whole process group if this process leads it."""
    leads = os.getpgrp() == os.getpid()
    if leads:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
    elif child.poll() is None:
        child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _later(seconds: float, work: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()


def _as_json(body: bytes) -> bytes:
    """Return an answer's body as one line of JSON: unchanged if it is JSON, else as a string."""
    if not body.strip():
        return b"null"
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.encode(body.decode("utf-8", "replace"))
    return body.replace(b"\r", b" ").replace(b"\n", b" ")  # JSON has raw line ends between values only


def _only(fields: list[str], body: bytes) -> bytes:
    """Return a list of objects with these fields alone; any other answer, and one for no fields, as it is."""
    if not fields or not body.startswith(b"["):
        return body
    objects = (it if isinstance(it, dict) else {} for it in msgspec.json.decode(body))
    return msgspec.json.encode([{name: it[name] for name in fields if name in it} for it in objects])


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def _say(text: str) -> None:
    sys.stderr.write(f"penstock bridge: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # threads may wait in a read or a write that nothing ends
