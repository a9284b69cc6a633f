"""The lines of the documents that connect a client: each is taken from its page, and runs as it stands there.

The address of the server, its token, an agent that is there, and the ids that a page calls ID and FILE are filled in.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from npm_packages import installed
from pictures import png
from serve_process import Serve
from served import BRIEF, PLAIN, PLAYER, RECORDINGS, SECONDS, TESTS
from waiting import until

from penstock.cli.completion import all_commands, subparsers_of
from penstock.config import settings

DOCS = TESTS.parent / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8377"
"""Address of the server on all pages."""

REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]

USE_CHAT = ("@ai-sdk/react@4.0.177", "ai@7.0.173", "react@19.3.1", "react-dom@19.3.1", "esbuild@0.28.2")
"""Packages of a page with `useChat`, as `tests/page/test_use_chat.py` has them."""

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page in a language."""
    return [code for found, code in BLOCK.findall((DOCS / page).read_text("utf-8")) if found == language]


# --- commands that clients start ---


def commands_in(value: Any) -> Iterator[list[str]]:
    """The commands in settings of a client."""
    if isinstance(value, dict):
        if "command" in value:
            yield [value["command"], *value["args"]]
        for it in value.values():
            yield from commands_in(it)


def started_by_clients(page: str) -> dict[str, list[list[str]]]:
    """The commands of all settings on a page, by the language of their block."""
    of_lisp = r':command "(.*?)" :command-params \'\((.*?)\)'
    of_lua = r'command = "(.*?)", args = \{ (.*?) \}|default = \{ "(.*?)", (.*?) \}'
    lisp = [it for code in blocks(page, "lisp") for it in re.findall(of_lisp, code)]
    lua = [[*filter(None, it)] for code in blocks(page, "lua") for it in re.findall(of_lua, code)]
    shell = [shlex.split(line) for code in blocks(page, "sh") for line in code.splitlines()]
    return {
        "json": [it for code in blocks(page, "json") for it in commands_in(json.loads(code))],
        "toml": [it for code in blocks(page, "toml") for it in commands_in(tomllib.loads(code))],
        "lisp": [[program, *re.findall(r'"(.*?)"', args)] for program, args in lisp],
        "lua": [[program, *re.findall(r'"(.*?)"', args)] for program, args in lua],
        "sh": [it[it.index("--") + 1 :] for it in shell],
    }


PAGES = {
    "acp-agent.md": {"json": 2, "toml": 0, "lisp": 1, "lua": 2, "sh": 0},
    "mcp.md": {"json": 2, "toml": 1, "lisp": 0, "lua": 0, "sh": 1},
}
"""Number of commands on the pages of the commands that clients start."""


@pytest.mark.parametrize("page", PAGES)
def test_settings_name_a_command_that_exists(page: str) -> None:
    """Each block is well formed, names one command, and its options are those of the command."""
    found = started_by_clients(page)
    assert {language: len(commands) for language, commands in found.items()} == PAGES[page]
    parsers = subparsers_of(all_commands()).choices
    for words in [it for commands in found.values() for it in commands]:
        assert words[:2] == ["penstock", page.removesuffix(".md").removesuffix("-agent")]
        options = {option for action in parsers[words[1]]._actions for option in action.option_strings}
        assert {it for it in words[2:] if it.startswith("-")} <= options
    for code in [*blocks(page, "lisp"), *blocks(page, "lua")]:
        plain = re.sub(r'".*?"', "", code)
        assert [plain.count(it) for it in "({["] == [plain.count(it) for it in ")}]"]


OWN = ("webhooks.md", "configuration.md")


@pytest.mark.parametrize(("page", "code"), [(page, code) for page in OWN for code in blocks(page, "toml")])
def test_a_configuration_is_one(page: str, code: str, tmp_path: Path) -> None:
    """Penstock reads each table of its own documents without a complaint, once a secret is filled in."""
    secret = f"whsec_{base64.b64encode(bytes(range(24))).decode()}"
    (tmp_path / "config.toml").write_text(code.replace("whsec_…", secret), "utf-8")
    assert settings.load({"PENSTOCK_CONFIG": str(tmp_path / "config.toml")}, str(tmp_path)).problems == []


# --- a machine, as the pages assume it ---


