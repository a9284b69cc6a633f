"""`penstock acp` as a program, with the official clients of the protocol, and its hidden server."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from acp_played_clients import PACKAGE
from lazy_modules import LazyModule
from npm_packages import installed
from pictures import png
from serve_process import Serve
from served import AGENTS, RECORDINGS, TESTS, held_and_asking
from waiting import until

from penstock.cli.serve.client import ServerClient, ServerOptions
from penstock.cli.serve.serving import find
from penstock.errors import UsageError
from penstock.run.locks import holder

if TYPE_CHECKING:
    import acp
    from acp import helpers, schema
else:
    acp = LazyModule("acp")
    helpers = LazyModule("acp.helpers")
    schema = LazyModule("acp.schema")

pytestmark = pytest.mark.slow

SECONDS = 300.0
"""Timeout in seconds for what a client does, with the start of a server."""

REPLY: str = json.loads((RECORDINGS / "thinktools" / "expected.json").read_text("utf-8"))["reply"]


class Editor:
    """A client made with the protocol's own package."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[str] = []

    def on_connect(self, conn: Any) -> None:
        """The connection; it is not needed."""

    async def request_permission(self, options: list[Any], tool_call: Any, **_: Any) -> Any:
        """Choose the first option."""
        self.asked.append(tool_call.title)
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        )

    async def session_update(self, update: Any, **_: Any) -> None:
        """Keep it."""
        self.updates.append(update)

    def text(self) -> str:
        """The text of the messages."""
        return "".join(it.content.text for it in self.updates if it.session_update == "agent_message_chunk")


