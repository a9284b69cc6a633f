"""JSON-RPC 2.0 over lines of stdin and stdout: requests of the client, and requests to it."""

from __future__ import annotations

import json
import os
import re
import select
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeGuard

import msgspec

from penstock.errors import PenstockError

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Bytes of the longest line: the largest prompt has 512 KiB, and JSON may write a byte as six characters."""

HEAD = re.compile(
    rb'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,)*\s*"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,100}")\s*[,}]'
)
"""Pattern of the beginning of a request up to its id, as the packages of the protocols write it."""

HEAD_BYTES = 1024
"""Bytes of a line that is too long in which its id is searched for."""

MAX_REQUESTS = 100
"""Number of requests of the client that are answered at once. An editor has a few."""

MAX_ID = 2**63
"""Number above that of all requests: the protocols have 64 bits for it."""

READ_BYTES = 256 * 1024

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
NOT_FOUND, AUTH_REQUIRED = -32002, -32000
"""Codes of errors. The last two are of ACP: there is no such session; the agent needs a login."""

Work = Callable[[], Any]
"""Rest of a request, which may take long; it returns the result, or a `FollowedResult`."""


class FollowedResult(NamedTuple):
    """Result of a request, and what is done once it was sent."""

    result: Any
    then: Callable[[], None]


class LongLine(NamedTuple):
    """Line that is too long to be read."""

    id: str | int | None
    """Id of its request, if the line begins with it."""


class RpcError(PenstockError):
    """Error of a request, as the other side gets it."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class ClientGone(PenstockError):
    """The client no longer reads the answers. The turns of the client go on at the server."""

    def __init__(self) -> None:
        super().__init__("the client is gone")


class Unanswered(PenstockError):
    """The client has withdrawn a request, which gets no answer then."""

    def __init__(self) -> None:
        super().__init__("the request was withdrawn")


