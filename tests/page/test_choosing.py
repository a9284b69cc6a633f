"""What a new chat can be made of, and who is signed in: agents that are there, that are not, and that may not start."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chatpage import cast
from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import Page, expect
from waiting import until

Servers = Callable[..., Server]
Devices = Callable[..., Device]
MODELS = ["qwen3:8b", "llama3.2:latest"]
UNAUTHORIZED = "the server responded with a status of 401"
NOBODY = "127.0.0.1:1"
"""Where no Ollama server answers."""


@pytest.fixture
def ollama() -> Iterator[str]:
    """The place of a server that lists models as Ollama does."""

    class Tags(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"models": [{"name": name} for name in MODELS]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Tags) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def _without_agents(tmp_path: Path, host: str) -> dict[str, str]:
    """The environment of a server that knows no agents of its own and finds no programs."""
    config = tmp_path / "none.toml"
    config.touch()
    return {"PENSTOCK_CONFIG": str(config), "PATH": "/nowhere", "OLLAMA_HOST": host}


def _options(page: Page, label: str) -> list[tuple[str, bool]]:
    """What a choice offers: the words, and whether it can be chosen."""
    found = page.get_by_label(label, exact=True).locator("option")
    return [(words, usable) for words, usable in found.evaluate_all("all => all.map((it) => [it.label, !it.disabled])")]


def _install(program: Path) -> None:
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)


def test_no_agent_is_installed(own_server: Servers, devices: Devices, tmp_path: Path) -> None:
    """Where there is no agent and no Ollama, the page says how to install one, and offers nothing that fails."""
    page = devices().sign_in(own_server(env=_without_agents(tmp_path, NOBODY)).printed)
    expect(page.get_by_role("heading", name="No agent is installed")).to_be_visible()
    expect(page.locator(".composer")).to_have_count(0)
    expect(page.locator(".how-to")).to_contain_text("npm install -g @anthropic-ai/claude-code")
    expect(page.locator(".how-to")).to_contain_text("No Ollama server answers")
    expect(page.locator("main")).not_to_contain_text("`")


def test_an_agent_that_is_installed_meanwhile(own_server: Servers, devices: Devices, tmp_path: Path) -> None:
    """Who installs an agent and comes back to the page can begin, without loading it again."""
    env = _without_agents(tmp_path, NOBODY) | {"PATH": str(tmp_path)}
    page = devices().sign_in(own_server(env=env).printed)
    expect(page.get_by_role("heading", name="No agent is installed")).to_be_visible()
    _install(tmp_path / "claude")
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_label("Agent", exact=True)).to_have_value("claude")


def test_the_models_of_ollama(own_server: Servers, devices: Devices, tmp_path: Path, ollama: str) -> None:
    """Where Ollama answers, its models can be chosen, and the chat gets the one that was."""
    server = own_server(env=_without_agents(tmp_path, ollama))
    thread = Thread(devices(), server).enter()
    expect(thread.page.get_by_label("Agent", exact=True)).to_have_value("ollama")
    assert _options(thread.page, "Model") == [(name, True) for name in MODELS]
    thread.page.get_by_label("Model", exact=True).select_option(MODELS[1])
    thread.say("hello")
    expect(thread.turn(1)).to_be_visible(timeout=PATIENCE)
    assert [chat["model"] for chat in server.ask("GET", "/api/chats")["chats"]] == [MODELS[1]]


def test_the_models_that_an_agent_lists(own_server: Servers, devices: Devices, tmp_path: Path) -> None:
    """Once its field has the focus, the models of the agent are offered, and the levels of effort of the chosen one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    efforts = [{"effort": name} for name in ("low", "high")]
    deep = {"slug": "deep", "visibility": "list", "supported_reasoning_levels": efforts}
    listed = json.dumps({"models": [deep, {**deep, "slug": "<b>odd</b>", "supported_reasoning_levels": []}]})
    (programs / "codex").write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{listed}\nEND\n", "utf-8")
    (programs / "codex").chmod(0o755)
    server = own_server(env=_without_agents(tmp_path, NOBODY) | {"PATH": str(programs)})
    thread = Thread(devices(), server).enter()
    field = thread.page.get_by_label("Model", exact=True)
    offered = thread.page.locator("#new-models option")
    expect(offered).to_have_count(0)
    field.focus()
    expect(offered).to_have_count(2)
    assert offered.evaluate_all("all => all.map((it) => it.value)") == ["deep", "<b>odd</b>"]
    effort = thread.page.get_by_label("Effort", exact=True)
    field.fill("<b>odd</b>")
    expect(effort).to_have_count(0)
    field.fill("deep")
    expect(effort).to_be_visible()
    effort.select_option("high")
    thread.say("hello")
    expect(thread.turn(1)).to_be_visible(timeout=PATIENCE)
    (chat,) = until(lambda: server.ask("GET", "/api/chats")["chats"])
    assert (chat["agent"], chat["model"], chat["effort"]) == ("codex", "deep", "high")


