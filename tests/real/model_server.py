"""A model server on loopback that says what `scenarios` tells, in the dialect in which it is asked.

It keeps what it was asked, so that a test sees what of its prompt, model and history arrived; and it has a gate at
which an answer waits until the test has seen its beginning: "live" is so proved by order, never by time.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import scenarios
from dialects import Asked, Item, Tool, dialect, pieces
from scenarios import Break, Call, History, Limit, Refuse, Say, Think, Try, Use, Wait

GATE_SECONDS = 30.0
"""So long an answer waits for the test; then it goes on, and the test that has seen nothing fails."""

SHELL_TOOLS = (
    *("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell", "run_commands"),
    "Execute",
)
WRITE_TOOLS = ("Write", "write", "write_file", "create", "Create", "editor", "apply_patch")
EDIT_TOOLS = ("Edit", "edit", "replace", "editor", "apply_patch")
READ_TOOLS = ("Read", "read", "read_file", "view", "read_files")
PLAN_TOOLS = ("update_plan", "TodoWrite", "todowrite", "todo_write", "write_todos", "TaskUpdate", "TaskCreate")
AGENT_TOOLS = ("Agent", "Task", "agent", "task", "spawn_agent", "delegate_to_agent", "invoke_agent", "delegate")
TOOLS = {
    "shell": SHELL_TOOLS,
    "read": READ_TOOLS,
    "write": WRITE_TOOLS,
    "edit": EDIT_TOOLS,
    "plan": PLAN_TOOLS,
    "agent": AGENT_TOOLS,
    "ask": ("AskUserQuestion",),
    "reply": ("StructuredOutput", "structured_output"),
}


class Request(NamedTuple):
    """One request that was answered, with what was said."""

    asked: Asked
    scenario: str | None
    """None: a request beside the conversation, for its title."""
    body: str = ""
    """The whole request, as JSON."""
    is_whole: bool = True
    """The answer had an end, and with it its tokens; without one it was an error, or broke off."""
    said: Sequence[scenarios.Piece] = ()
    """The answer."""

    @property
    def prompts(self) -> list[str]:
        """What was said in the user's role."""
        return [item.text for item in self.asked.items if item.who == "user"]


class ModelServer:
    """One server; used as a context manager. `folder` is where the agents work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[Request] = []
        self.rejects: Refuse | None = None
        """Error that is the answer to all prompts, whatever their scenario."""
        self.scripts: dict[str, list[scenarios.Answer]] = {}
        """Answers to prompts without a scenario, by a text that is in the prompt; the last one that matches counts."""
        self.gate = threading.Event()
        self.waiting = threading.Event()
        """An answer stands at the gate."""
        self.timed_out = False
        """An answer went through the gate without having been let."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_of": self}))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def close_gate(self) -> None:
        """The next answer that comes to a gate waits there."""
        self.gate.clear()
        self.waiting.clear()
        self.timed_out = False

    def wait(self) -> None:
        """Stand at the gate."""
        self.waiting.set()
        if not self.gate.wait(GATE_SECONDS):
            self.timed_out = True

    def answer(self, asked: Asked) -> tuple[str | None, scenarios.Answer]:
        """What is said to a request, and in which scenario."""
        users = [at for at, item in enumerate(asked.items) if item.who == "user"]
        prompts = [at for at in users if named(asked.items[at]) or self._scripted(asked.items[at])]
        if not prompts or not asked.tools:
            return None, [Say(scenarios.TITLE)]
        last = prompts[-1]
        scenario = (named(asked.items[last]) or ["script"])[-1]
        if self.rejects is not None:
            return scenario, [self.rejects]
        if scenario not in GO_ON and _beside(asked.items[last:]):
            return None, [Say(scenarios.TITLE)]
        told = self._scripted(asked.items[last]) or scenarios.SCENARIOS.get(
            scenario, [[Say(f"There is no scenario {scenario}.")]]
        )
        told = [said for said in told if all(can_do(piece, asked.tools, self.folder) for piece in said)]
        after = asked.items[last:]
        rounds = sum(item.who == "call" and before.who != "call" for before, item in pairwise(after))
        if scenario in GO_ON:
            rounds = sum(item.who == "assistant" for item in after)
        if scenario in AGAIN:
            rounds = sum(request.scenario == scenario for request in self.requests) % len(told)
        answer = told[min(rounds, len(told) - 1)]
        if answer == [History()]:
            answer = [Say(scenarios.history([name for at in prompts for name in named(asked.items[at])]))]
        return scenario, answer

    def _scripted(self, item: Item) -> list[scenarios.Answer] | None:
        found = [answers for part, answers in self.scripts.items() if part in item.text]
        return found[-1] if found else None