class Desk:
    """A person's machine: the server at its default data directory, and a shell in a directory that has claude."""

    def __init__(self, folder: Path, serve: Callable[..., Serve]) -> None:
        self.home = folder
        self.work = folder / "shop"
        self.work.mkdir()
        self.data = folder / ".local" / "share" / "penstock"
        play = [sys.executable, "-S", str(PLAYER)]
        agents = {
            "scripted": [*play, str(RECORDINGS / "thinktools"), "--speed=0"],
            "codex": [*play, str(RECORDINGS / "text"), "--speed=0"],
        }
        tables = "".join(
            f'[agents.{name}]\ncommand = {json.dumps(words)}\nadapter = "claude"\n' for name, words in agents.items()
        )
        server = serve(
            f"--data={self.data}", "--port=0", f"--root={self.work}", "--agent=scripted", agents=tables,
            PENSTOCK_SANDBOX="off",
        )  # fmt: skip
        self.url = server.line().partition("/#")[0]
        self.token = (self.data / "token").read_text().strip()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        config = {"PENSTOCK_CONFIG": str(folder / "agents.toml"), "PENSTOCK_SANDBOX": "off"}
        self.env = {"HOME": str(folder), "PATH": path, "LANG": "C.UTF-8", **config}

    def filled(self, code: str) -> str:
        """A block with the address and the token of the server, and an agent that plays a recording of claude."""
        found = code.replace(ADDRESS, self.url).replace("Bearer …", f"Bearer {self.token}")
        return re.sub(r'(/|")claude\b', r"\1scripted", found)

    def client(self) -> httpx.Client:
        """A program that knows the token."""
        bearer = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(
            base_url=self.url, headers=bearer, timeout=SECONDS, trust_env=False, verify=PLAIN, limits=BRIEF
        )

    def trust(self) -> None:
        """Let agents work in the directory."""
        with self.client() as one:
            assert one.post("/api/workspaces", json={"path": str(self.work)}).status_code == 200

    def turns(self) -> list[tuple[str, str | None]]:
        """The prompt and the outcome of all turns."""
        with self.client() as one:
            chats = [it["id"] for it in one.get("/api/chats").json()["chats"]]
            found = [it for id in chats for it in one.get(f"/api/chats/{id}/turns").json()["turns"]]
        return [(it["prompt"], it.get("outcome")) for it in found]

    def run(self, words: list[str], given: str = "") -> str:
        """What a program prints."""
        done = subprocess.run(
            words, input=given, capture_output=True, text=True, env=self.env, cwd=self.work, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_script(self, code: str, packages: Path) -> Any:
        """What a script in JavaScript prints as JSON, with packages from npm."""
        (self.work / "node_modules").symlink_to(packages / "node_modules")
        script = self.work / "script.mjs"
        script.write_text(code, "utf-8")
        return json.loads(self.run(["node", str(script)]))


@pytest.fixture
def desk(tmp_path: Path, serve: Callable[..., Serve]) -> Desk:
    """A machine with a server."""
    return Desk(tmp_path, serve)


INITIALIZE: dict[str, dict[str, Any]] = {
    "acp": {"protocolVersion": 1, "clientCapabilities": {}},
    "mcp": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
}


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "acp": ("session/new", {"cwd": "/", "mcpServers": []}),
    "mcp": ("tools/call", {"name": "list_agents", "arguments": {}}),
}


@pytest.mark.slow
def test_each_command_reaches_the_server(desk: Desk) -> None:
    """The programs that editors and agents start by these settings answer, with the agents of the server."""
    for page in PAGES:
        found = {tuple(it) for commands in started_by_clients(page).values() for it in commands}
        for words in found:
            asked = [("initialize", INITIALIZE[words[1]]), ASKED[words[1]]]
            lines = [
                json.dumps({"jsonrpc": "2.0", "id": id, "method": name, "params": it})
                for id, (name, it) in enumerate(asked)
            ]
            answers = [json.loads(line) for line in desk.run([*words], "\n".join(lines) + "\n").splitlines()]
            result = {it["id"]: it["result"] for it in answers}[1]
            if words[1] == "mcp":
                assert result["structuredContent"]["default"] == "scripted"
            else:
                agent = next(it["currentValue"] for it in result["configOptions"] if it["id"] == "agent")
                assert agent == ("codex" if "codex" in words else "scripted")
    assert desk.turns() == []


@pytest.mark.slow
@needs_npm
def test_the_line_of_acpx(desk: Desk) -> None:
    """It prints the reply of the agent."""
    [line] = re.findall(r"`(acpx [^`]*)`", (DOCS / "acp-agent.md").read_text("utf-8"))
    desk.trust()
    desk.env["PATH"] = f"{installed('acpx@0.19.1') / 'node_modules' / '.bin'}:{desk.env['PATH']}"
    assert REPLY in desk.run(["sh", "-c", line])
    until(lambda: desk.turns() == [("What is here?", "ok")], "it was a turn")


# --- the API ---