def test_agents_of_a_project_that_nobody_trusts(own_server: Servers, devices: Devices, tmp_path: Path) -> None:
    """They are greyed, with the reason; once the directory is trusted they can be chosen."""
    root = tmp_path / "project"
    root.mkdir()
    recording = cast.RECORDINGS / "claude" / "base_for_resume"
    (root / "penstock.toml").write_text(cast.agent("ours", "claude", recording, 20), "utf-8")
    _install(tmp_path / "claude")
    env = {"PENSTOCK_CONFIG": "", "PATH": str(tmp_path), "OLLAMA_HOST": NOBODY}
    page = devices().sign_in(own_server(env=env, root=root, trusted=False).printed)
    expect(page.locator(".blocked")).to_contain_text("penstock.toml defines how it is started")
    assert ("ours", False) in _options(page, "Agent")
    assert page.get_by_label("Agent", exact=True).input_value() != "ours"
    page.get_by_role("button", name="Trust this directory").click()
    page.get_by_role("dialog").get_by_role("button", name="Trust", exact=True).click()
    expect(page.locator(".blocked")).to_have_count(0)
    assert ("ours", True) in _options(page, "Agent")


def test_browsers_that_are_signed_in(own_server: Servers, devices: Devices) -> None:
    """The list has each browser; one that is signed out there has to sign in again."""
    server = own_server()
    mine, other = devices(), devices()
    other.allow(UNAUTHORIZED)
    away = Thread(other, server).enter(server.chat("quick"))
    page = mine.sign_in(server.link())
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Signed-in browsers").click()
    entries = page.locator(".browsers li")
    expect(entries.filter(has_text="this browser")).to_have_count(1)
    entries.filter(has_not_text="this browser").get_by_role("button").click()
    expect(entries).to_have_count(1)
    away.page.reload()
    expect(away.page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("heading", name="Signed-in browsers")).to_be_visible()


def test_sign_out_everywhere(own_server: Servers, devices: Devices) -> None:
    """All browsers are signed out, this one too, also one that only looks at a chat."""
    server = own_server()
    mine, other = devices(), devices()
    for device in (mine, other):
        device.allow(UNAUTHORIZED)
    away = Thread(other, server).enter(server.chat("quick"))
    page = mine.sign_in(server.link())
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Signed-in browsers").click()
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(away.page.get_by_role("heading", name="Sign in")).to_be_visible(timeout=PATIENCE)


def test_a_chat_is_found_by_its_prompt(own_server: Callable[..., Server], at: Callable[..., Thread]) -> None:
    """Words that stand in a prompt, and not in the title, find the chat; others say that there is none."""
    server = own_server()
    for number in range(10):
        server.chat("quick", title=f"chat {number}")
    thread = at("quick", of=server)
    thread.ask("something that is far longer than any title of a chat may be, with a needle5 in it")
    until(lambda: server.ask("GET", "/api/search?q=needle5")["hits"])
    field = thread.page.get_by_label("Find a chat")
    field.fill("NEEDLE5")
    expect(thread.page.locator(".entries li")).to_have_count(1)
    expect(thread.page.locator(f"[data-chat='{thread.chat}']")).to_be_visible()
    field.fill("needle6")
    expect(thread.page.locator(".side-note").first).to_have_text("Nothing has these words.")
    field.fill("chat 7")
    expect(thread.page.locator(".entries li")).to_have_count(1)