GO_ON = {"maxtok", "goeson"}
"""Scenarios of answers at the limit of tokens, after which an agent asks for the rest."""
AGAIN = {"cutcalls"}
"""Scenarios in which an agent may ask again for the same answer, and gets the next one: one answer a request."""


def _beside(items: list[Item]) -> bool:
    """Whether the agent adds words of its own to a conversation that has its answer, say for a suggestion."""
    whos = [item.who for item in items]
    return whos[-1] == "user" and "assistant" in whos and "result" not in whos[whos.index("assistant") :]


def named(item: Item) -> list[str]:
    """The scenarios that a prompt names."""
    return scenarios.NAMED.findall(item.text)


def tool_for(call: Call, tools: list[Tool], folder: Path) -> tuple[Tool, Any]:
    """The offered tool that does what is wanted, and its input.

    Raises:
        LookupError: none does.
    """
    path = str(folder / call.path)
    for name in TOOLS[call.does]:
        if name == "TaskUpdate" and call.text != "completed":
            continue  # the step has to be there first
        for tool in tools:
            if tool.name == name:
                return tool, _input(call, path, tool)
    if call.does == "read":  # no tool of its own
        return tool_for(Call("shell", f"cat {call.path}"), tools, folder)
    raise LookupError(f"no tool does {call.does}: {[tool.name for tool in tools]}")


def can_do(piece: scenarios.Piece, tools: list[Tool], folder: Path) -> bool:
    """Whether a tool is offered for a piece that is left out without one."""
    if not isinstance(piece, Try):
        return True
    try:
        tool_for(piece, tools, folder)
    except LookupError:
        return False
    return True


def _patch(call: Call, path: str) -> str:
    added = "".join(f"+{line}\n" for line in call.text.splitlines())
    removed = "".join(f"-{line}\n" for line in call.old.splitlines())
    head = f"*** Update File: {path}\n@@" if call.does == "edit" else f"*** Add File: {path}"
    return f"*** Begin Patch\n{head}\n{removed}{added}*** End Patch"


def _input(call: Call, path: str, tool: Tool) -> Any:
    text = call.text
    if tool.schema is None:
        return _patch(call, path)
    properties = tool.schema.get("properties", {})
    if call.does == "shell":
        values = {"command": text, "cmd": text, "commands": [text], "is_background": False}
        if properties.get("command", {}).get("type") in ("array", "ARRAY"):
            values["command"] = ["bash", "-lc", text]
        values["description"] = values["summary"] = "Run a demo command"
        values |= {"riskLevelReason": "It is harmless.", "riskLevel": "low"}
    elif call.does in ("plan", "agent"):
        values = _step(text) if call.does == "plan" else _errand(text, tool)
    elif call.does == "reply":
        return json.loads(text)
    elif call.does == "ask":
        options = [{"label": label, "description": f"{label}, of course"} for label in scenarios.COLOURS]
        values = {"questions": [{"question": text, "header": "Colour", "options": options, "multiSelect": False}]}
    elif tool.name == "apply_patch":
        values = {"input": _patch(call, path)}
    elif call.does == "edit":
        values = _edit(call, path)
    else:
        values = {"file_path": path, "filePath": path, "path": path}
        values |= {"content": text, "file_text": text, "new_text": text, "files": [{"path": path}]}
    return {name: value for name, value in values.items() if name in properties}


def _edit(call: Call, path: str) -> dict[str, Any]:
    """An edit, by all the names that its parts have."""
    old, new = call.old, call.text
    values = {"file_path": path, "filePath": path, "path": path, "instruction": "Edit the story"}
    for names in (
        ("old_string", "new_string"),
        ("oldString", "newString"),
        ("old_str", "new_str"),
        ("before", "after"),
    ):
        values |= dict(zip(names, (old, new), strict=True))
    return {**values, "old_text": old, "new_text": new, "edits": [{"oldText": old, "newText": new}]}


