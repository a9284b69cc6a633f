"""Tasks: calls of a tool whose results the client asks for later.

A client of 2025-11-25 asks for a task with the call. A client of 2026-07-28 says with each request that it knows tasks
(the extension `io.modelcontextprotocol/tasks`), and the server decides. Methods and forms of the two differ.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from penstock.cli.mcp.calls import Call
from penstock.cli.stdio.peer import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, Unanswered

EXTENSION = "io.modelcontextprotocol/tasks"
CLIENT_KEY = "io.modelcontextprotocol/clientCapabilities"
RELATED_KEY = "io.modelcontextprotocol/related-task"
"""Keys of `_meta`, and the name of the extension, in 2026-07-28; the last one in 2025-11-25."""

OLD_CAPABILITY: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""Capability `tasks` of the server for clients of 2025-11-25."""

MISSING_CAPABILITY = -32021
"""Code of an error of 2026-07-28: the request does not declare a capability that it needs."""

POLL_MS = 1000
"""Milliseconds between two questions for a task that the client should leave."""

MAX_MESSAGE_CHARS = 1000
"""Characters of the message of a task; its result has the whole text."""

MAX_WORKING = 100
"""Number of tasks at work at once: as many as there can be requests."""

MAX_ENDED = 200
"""Number of tasks that are kept after their end, the newest ones."""

CANCELLED: dict[str, Any] = {"content": [{"type": "text", "text": "[the task was cancelled]"}], "isError": True}
"""Result of a task that was cancelled."""


class Task:
    """Call that is answered in a thread of its own, and its result once there is one."""

    def __init__(self, call: Call, work: Callable[[], dict[str, Any]], on_end: Callable[[], None]) -> None:
        self.id: str = uuid.uuid4().hex
        self.call = call
        self.result: dict[str, Any] | None = None
        self.error: RpcError | None = None
        """Error of the protocol in place of a result."""
        self.ended: threading.Event = threading.Event()
        self._created = self._changed = _now()
        self._work = work
        self._on_end = on_end
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except Unanswered:
            self.result = CANCELLED
        except RpcError as error:
            self.error = error
        except BaseException:
            self.error = RpcError(INTERNAL_ERROR, "an error inside of Penstock; its stderr has more")
            raise
        finally:
            self._changed = _now()
            self.ended.set()
            self._on_end()

    def view(self, *, is_new: bool) -> dict[str, Any]:
        """Return the task as its client gets it; `is_new`: one of 2026-07-28, which gets the result with it."""
        ended = self.ended.is_set()
        found: dict[str, Any] = {"taskId": self.id, "status": self._status(ended, is_new=is_new)}
        words = self._words() if ended else self.call.line
        if words:
            found["statusMessage"] = words[:MAX_MESSAGE_CHARS]
        found |= {"createdAt": self._created, "lastUpdatedAt": self._changed if ended else _now()}
        if not is_new:
            return {**found, "ttl": None, "pollInterval": POLL_MS}
        found |= {"ttlMs": None, "pollIntervalMs": POLL_MS}
        if found["status"] == "completed":
            found["result"] = {"resultType": "complete", **(self.result or {})}
        elif found["status"] == "failed" and self.error is not None:
            found["error"] = {"code": self.error.code, "message": str(self.error)}
        return found

    def _words(self) -> str:
        """Return why the task failed; "" if it did not. Clients of 2025-11-25 may read this and not the result."""
        if self.error is not None:
            return str(self.error)
        result = self.result or {}
        return str(result["content"][0]["text"]) if result.get("isError") else ""

    def _status(self, ended: bool, *, is_new: bool) -> str:
        if self.call.is_cancelled:
            return "cancelled"
        if not ended:
            return "working"
        has_failed = self.error is not None or (not is_new and bool(self.result and self.result.get("isError")))
        return "failed" if has_failed else "completed"


class ClientTasks:
    """Tasks of one client, by their ids, and the methods of the protocol for them."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._lock = threading.Lock()

    def start(self, call: Call, work: Callable[[], dict[str, Any]]) -> Task:
        """Begin to answer a call as a task.

        Raises:
            RpcError: too many are at work.
        """
        with self._lock:
            if sum(not task.ended.is_set() for task in self._tasks.values()) >= MAX_WORKING:
                raise RpcError(INTERNAL_ERROR, f"at most {MAX_WORKING} tasks are at work at once")
            task = Task(call, work, self._drop_old)
            self._tasks[task.id] = task
            return task

    def _drop_old(self) -> None:
        with self._lock:
            ended = [id for id, task in self._tasks.items() if task.ended.is_set()]
            for id in ended[: max(0, len(ended) - MAX_ENDED)]:
                del self._tasks[id]

    def cancel_all(self, seconds: float) -> None:
        """Cancel the tasks that are at work, and wait for their ends, but no longer than this."""
        until = time.monotonic() + seconds
        with self._lock:
            working = [task for task in self._tasks.values() if not task.ended.is_set()]
        for task in working:
            task.call.cancel()
        for task in working:
            task.ended.wait(max(0.0, until - time.monotonic()))

    def handle(self, method: str, params: dict[str, Any], *, is_new: bool) -> dict[str, Any]:
        """Return the result of a method about tasks, which waits for the end of the task if it asks for its result.

        Raises:
            RpcError: there is no such method or task; or a client of 2026-07-28 does not say that it knows tasks.
        """
        methods = ("get", "update", "cancel") if is_new else ("get", "result", "cancel", "list")
        name = method.removeprefix("tasks/")
        if name not in methods:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {method[:100]!r}", {"method": method[:100]})
        if is_new and not knows_tasks(params):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise RpcError(MISSING_CAPABILITY, "the request does not say that its client knows tasks", needed)
        if name == "list":
            with self._lock:
                return {"tasks": [task.view(is_new=is_new) for task in self._tasks.values()]}
        task = self._find(params.get("taskId"))
        if name == "result":
            task.ended.wait()
            if task.error is not None:
                raise task.error
            return {**(task.result or {}), "_meta": {RELATED_KEY: {"taskId": task.id}}}
        if name == "cancel":
            self._cancel(task, is_new=is_new)
        return {} if is_new and name != "get" else task.view(is_new=is_new)

    def _find(self, id: object) -> Task:
        with self._lock:
            task = self._tasks.get(id) if isinstance(id, str) else None
        if task is None:
            raise RpcError(INVALID_PARAMS, "there is no such task; expected the id of an earlier result")
        return task

    def _cancel(self, task: Task, *, is_new: bool) -> None:
        if not task.ended.is_set():
            task.call.cancel()
        elif not is_new:
            raise RpcError(INVALID_PARAMS, "the task has ended, so it cannot be cancelled")


def is_task(name: str, tool: str, params: dict[str, Any], *, is_new: bool) -> bool:
    """Return whether a call is answered as a task; `tool` is the only tool of which there are tasks.

    Raises:
        RpcError: a client asks for a task of another tool, or in another form.
    """
    if is_new:
        return name == tool and knows_tasks(params)
    asked = params.get("task")
    if asked is None:
        return False
    if not isinstance(asked, dict):
        raise RpcError(INVALID_PARAMS, "task is not an object")
    if name != tool:
        raise RpcError(METHOD_NOT_FOUND, f"there are no tasks of {name}; expected {tool}")
    return True


def knows_tasks(params: dict[str, Any]) -> bool:
    """Return whether a request of 2026-07-28 says that its client knows tasks."""
    found: Any = params
    for key in ("_meta", CLIENT_KEY, "extensions", EXTENSION):
        found = found.get(key) if isinstance(found, dict) else None
    return isinstance(found, dict)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