def _several(folder: Path) -> Path:
    """Agents of all kinds of permission: their programs are there."""
    agents = [cast.stand_in(name) for name in ("claude", "opencode", "gemini", "pi", "droid")]
    return cast.config(folder / "penstock.toml", roles=["quick"], more=agents)


def test_a_level_of_permission_is_the_persons(own_server: Servers, devices: Devices) -> None:
    """It stays over a change of the agent; where it cannot be kept, an amber sentence says what the agent does."""
    thread = Thread(devices(), own_server(config=_several)).enter()
    page = thread.page
    agent, level, note = page.get_by_label("Agent"), page.get_by_label("Permissions"), page.locator(".start-note")

    def is_now(name: str, label: str, words: str = "") -> None:
        agent.select_option(name)
        expect(level.locator("option:checked")).to_have_text(label)
        expect(note).to_have_attribute("data-kept", str(not words).lower())
        expect(note).to_contain_text(words)

    is_now("claude", "Asks first")
    is_now("opencode", "Asks first")
    is_now("gemini", "Asks first")
    is_now("pi", "Only reads", "pi does not ask first.")
    page.reload()
    is_now("claude", "Asks first")
    level.select_option(label="Edits files")
    is_now("opencode", "Edits files")
    is_now("pi", "Only reads")  # which is less
    is_now("claude", "Edits files")
    looks = {page.locator(".choice[data-level]").evaluate("it => getComputedStyle(it, '::before').backgroundImage")}
    for label in ("Asks first", "Does everything"):
        level.select_option(label=label)
        looks.add(
            page.locator(".choice[data-level]").evaluate("it => getComputedStyle(it, '::before').backgroundImage")
        )
    assert len(looks) == 3


def test_what_is_not_kept_is_confirmed_once(own_server: Servers, devices: Devices) -> None:
    """Send asks once for each agent in this browser; who cancels has sent nothing, and still has the message."""
    server = own_server(config=_several)
    thread = Thread(devices(), server).enter()
    page = thread.page
    page.get_by_label("Agent").select_option("pi")
    thread.say("clean up")
    dialog = page.get_by_role("dialog", name="Send it nevertheless?")
    expect(dialog).to_contain_text("pi does not ask first.")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(thread.composer).to_have_value("clean up")
    assert server.ask("GET", "/api/chats")["chats"] == []
    thread.composer.press("Enter")
    thread.confirm()
    expect(page.locator(".turn")).to_have_count(1)
    page.get_by_role("link", name="New chat", exact=True).click()
    thread.say("once more")
    expect(page.locator(".turn")).to_have_count(1)
    expect(dialog).to_have_count(0)
    page.get_by_role("link", name="New chat", exact=True).click()
    page.get_by_label("Agent").select_option("droid")
    thread.say("another agent")
    expect(dialog).to_contain_text("droid does not ask first.")


def test_another_directory(own_server: Servers, devices: Devices) -> None:
    """Its field has the focus, offers directories by the keyboard, and shows what it is before Send."""
    server, device = own_server(), devices()
    device.allow("the server responded with a status of 4")
    inner, branch = server.root / "<b>inner" / "deep", "feature/one"
    inner.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", branch, str(inner.parent)], check=True)
    thread = Thread(device, server).enter()
    page = thread.page
    expect(thread.composer).to_be_focused()
    page.get_by_label("Directory", exact=True).select_option(label="Another directory…")
    field, note = page.get_by_label("Its path"), page.locator(".start-note[data-kept]")
    options = page.get_by_role("listbox", name="Directories").get_by_role("option")
    expect(field).to_be_focused()
    field.fill("<B>")
    expect(options).to_have_text([re.compile(rf"<b>inner\s*on feature/one\s*{re.escape(str(inner.parent))}")])
    field.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    field.press("Enter")
    expect(field).to_have_value(f"{inner.parent}/")
    expect(options).to_contain_text([str(inner)])
    expect(note).to_contain_text(f"Branch {branch}.")  # nobody trusts it yet, so git has not counted
    field.press("Escape")
    expect(options).to_have_count(0)
    assert server.ask("GET", "/api/chats")["chats"] == []
    field.fill("/etc")
    expect(page.get_by_role("status").filter(has_text="is not below a root")).to_be_visible()
    field.fill(f"{inner.parent}")
    thread.say("hello")
    thread.confirm()
    page.get_by_role("dialog").get_by_role("button", name="Trust", exact=True).click()
    expect(thread.turn(1)).to_be_visible()
    (chat,) = until(lambda: server.ask("GET", "/api/chats")["chats"])
    assert chat["cwd"] == str(inner.parent)
    page.get_by_role("link", name="New chat", exact=True).click()
    page.get_by_label("Directory", exact=True).select_option(value=str(inner.parent))
    expect(note).to_contain_text(f"Branch {branch}, no changes.")


