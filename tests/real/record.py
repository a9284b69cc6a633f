"""Record what the real agents print: `python tests/real/record.py [AGENT…] [--case CASE…] [--into FOLDER]`.

`python tests/real/record.py --steer [AGENT…]` records a message that an agent gets while it works, on its `server`
route.

Writes `<agent>-<version>/<case>/` in the form of `tests/recordings`, where each folder is a test: `input.ndjson`,
`times`, and `expected.json`, which holds what the model server was told to say, never what Penstock made of it. The
agents are those of `agents.toml`, on their `exec` route, as Penstock starts them. Then read the difference to the
version before: `diff -r tests/recordings/claude tests/recordings/claude-2.2.0`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import scenarios
from install import NotInstalled, install
from model_server import GO_ON, Request, tool_for
from setups import SETUPS, Bench, Target, bench

from penstock import agent
from penstock.adapter import Command
from penstock.adapter import Request as Asked
from penstock.agents import registry
from penstock.errors import UsageError
from penstock.events import ToolCalled
from penstock.run.process import MARK, marked

RECORDINGS = Path(__file__).parents[1] / "recordings"
SECONDS = 120
PIPE_BYTES = 1 << 20
"""Some agents exit before their output is taken: what fits into the pipe is not lost (Linux)."""
LONGEST = 4000
"""Longer texts are given by their hash; see the README of the recordings."""

QUADRATIC = {"pi", "cline"}
"""Agents that repeat all text so far with each delta: `long` would be hundreds of megabytes."""
SILENT = {"gemini": ("thinking",), "kimi": ("thinking",)}
"""Kinds of blocks that an agent never prints."""
TELLS_ABORT = {"copilot", "cline"}
"""Agents that say so when they are stopped by SIGTERM."""
RENAMED = {"codex"}
"""Agents that print tool calls in words of their own."""


README = "".join(f"line {number}\n" for number in range(1, 31))
"""Content of `README.md` before each case."""


class Case(NamedTuple):
    """One recording."""

    scenario: str
    after: str = ""
    """The case whose session it goes on with."""
    kill: bool = False
    """Killed by SIGTERM when the model has said its first half."""


CASES = {
    "text": Case("text"),
    "thinking": Case("thinking"),
    "thinktools": Case("thinktools"),
    "tools": Case("tools"),
    "parallel": Case("parallel"),
    "toolerror": Case("toolerror"),
    "edit": Case("edits"),
    "long": Case("long"),
    "goeson": Case("goeson"),
    "cutcalls": Case("cutcalls"),
    "err400": Case("err400"),
    "err401": Case("err401"),
    "errstream": Case("errstream"),
    "base_for_resume": Case("text"),
    "resume": Case("history", after="base_for_resume"),
    "killed_sigterm": Case("slow", kill=True),
}


class Printed(NamedTuple):
    """What an agent printed."""

    argv: tuple[str, ...]
    data: bytes
    times: list[float]
    """Seconds since the start, one for each line."""
    requests: list[Request]


def command(at: Bench, prompt: str, session_id: str | None) -> Command:
    """How Penstock starts the agent."""
    profile = at.target.name.partition("/")[2] or None
    asked = Asked(prompt=prompt, session_id=session_id, allow="all", profile=profile)
    return registry.command(at.target.agent, "exec", asked)


def run(at: Bench, case: Case, session_id: str | None) -> Printed:
    """Run the agent on a case, and take what it prints as it comes."""
    asked = command(at, f"scenario={case.scenario} please", session_id)
    server, begin = at.server, time.monotonic()
    before = len(server.requests)
    server.close_gate()
    mark = uuid.uuid4().hex
    env = {**at.env, **asked.env, MARK: mark}
    with subprocess.Popen(
        asked.argv,
        env={name: value for name, value in env.items() if name not in asked.unset},
        cwd=at.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pipesize=PIPE_BYTES,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(asked.stdin)
            process.stdin.close()
            lines, times = [], []
            if case.kill:
                server.waiting.wait(SECONDS)
                time.sleep(1)  # what was said reaches stdout; how much of it does, the recording shows
                os.killpg(process.pid, signal.SIGTERM)
                time.sleep(1)
                _kill(process.pid)  # for those that heed no SIGTERM
            for line in process.stdout:
                lines.append(line)
                times.append(time.monotonic() - begin)
        finally:
            _kill(process.pid)
            for pid in marked(mark):  # cline leaves a server behind, in a session of its own
                os.kill(pid, signal.SIGKILL)
    server.gate.set()
    return Printed(asked.argv, b"".join(lines), times, server.requests[before:])


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def expected(at: Bench, case: Case, printed: Printed, version: str) -> dict[str, Any]:
    """What a reader must get: what the model server was told to say."""
    said: list[tuple[str, str]] = []
    calls: list[list[Any]] = []
    for request in printed.requests:
        if request.scenario is None:
            continue
        for piece in request.said:
            if isinstance(piece, scenarios.Wait) and case.kill:
                break
            if isinstance(piece, scenarios.Say | scenarios.Think):
                said.append(("text" if isinstance(piece, scenarios.Say) else "thinking", piece.text))
            elif isinstance(piece, scenarios.Call):
                tool, input = tool_for(piece, request.asked.tools, at.folder)
                calls.append(_renamed(piece, str(at.folder)) if at.target.agent in RENAMED else [tool.name, input])
    outcome = "error" if case.scenario.startswith("err") else "ok"
    if case.kill:
        outcome = "cancelled" if at.target.agent in TELLS_ABORT else "cut_off" if printed.data else "empty"
    silent = SILENT.get(at.target.agent, ())
    if case.kill and not registry.AGENTS[at.target.agent].routes["exec"].live:
        said = []  # it prints whole messages alone
    if case.scenario == "parallel":  # of calls at once, agents print first which they like
        calls.sort(key=lambda call: printed.data.find(_command(call[1]).encode()))
    texts = [text for kind, text in said if kind == "text"]
    if case.scenario in GO_ON:
        texts = ["".join(texts)]
    return {
        "agent": at.target.agent,
        "version": version,
        "argv": list(printed.argv),
        "blocks": [[kind, _short(text)] for kind, text in said if kind not in silent],
        "calls": calls,
        "reply": _short(texts[-1]) if texts else "",
        "outcome": outcome,
        "session_id": session_of(printed.data),
    }


def _renamed(call: scenarios.Call, folder: str) -> list[Any]:
    if call.does == "shell":
        return ["command_execution", {"command": f"/bin/bash -lc {shlex.quote(call.text)}"}]
    return ["file_change", {"changes": [{"path": f"{folder}/{call.path}", "kind": "add"}]}]


def _command(input: Any) -> str:
    """The command in a tool's input, as it stands in JSON."""
    command = input.get("command") or input.get("commands") or input.get("cmd")
    return json.dumps(command[-1] if isinstance(command, list) else command, ensure_ascii=False)[1:-1]