class Peer:
    """Connection with the client.

    `request` gets the id, the method and its parameters, and `notification` the last two, in the order of the lines.
    A request returns the rest of its work, which runs beside the others.
    """

    def __init__(
        self,
        source: int,
        sink: int,
        request: Callable[[str | int, str, Any], Work],
        notification: Callable[[str, Any], None],
        most: int = MAX_LINE_BYTES,
    ) -> None:
        """`source` and `sink`: file descriptors to read from and to write to. `most`: bytes of the longest line."""
        self._source = source
        self._sink = sink
        self._request = request
        self._notification = notification
        self._most = most
        self._writing = threading.Lock()
        self._asked: dict[int, Future[Any]] = {}
        self._last = 0
        self._open: set[str | int] = set()
        """Ids of the requests of the client that are being answered."""
        self._works = 0
        self._changed = threading.Condition()

    def serve(self) -> None:
        """Handle the lines of the client until there are no more, or the client is gone."""
        try:
            for line in self._lines():
                if isinstance(line, LongLine):
                    what = f"the message is too large; expected at most {self._most:,} bytes in one line"
                    self._fail(line.id, RpcError(INVALID_REQUEST, what))
                elif line.strip():
                    self._handle(line)
        except ClientGone:
            pass

    def wait(self, seconds: float) -> None:
        """Wait until all requests of the client are answered, but no longer than this."""
        with self._changed:
            self._changed.wait_for(lambda: self._works == 0, seconds)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: dict[str, Any]) -> tuple[int, Future[Any]]:
        """Send a request; return its id and its result, which raises `RpcError` if the client answers with an error."""
        with self._writing:
            self._last += 1
            number = self._last
            answer: Future[Any] = Future()
            self._asked[number] = answer
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number, answer

    def withdraw(self, number: int) -> None:
        """Withdraw a request: its answer is no longer needed."""
        if (answer := self._asked.pop(number, None)) is not None:
            try:
                self.notify("$/cancel_request", {"requestId": number})
            finally:
                answer.cancel()  # whoever waits for it may end the client's own request, and that after the dialog

    # --- lines ---

    def _lines(self) -> Iterator[bytes | LongLine]:
        """Yield the lines. Of one that is too long, nothing but its beginning is kept."""
        rest = bytearray()
        long: LongLine | None = None
        while data := self._read():
            *lines, last = data.split(b"\n")
            for line in lines:
                rest += line
                yield long or (_long(rest) if len(rest) > self._most else bytes(rest))
                rest.clear()
                long = None
            rest += last
            if long is not None:
                rest.clear()
            elif len(rest) > self._most:
                long = _long(rest)
                rest.clear()
        if long is not None or rest:
            yield long or bytes(rest)

    def _read(self) -> bytes:
        """Return the next bytes of the client; none if it has gone, or no longer reads what it is sent."""
        waiting = select.poll()
        waiting.register(self._sink, 0)  # its errors are reported nevertheless
        waiting.register(self._source, select.POLLIN)
        while True:
            ready = dict(waiting.poll())
            if self._source in ready:
                try:
                    return os.read(self._source, READ_BYTES)
                except BlockingIOError:
                    continue
                except OSError:  # it is closed, or the other end of a socket is
                    return b""
            if ready[self._sink] & (select.POLLERR | select.POLLHUP):
                return b""
            waiting.unregister(self._sink)  # a device that cannot be waited for

    def _handle(self, line: bytes) -> None:
        try:
            message = _decoded(line)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            self._fail(None, RpcError(PARSE_ERROR, f"this line is not JSON: {error}"))
            return
        if not isinstance(message, dict):
            self._fail(None, RpcError(INVALID_REQUEST, "a message is one JSON object a line"))
            return
        id, method, params = message.get("id"), message.get("method"), message.get("params")
        if isinstance(method, str) and "id" not in message:
            try:
                self._notification(method, params)
            except Exception as error:  # nobody waits for the answer to a notification
                _known(error)
        elif isinstance(method, str) and is_id(id):
            self._begin(id, method, params)
        elif method is None and ("result" in message or "error" in message):
            self._answered(message)
        else:
            what = "this is neither a request nor an answer of JSON-RPC 2.0"
            self._fail(id if is_id(id) and "method" in message else None, RpcError(INVALID_REQUEST, what))

    def _begin(self, id: str | int, method: str, params: Any) -> None:
        try:
            self._admit(id)
        except RpcError as error:
            self._fail(id, error)
            return
        try:
            work = self._request(id, method, params)
        except Exception as error:
            self._leave(id)
            self._fail(id, _known(error))
            return
        with self._changed:
            self._works += 1
        threading.Thread(target=self._work, args=(id, work), daemon=True).start()

    def _admit(self, id: str | int) -> None:
        """Note that a request is being answered.

        Raises:
            RpcError: another one with its id is, or too many are.
        """
        with self._changed:
            if id in self._open:
                raise RpcError(INVALID_REQUEST, "a request with this id is being answered")
            if len(self._open) >= MAX_REQUESTS:
                raise RpcError(INTERNAL_ERROR, f"at most {MAX_REQUESTS} requests are answered at once")
            self._open.add(id)

    def _leave(self, id: str | int) -> None:
        with self._changed:
            self._open.discard(id)

    def _work(self, id: str | int, work: Work) -> None:
        try:
            answer, then = self._result(id, work)
            self._leave(id)  # the client may use its id again as soon as it has the answer
            self._send(answer)
            then()
        except (ClientGone, Unanswered):
            self._leave(id)
        finally:
            with self._changed:
                self._works -= 1
                self._changed.notify_all()

    def _result(self, id: str | int, work: Work) -> tuple[dict[str, Any], Callable[[], None]]:
        """Return the answer to a request, and what is done once it was sent."""
        try:
            found = work()
        except (ClientGone, Unanswered):
            raise
        except Exception as error:
            return _failed(id, _known(error)), _nothing
        result, then = found if isinstance(found, FollowedResult) else (found, _nothing)
        return {"jsonrpc": "2.0", "id": id, "result": result}, then

    def _answered(self, message: dict[str, Any]) -> None:
        id, error = message.get("id"), message.get("error")
        answer = self._asked.pop(id, None) if isinstance(id, int) and not isinstance(id, bool) else None
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if error is None:
            answer.set_result(message.get("result"))
        else:
            words = error.get("message") if isinstance(error, dict) else None
            answer.set_exception(RpcError(INTERNAL_ERROR, words if isinstance(words, str) else "the client failed"))

    def _fail(self, id: str | int | None, error: PenstockError) -> None:
        self._send(_failed(id, error))

    def _send(self, message: dict[str, Any]) -> None:
        data = memoryview(msgspec.json.encode(message) + b"\n")
        with self._writing:
            while data:
                try:
                    data = data[os.write(self._sink, data) :]
                except BlockingIOError:
                    waiting = select.poll()
                    waiting.register(self._sink, select.POLLOUT)
                    waiting.poll()
                except OSError:
                    raise ClientGone from None


def _nothing() -> None:
    """Do nothing after an answer."""


def is_id(value: object) -> TypeGuard[str | int]:
    """Return whether a value can be the id of a request."""
    return isinstance(value, str) or (
        isinstance(value, int) and not isinstance(value, bool) and -MAX_ID <= value < MAX_ID
    )


def _long(line: bytearray) -> LongLine:
    found = HEAD.match(bytes(line[:HEAD_BYTES]))
    try:
        return LongLine(None if found is None else msgspec.json.decode(found[1], type=str | int))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return LongLine(None)


def _decoded(line: bytes) -> Any:
    """Return the value of a line. Half a character, which JavaScript can write, becomes a question mark.

    Raises:
        ValueError, RecursionError, msgspec.DecodeError: it is not JSON.
    """
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        found = json.loads(line.decode("utf-8-sig"))
        return msgspec.json.decode(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))


def _known(error: Exception) -> PenstockError:
    """Return an error as the client gets it. One inside of Penstock is printed."""
    if isinstance(error, PenstockError):
        return error
    traceback.print_exception(error)
    return RpcError(INTERNAL_ERROR, "an error inside of Penstock; its stderr has more")


def _failed(id: str | int | None, error: PenstockError) -> dict[str, Any]:
    found: dict[str, Any] = {"code": INTERNAL_ERROR, "message": str(error)}
    if isinstance(error, RpcError):
        found["code"] = error.code
        if error.data is not None:
            found["data"] = error.data
    return {"jsonrpc": "2.0", "id": id, "error": found}