def test_a_conversation_of_a_terminal_goes_on(own_server: Servers, devices: Devices) -> None:
    """It is found by words of its messages and by the keyboard; its first turn resumes it, and the thread says so."""
    server = own_server()
    server.penstock("run", "quick", "Hello, fix the <b>parser</b>.")
    thread = Thread(devices(), server).enter()
    page = thread.page
    page.get_by_role("button", name="Continue from a terminal…").click()
    dialog = page.get_by_role("dialog", name="Continue from a terminal")
    rows = dialog.get_by_role("list", name="Conversations").get_by_role("listitem")
    expect(rows).to_have_count(1)
    dialog.get_by_label("Find a conversation").fill("stars")
    expect(dialog.get_by_role("status")).to_have_text("No conversation has these words.")
    dialog.get_by_label("Find a conversation").fill("PARSER")
    expect(rows).to_contain_text(["Hello, fix the <b>parser</b>."])
    rows.get_by_role("button").press("Enter")
    thread.confirm()
    origin = page.locator(".origin")
    expect(origin).to_contain_text("Continues a conversation in a terminal")
    expect(origin).to_contain_text("Hello, fix the <b>parser</b>.")
    (chat,) = until(lambda: server.ask("GET", "/api/chats")["chats"])
    assert (chat["agent"], chat["turns"], chat["has_session"]) == ("quick", 0, True)
    thread.ask("go on")
    thread.go(chat["id"])
    expect(origin).to_contain_text("What was said there is not shown.")
    page.keyboard.press("Control+k")
    page.get_by_label("Search chats and actions").fill("terminal")
    page.keyboard.press("Enter")
    expect(rows).to_contain_text(["is a chat"])


def test_the_first_page_helps_to_begin(own_server: Servers, devices: Devices) -> None:
    """Without a chat there are examples, which only fill the field; later, what was chosen before is one click."""
    server = own_server(config=_several)
    thread = Thread(devices(), server).enter()
    page = thread.page
    examples = page.get_by_role("group", name="Examples")
    examples.get_by_role("button").first.click()
    expect(thread.composer).to_have_value("Explain what this project does, and how its parts work together.")
    assert server.ask("GET", "/api/chats")["chats"] == []
    agent, level = page.get_by_label("Agent", exact=True), page.get_by_label("Permissions")
    agent.select_option("claude")
    level.select_option(label="Edits files")
    thread.composer.press("Enter")
    expect(page.locator(".turn")).to_have_count(1)
    page.get_by_role("link", name="New chat", exact=True).click()
    before = page.get_by_role("group", name="Used before")
    expect(page.locator(".labelled > span").first).to_have_text("Agent")
    expect(before).to_have_count(0)  # it is what is chosen now
    expect(examples).to_have_count(0)
    agent.select_option("opencode")
    level.select_option(label="Asks first")
    before.get_by_role("button", name="claude · shop · edits files").click()
    expect(agent).to_have_value("claude")
    expect(level.locator("option:checked")).to_have_text("Edits files")
    page.evaluate(
        "localStorage.setItem('penstock.recent', JSON.stringify({list: [7, null, {agent: 'gone', cwd: '/'}]}))"
    )
    page.reload()
    expect(page.locator(".start")).to_be_visible()
    expect(before).to_have_count(0)