class Shell:
    """A shell into which a person types lines, one after the other."""

    def __init__(self, desk: Desk) -> None:
        self._process = subprocess.Popen(
            ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=desk.env,
            cwd=desk.work,
        )  # fmt: skip

    def type(self, line: str) -> str:
        """Type a line; return what is printed until it is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\necho; echo this line is done\n")
        self._process.stdin.flush()
        found = ""
        while (printed := self._process.stdout.readline()) != "this line is done\n":
            assert printed, "the shell has ended"
            found += printed
        return found

    def close(self) -> None:
        """End what it has started, and itself."""
        self._process.communicate("kill $!; wait\n", timeout=SECONDS)
        assert self._process.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_lines_of_curl(desk: Desk) -> None:
    """Typed one after the other, they trust the directory, begin a chat, follow it, and ask twice, with a picture."""
    (desk.work / "shot.png").write_bytes(png())
    lines = [line for code in blocks("gateway-api.md", "sh") for line in code.splitlines()]
    assert sum(line.startswith("curl ") for line in lines) == 6
    ids: dict[str, str] = {}
    shell, stream = Shell(desk), desk.work / "stream"
    try:
        for line in lines:
            typed = re.sub(r"\b(ID|FILE)\b(?=[/\"?])", lambda it: ids[it[1]], desk.filled(line).partition("  #")[0])
            printed = shell.type(re.sub(r"&\s*$", f"> {stream} &", typed))
            assert "urn:penstock:problem" not in printed, (typed, printed)
            if named := re.search(r'… "id": (\w+)$', line):
                ids[named[1]] = json.loads(printed)["id"]
        until(lambda: [it for _, it in desk.turns()] == ["ok", "ok"], "both turns end")
        until(lambda: stream.exists() and REPLY in stream.read_text("utf-8"), "the stream shows the reply")
    finally:
        shell.close()
    assert [it for it, _ in desk.turns()] == ["What is this?", "What is wrong here?"]
    assert "event: snapshot" in stream.read_text("utf-8")


# --- other protocols ---


@pytest.mark.slow
def test_the_client_of_openai(desk: Desk) -> None:
    """The lines make a client that lists the agents, and whose completions are their turns."""
    [code] = blocks("doors.md", "python")
    desk.trust()
    made: dict[str, Any] = {}
    exec(compile(desk.filled(code).replace("the token of your server", desk.token), "doors.md", "exec"), made)
    with made["client"] as client:
        assert "scripted" in {it.id for it in client.models.list()}
        messages = [{"role": "user", "content": "What is here?"}]
        done = client.chat.completions.create(model="scripted", messages=messages)
    assert done.choices[0].message.content == REPLY
    until(lambda: desk.turns() == [("What is here?", "ok")], "it was a turn")


HOOK = """
// `useChat` without a page: the chat of @ai-sdk/react itself, which the hook gives to its component.
import { Chat } from "./node_modules/@ai-sdk/react/dist/index.js";
export function useChat({ resume, ...options }) {
  const chat = new Chat(options);
  const ready = resume ? chat.resumeStream() : Promise.resolve();
  globalThis.chat = chat;
  return { messages: chat.messages, sendMessage: (message) => ready.then(() => chat.sendMessage(message)) };
}
"""

ASK = """
await sendMessage({ text: "What is here?" });
const { messages: shown, status, error } = globalThis.chat;
console.log(JSON.stringify({ shown, status, error: String(error) }));
"""


@pytest.mark.slow
@needs_npm
def test_the_page_of_the_ai_sdk(desk: Desk) -> None:
    """The chat that the lines make, which first asks for a running message, shows the reply."""
    [code] = [it for it in blocks("doors.md", "js") if "@ai-sdk/react" in it]
    desk.trust()
    (desk.work / "hook.mjs").write_text(HOOK)
    same_origin = f"const own = fetch; globalThis.fetch = (at, more) => own(new URL(at, {json.dumps(desk.url)}), more);"
    script = f"{same_origin}\n{desk.filled(code)}{ASK}".replace('"@ai-sdk/react"', '"./hook.mjs"')
    found = desk.run_script(script, installed(*USE_CHAT))
    assert (found["status"], found["error"]) == ("ready", "undefined")
    texts = [[part["text"] for part in it["parts"] if part["type"] == "text"] for it in found["shown"]]
    assert texts == [["What is here?"], [REPLY]]
    until(lambda: desk.turns() == [("What is here?", "ok")], "it was a turn")


@pytest.mark.slow
@needs_npm
def test_the_agent_of_ag_ui(desk: Desk) -> None:
    """The lines run the agent, which then has the reply as its last message."""
    [code] = [it for it in blocks("doors.md", "js") if "@ag-ui/client" in it]
    desk.trust()
    script = f"{desk.filled(code)}\nconsole.log(JSON.stringify(agent.messages));\n"
    messages = desk.run_script(script, installed("@ag-ui/client@1.0.0"))
    assert [(it["role"], it["content"]) for it in messages] == [("user", "What is here?"), ("assistant", REPLY)]
    until(lambda: desk.turns() == [("What is here?", "ok")], "it was a turn")