def _short(text: str) -> Any:
    if len(text) <= LONGEST:
        return text
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "length": len(text)}


STEERED = ("claude", "codex", "opencode", "pi")
"""Agents that take messages while they work."""
SESSION = re.compile(rb'"(?:session_id|threadId|sessionID|sessionId)":"([^"]+)"')


def record_steer(at: Bench, into: Path) -> None:
    """Record a message that the agent gets while it works, through Penstock, which has to talk with it."""
    version = at.target.packages[0].version
    before = len(at.server.requests)
    at.server.close_gate()
    with tempfile.TemporaryDirectory() as records:
        made = agent(at.target.name, route="server", cwd=at.folder, env=at.env, allow="all", record=records)
        with made.run("scenario=gated please") as running:
            for event in running:
                if isinstance(event, ToolCalled) and not at.server.gate.is_set():
                    running.steer("scenario=thinking please")
                    at.server.gate.set()
        [record] = Path(records).iterdir()
        files = {name: (record / name).read_bytes() for name in ("input.ndjson", "times")}
        argv = json.loads((record / "meta.json").read_text("utf-8"))["argv"]
    argv = argv[argv.index("--") + 1 :] if "--" in argv else argv  # without the bridge
    argv[0] = Path(argv[0]).name
    root = str(at.folder.parent).encode()
    data = files["input.ndjson"].replace(str(at.folder).encode(), b"/tmp/demo").replace(root, b"/tmp")
    files["input.ndjson"] = data
    printed = Printed(tuple(argv), data, [], at.server.requests[before:])
    wanted = expected(at, Case("gated"), printed, version)
    found = SESSION.search(data)
    wanted |= {"agent": f"{at.target.agent}/server", "session_id": found[1].decode() if found else None}
    text = json.dumps(wanted, indent=1, ensure_ascii=False).replace(f"{at.folder}", "/tmp/demo")
    folder = into / f"{at.target.agent}-server-{version}" / "steer"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "expected.json").write_text(text + "\n", "utf-8")
    print(f"{folder}: {len(data)} bytes")