def _step(status: str) -> dict[str, Any]:
    """A plan of one step, by all the names that it has."""
    said = "Do the work"
    step = {"id": "1", "step": said, "content": said, "description": said, "activeForm": said, "priority": "high"}
    task = {"subject": said, "description": said, "taskId": "1", "status": status}  # one step at a time
    return {**task, "plan": [{"step": said, "status": status}], "todos": [{**step, "status": status}]}


def _errand(prompt: str, tool: Tool) -> dict[str, Any]:
    """A sub-agent's task, by all the names that it has."""
    kind = "general" if tool.name == "task" else "general-purpose"  # opencode; claude and qwen
    if tool.schema is not None and "await" in tool.schema.get("properties", {}):
        kind = "worker"  # droid
    about = {"description": "Help out", "name": "helper", "systemPrompt": "You help.", "fork_context": False}
    kinds = {"subagent_type": kind, "agent_type": "general-purpose", "agent_name": "generalist"}
    return {
        **about,
        **kinds,
        "await": True,
        "prompt": prompt,
        "message": prompt,
        "task": prompt,
        "instructions": prompt,
    }


def in_folder(input: dict[str, Any], folder: Path) -> dict[str, Any]:
    """An input with the working directory for `{folder}`."""
    named = {name: value for name, value in input.items() if isinstance(value, str)}
    return {**input, **{name: value.replace("{folder}", str(folder)) for name, value in named.items()}}


def _paced(data: Iterator[bytes], rest: float) -> Iterator[bytes]:
    for piece in data:
        yield piece
        if rest:
            time.sleep(rest)


class _Handler(BaseHTTPRequestHandler):
    server_of: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what is asked is kept."""

    def do_HEAD(self) -> None:
        self._json(200, {})

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [{"id": "mock-model", "object": "model"}], "models": []})

    def do_POST(self) -> None:
        body = self._body()
        made = dialect(self.path)
        if self.path.partition("?")[0].endswith("/count_tokens") or "countTokens" in self.path:
            self._json(200, {"input_tokens": 5, "totalTokens": 5})
            return
        if made is None:
            self._json(200, {})
            return
        server = self.server_of
        asked = made.read(json.loads(body), self.path)
        scenario, answer = server.answer(asked)
        failure = next((piece for piece in answer if isinstance(piece, Refuse | Break)), None)
        server.requests.append(Request(asked, scenario, body.decode(), failure is None, answer))
        speaks = made(asked.model)
        if isinstance(failure, Refuse):
            self._json(failure.status, made.refusal(*failure))
        elif not asked.stream and failure is not None:
            self._json(503, made.refusal(503, failure.message))
        elif not asked.stream:
            self._json(200, speaks.whole("".join(piece.text for piece in answer if isinstance(piece, Say))))
        else:
            self._stream(self._said(speaks, answer, asked))

    def _said(self, speaks: Any, answer: scenarios.Answer, asked: Asked) -> Iterator[bytes]:
        yield speaks.begin()
        for piece in answer:
            match piece:
                case Think(text, size, rest):
                    yield from _paced(map(speaks.think, pieces(text, size)), rest)
                case Say(text, size, rest):
                    yield from _paced(map(speaks.say, pieces(text, size)), rest)
                case Use(tool, input):
                    yield speaks.call(Tool(tool, None), in_folder(input, self.server_of.folder))
                case Call("reply", text) if not {tool.name for tool in asked.tools} & {*TOOLS["reply"]}:
                    yield speaks.say(text)  # the agent has the provider restrict the text
                case Call():
                    yield speaks.call(*tool_for(piece, asked.tools, self.server_of.folder))
                case Wait():
                    self.server_of.wait()
                case Break(message):
                    yield speaks.broken(message)
                    return
                case Limit():
                    yield speaks.cut()
                    return
        yield speaks.end()

    def _stream(self, events: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for event in events:
                self.wfile.write(event)
        except OSError:
            pass  # the agent has gone
        except LookupError as error:
            self.wfile.write(str(error).encode())

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            try:
                self.wfile.write(data)
            except OSError:
                pass  # the agent has gone

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b"".join(self._chunks())
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