class Machine:
    """A user's machine: a data directory, agents and a directory to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.root = folder / "root"
        self.root.mkdir()
        self.go = folder / "go"
        self.agents = AGENTS + held_and_asking(self.go)
        (folder / "agents.toml").write_text(self.agents)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
        more = {"HOME": str(folder), "PENSTOCK_CONFIG": str(folder / "agents.toml"), "PENSTOCK_DATA": str(self.data)}
        self.env = {**kept, **more, "PENSTOCK_SANDBOX": "off"}

    def words(self, agent: str = "scripted") -> list[str]:
        """The command that an editor starts."""
        return [sys.executable, "-m", "penstock", "acp", "--agent", agent]

    def run(self, editor: Editor, agent: str, work: Callable[[Any, Any], Any]) -> Any:
        """Do this with the connection and the process."""

        async def run() -> Any:
            words = self.words(agent)
            client: Any = editor  # it has what the agent asks for, and no more
            async with acp.spawn_agent_process(client, *words, env=self.env, cwd=str(self.folder)) as (conn, process):
                await conn.initialize(protocol_version=1)
                return await asyncio.wait_for(work(conn, process), SECONDS)

        return asyncio.run(run())

    @property
    def server(self) -> int | None:
        """The id of the server's process."""
        return holder(self.data / "serving.lock")

    def end(self) -> None:
        """End the server."""
        if pid := self.server:
            os.kill(pid, signal.SIGTERM)
            until(lambda: self.server is None)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine without a server."""
    made = Machine(tmp_path)
    yield made
    made.end()


def test_a_hidden_server_is_started_and_gives_way(machine: Machine, serve: Callable[..., Serve]) -> None:
    """A turn outlives the editor and its process; `penstock serve` takes over when it is done, and has the chat."""
    editor = Editor()

    async def leave(conn: Any, process: Any) -> str:
        made = await conn.new_session(cwd=str(machine.root), mcp_servers=[])
        asking = asyncio.create_task(conn.prompt(session_id=made.session_id, prompt=[helpers.text_block("Hello")]))
        while "tool_call_update" not in [it.session_update for it in editor.updates]:
            await asyncio.sleep(0.01)
        process.kill()
        with pytest.raises(Exception, match=r"."):
            await asking
        return str(made.session_id)

    session = machine.run(editor, "held", leave)
    assert editor.asked == [f"Trust {machine.root}?"]
    hidden = machine.server
    assert find(machine.data).hidden
    assert hidden is not None
    assert os.getsid(hidden) == hidden
    started = serve("--port=0", f"--root={machine.root}", agents=machine.agents, PENSTOCK_SANDBOX="off")
    until(lambda: holder(machine.data / "serving.next") == started.process.pid)
    assert machine.server == hidden, "a turn is running"
    machine.go.touch()
    assert "/#code=" in started.line()
    assert machine.server == started.process.pid
    assert not (machine.data / "acp.sock").exists()

    second = Editor()

    async def load(conn: Any, process: Any) -> None:
        await conn.load_session(cwd=str(machine.root), session_id=session, mcp_servers=[])

    machine.run(second, "held", load)
    assert second.text() == REPLY
    [used] = [it for it in second.updates if it.session_update == "usage_update"]
    assert 0 < used.used < used.size
    assert machine.server == started.process.pid
    started.end()


def test_two_editors_share_one_hidden_server(machine: Machine) -> None:
    """However many start at once; and it does not start below an agent, with which it would end."""
    lines = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}\n'
    env = {**machine.env, "PENSTOCK_RUN": "mark"}
    inside = subprocess.run(
        machine.words(), input=lines, capture_output=True, env=env, cwd=machine.folder, timeout=SECONDS, check=True
    )
    assert "end with the agent" in json.loads(inside.stdout)["error"]["message"]
    deep = subprocess.run(
        machine.words(), input=lines, capture_output=True, env={**machine.env, "PENSTOCK_DEPTH": "2"}, timeout=SECONDS,
        cwd=machine.folder, check=False,
    )  # fmt: skip
    assert (deep.returncode, deep.stdout) == (2, b"")
    assert b"an agent asks for another one" in deep.stderr
    started = [
        subprocess.Popen(
            machine.words(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=machine.env, cwd=machine.folder
        )
        for _ in range(4)
    ]
    for one in started:
        assert one.stdin is not None
        one.stdin.write(lines)
        one.stdin.flush()
    for one in started:
        assert one.stdout is not None
        assert json.loads(one.stdout.readline())["result"] == {"sessions": []}
        one.communicate(timeout=SECONDS)
    found = find(machine.data)
    assert found.path == str(machine.data / "acp.sock")
    until(lambda: os.stat(str(found.path)).st_mode & 0o777 == 0o600)
    machine.end()
    with pytest.raises(UsageError):
        find(machine.data)


def test_a_server_that_is_killed_ends_its_turn(machine: Machine) -> None:
    """The editor gets an error and never a success; its next prompt starts a server again."""
    editor = Editor()

    async def work(conn: Any, process: Any) -> None:
        made = await conn.new_session(cwd=str(machine.root), mcp_servers=[])
        asking = asyncio.create_task(conn.prompt(session_id=made.session_id, prompt=[helpers.text_block("Hello")]))
        while "tool_call_update" not in [it.session_update for it in editor.updates]:
            await asyncio.sleep(0.01)
        assert machine.server is not None
        os.kill(machine.server, signal.SIGKILL)
        with pytest.raises(acp.RequestError) as caught:
            await asking
        assert caught.value.data is not None
        assert caught.value.data["outcome"] == "cut_off"
        machine.go.touch()
        answer = await conn.prompt(session_id=made.session_id, prompt=[helpers.text_block("Again")])
        assert answer.stop_reason == "end_turn"

    machine.run(editor, "held", work)
    assert editor.text().endswith(REPLY)


def test_the_official_client_for_python(machine: Machine) -> None:
    """A permission, pictures, a cancelled turn, the list, the settings and an error, all as its types want them."""
    editor = Editor()
    loaded: list[str] = []

    async def work(conn: Any, process: Any) -> None:
        made = await conn.new_session(cwd=str(machine.root), mcp_servers=[])
        assert [option.id for option in made.config_options] == ["agent", "permission"]
        answer = await conn.prompt(session_id=made.session_id, prompt=[helpers.text_block("permission")])
        assert (answer.stop_reason, editor.text()) == ("end_turn", "asked: once")
        # A run may end after its answer was sent, on a busy machine.
        assert answer.usage is None or answer.usage.total_tokens == 19
        seeing = await conn.new_session(cwd=str(machine.root), mcp_servers=[])
        loaded.append(seeing.session_id)
        picture = b64encode(png()).decode()
        file = helpers.resource_block(helpers.embedded_text_resource("file:///src/a.py", "print()\n"))
        words = [helpers.text_block("See "), helpers.image_block(picture, "image/png"), file]
        answer = await conn.prompt(session_id=seeing.session_id, prompt=words)
        assert answer.stop_reason == "end_turn"
        assert "print()\n" in editor.text(), "the agent, which repeats its prompt, has the file"
        with pytest.raises(acp.RequestError, match="PNG, JPEG, GIF or WebP"):
            await conn.prompt(session_id=seeing.session_id, prompt=[helpers.image_block("AAAA", "image/png")])
        listed = await conn.list_sessions(cwd=str(machine.root))
        assert {it.session_id for it in listed.sessions} == {made.session_id, seeing.session_id}
        waiting = await conn.new_session(cwd=str(machine.root), mcp_servers=[])
        asking = asyncio.create_task(conn.prompt(session_id=waiting.session_id, prompt=[helpers.text_block("wait")]))
        await asyncio.sleep(1)
        await conn.cancel(session_id=waiting.session_id)
        assert (await asking).stop_reason == "cancelled"
        with pytest.raises(acp.RequestError) as caught:
            await conn.load_session(cwd=str(machine.root), session_id="none", mcp_servers=[])
        assert caught.value.code == -32002

    machine.run(editor, "peer", work)
    again = Editor()

    async def load(conn: Any, process: Any) -> None:
        await conn.load_session(cwd=str(machine.root), session_id=loaded[0], mcp_servers=[])

    machine.run(again, "peer", load)
    shown = [it.content for it in again.updates if it.session_update == "user_message_chunk"]
    assert [it.type for it in shown] == ["text", "image", "text"]
    assert (b64decode(shown[1].data), shown[2].text) == (png(), "\n[a.py]")


PROGRAM = TESTS / "support" / "acp_client.mjs"


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
def test_the_official_client_for_javascript(machine: Machine) -> None:
    """It sends a picture, gets the reply, the title and the reason to stop, and the same when it loads the session."""
    picture = machine.folder / "shot.png"
    picture.write_bytes(png())
    words = ["node", str(PROGRAM), str(installed(PACKAGE)), str(machine.root), str(picture), *machine.words()]
    done = subprocess.run(words, capture_output=True, text=True, env=machine.env, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["result"]["stopReason"] == "end_turn"
    kinds = {"agent_thought_chunk", "tool_call", "tool_call_update", "user_message_chunk"}
    assert kinds | {"available_commands_update", "usage_update"} <= {*found["kinds"]}
    assert found["text"] == found["loaded"] == REPLY
    assert found["title"] == "Hello"
    assert found["pictures"] == [b64encode(png()).decode()]


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
def test_two_official_clients_and_the_page(machine: Machine) -> None:
    """While a turn runs for the client for Python, that for JavaScript and the page open it; all get its reply."""
    editor = Editor()

    async def work(conn: Any, process: Any) -> None:
        made = await conn.new_session(cwd=str(machine.root), mcp_servers=[])
        prompt = conn.prompt(session_id=made.session_id, prompt=[helpers.text_block("Hello")])
        asking = asyncio.create_task(prompt)
        await asyncio.to_thread(until, lambda: any(it.session_update == "tool_call" for it in editor.updates))
        words = [str(PROGRAM.with_name("acp_watching_client.mjs")), str(installed(PACKAGE)), str(machine.root)]
        watching = await asyncio.create_subprocess_exec(
            "node", *words, made.session_id, *machine.words("held"), stdout=subprocess.PIPE, env=machine.env
        )
        assert watching.stdout is not None
        assert await watching.stdout.readline() == b"loaded\n"
        assert turn_of(machine, made.session_id)["state"] != "completed"
        machine.go.touch()
        assert (await asking).stop_reason == "end_turn"
        seen = json.loads(await watching.stdout.readline())
        assert await watching.wait() == 0
        shown = await asyncio.to_thread(until, lambda: turn_of(machine, made.session_id).get("message"))
        assert seen == shown == editor.text() == REPLY

    machine.run(editor, "held", work)


def turn_of(machine: Machine, chat: str) -> dict[str, Any]:
    """The only turn of a chat, as the hidden server has it for the page."""
    asked = ServerClient(ServerOptions(data=machine.data, token_file=None, server=None))
    [turn] = asked.ask("GET", f"/api/chats/{chat}/turns", dict[str, Any])["turns"]
    return dict(turn)


CHOOSER = f"""
[agents.chooser]
command = ["{sys.executable}", "-S", "{TESTS / "support" / "acp_chooser.py"}"]
protocol = "acp"
"""


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
def test_two_forms_at_once(machine: Machine) -> None:
    """Forms of two sessions are open at the same time, each with its own answer; two of one turn follow each other."""
    (machine.folder / "agents.toml").write_text(machine.agents + CHOOSER)
    words = ["node", str(PROGRAM.with_name("acp_forms_client.mjs")), str(installed(PACKAGE)), str(machine.root)]
    words += machine.words("chooser")
    done = subprocess.run(words, capture_output=True, text=True, env=machine.env, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["stops"] == ["end_turn"] * 3
    *single, both = found["answers"]
    assert sorted(it["reply"] for it in single) == ["chosen: a", "chosen: b"]
    assert [len(it["forms"]) for it in single] == [1, 1]
    assert both["reply"] == "chosen: a, r"
    assert len({*both["forms"]}) == 2
    [login] = found["logins"]
    assert (login["type"], login["args"]) == ("terminal", ["--setup"])


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
def test_a_client_that_is_no_package_of_the_protocol(machine: Machine) -> None:
    """acpx, for the command line: it trusts the directory, prints the reply, and allows what the agent asks."""
    program = installed("acpx@0.19.1") / "node_modules" / ".bin" / "acpx"
    for agent, prompt, reply in (("scripted", "Hello", REPLY), ("peer", "permission", "asked: once")):
        words = [str(program), "--cwd", str(machine.root), "--approve-all", "--format", "quiet"]
        words += ["--agent", shlex.join(machine.words(agent)), "exec", prompt]
        done = subprocess.run(words, capture_output=True, text=True, env=machine.env, timeout=300, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, reply), done.stderr