def session_of(data: bytes) -> str | None:
    """The session id, under whatever name an agent gives it."""
    found = None
    for line in data.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            named = [event.get(key) for key in ("session_id", "sessionID", "sessionId", "thread_id")]
            named.append(event.get("id") if event.get("type") == "session" else None)
            found = next((name for name in named if isinstance(name, str)), found)
    return found


def record(at: Bench, cases: list[str], into: Path) -> None:
    """Record cases of one agent."""
    version = at.target.packages[0].version
    sessions: dict[str, str | None] = {}
    for name in cases:
        case = CASES[name]
        (at.folder / "README.md").write_text(README, "utf-8")
        if name == "long" and at.target.agent in QUADRATIC:
            continue
        try:
            printed = run(at, case, sessions[case.after] if case.after else None)
        except UsageError as error:
            print(f"{at.target.agent} {name}: {error}")
            continue
        wanted = expected(at, case, printed, version)
        sessions[name] = wanted["session_id"]
        folder = into / f"{at.target.agent}-{version}" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "input.ndjson").write_bytes(printed.data)
        (folder / "times").write_text("".join(f"{at:.3f}\n" for at in printed.times), "utf-8")
        (folder / "expected.json").write_text(json.dumps(wanted, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{folder}: {len(printed.times)} lines, {len(printed.data)} bytes")
        (at.folder / "notes.txt").unlink(missing_ok=True)


def main() -> int:
    """The command line. The exit status is the number of agents that are not installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = [name for name in SETUPS if "exec" in registry.AGENTS[name].routes]
    parser.add_argument("agents", nargs="*", default=known, metavar="AGENT", help=", ".join(known))
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--steer", action="store_true", help="record a message for an agent that works")
    parser.add_argument("--into", type=Path, default=RECORDINGS)
    given = parser.parse_args()
    if unknown := set(given.agents) - set(known):
        parser.error(f"no such agent: {', '.join(unknown)}")
    cases = [name for name in CASES if name in given.case or any(CASES[case].after == name for case in given.case)]
    missing = 0
    for name in given.agents:
        if given.steer and name not in STEERED:
            continue
        target = Target(name, "server" if given.steer else "exec")
        try:
            for package in target.packages:
                install(package)
            with tempfile.TemporaryDirectory() as root, bench(target, Path(root)) as at:
                if given.steer:
                    record_steer(at, given.into)
                else:
                    record(at, cases, given.into)
        except NotInstalled as error:
            print(f"NOT RECORDED: {error}", file=sys.stderr)
            missing += 1
    return missing


if __name__ == "__main__":
    sys.exit(main())
