"""A real agent, chatted with in a real browser: page, server, agent and model server are all there is, and all real.

With `make test-chat`, which sets `PENSTOCK_CHAT` as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

if not os.environ.get("PENSTOCK_CHAT"):
    pytest.skip("PENSTOCK_CHAT=1 runs the tests of the page in a browser: make test-chat", allow_module_level=True)

import scenarios
from chatpage.device import CUT, chromium, device
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from install import NotInstalled
from playwright.sync_api import expect
from setups import KEPT, Bench, Target, bench

AGENT, ASKING = Target("pi", "exec"), Target("claude", "server")


class Stage(NamedTuple):
    """The page at its beginning, and all behind it."""

    thread: Thread
    server: Server
    at: Bench


@pytest.fixture(params=[AGENT])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A browser that is signed in to a server which finds one real agent, and that agent its model."""
    with ExitStack() as stack:
        try:
            at = stack.enter_context(bench(request.param, tmp_path))
        except NotInstalled as error:
            pytest.skip(str(error))
        config = tmp_path / "penstock.toml"
        config.touch()
        # The agents of a server get no variable that was not named.
        flags = [f"--env={name}" for name in at.env if name not in (*KEPT, "PATH", "HOME")]
        server = Server(tmp_path / "serve", config, env=at.env, root=at.folder, flags=flags)
        stack.callback(server.end)
        opened = stack.enter_context(device(stack.enter_context(chromium())))
        yield Stage(Thread(opened, server).enter(), server, at)


def test_a_real_agent_in_a_real_browser(stage: Stage) -> None:
    """Rounds of tools end in one message and a record, a reply is seen as it is written, a restart does no harm."""
    thread, page, model = stage.thread, stage.thread.page, stage.at.server
    thread.device.allow(CUT, "status of 503")  # the restart
    page.get_by_label("Agent").select_option(AGENT.name)
    page.get_by_label("Permissions").select_option(label="Does everything")
    thread.say("scenario=tools please")
    thread.ended(1)
    assert thread.words(1).strip() == scenarios.texts("tools")[-1].replace("`", "")
    assert (stage.at.folder / "notes.txt").read_text("utf-8").rstrip("\n") == scenarios.NOTES.rstrip("\n")
    statuses = [line for sample in thread.of(1) for line in sample.status]
    assert "Working…" in statuses
    assert all(len(sample.replies) <= 1 and len(sample.status) <= 1 for sample in thread.of(1))

    model.close_gate()
    thread.say("scenario=slow now")
    thread.writes(2, scenarios.FIRST_HALF.strip())
    assert scenarios.SECOND_HALF not in thread.words(2)
    model.gate.set()
    thread.ended(2)
    assert thread.words(2).strip() == (scenarios.FIRST_HALF + scenarios.SECOND_HALF).strip()

    stage.server.restart()
    thread.say("scenario=history please")
    thread.ended(3)
    assert thread.words(3).strip() == scenarios.history(["tools", "slow", "history"])

    thread.turn(1).locator(".to-record").press("Enter")
    expect(page.locator("[data-kind=call]")).to_have_count(2, timeout=PATIENCE)
    expect(page.locator("[data-kind=text]")).to_contain_text(["I will look", "Now I write", "All done"])


@pytest.mark.parametrize("stage", [ASKING], indirect=True)
def test_real_claude_asks_before_it_writes(stage: Stage) -> None:
    """With all defaults the question has the diff; what is rejected is not done, is marked, and stays so."""
    thread, page, notes = stage.thread, stage.thread.page, stage.at.folder / "notes.txt"
    before = sorted(path.name for path in stage.at.folder.iterdir())
    page.get_by_label("Agent").select_option("claude")
    expect(page.locator(".start-note")).to_contain_text("It asks you before it changes a file")
    thread.say("scenario=tools please")
    hint = thread.turn(1).locator(".hint")
    expect(hint.locator(".diff-title")).to_have_text("new file notes.txt")
    expect(hint.locator("[data-line=added]")).to_have_count(2)
    assert not notes.exists()
    hint.locator("[data-kind=reject_once]").click()
    thread.ended(1)
    expect(thread.turn(1).locator(".refused")).to_contain_text("You rejected notes.txt.")
    expect(thread.turn(1).locator(".refused button")).to_have_count(0)
    assert sorted(path.name for path in stage.at.folder.iterdir()) == before

    thread.button("Chat menu").click()
    page.get_by_role("menuitem", name="Rename and settings").click()
    page.get_by_role("dialog").get_by_label("Edits files").check()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    thread.say("scenario=tools please")
    thread.ended(2)
    assert notes.read_text("utf-8").rstrip("\n") == scenarios.NOTES.rstrip("\n")
    expect(thread.page.locator(".hint")).to_have_count(0)
    expect(thread.turn(2).locator(".refused")).to_have_count(0)


@pytest.mark.parametrize("stage", [ASKING], indirect=True)
def test_real_claude_is_always_allowed(stage: Stage) -> None:
    """An answer for always lets it write, and writes nothing else into the project."""
    thread, page = stage.thread, stage.thread.page
    before = {path.name for path in stage.at.folder.iterdir()}
    page.get_by_label("Agent").select_option("claude")
    thread.say("scenario=tools please")
    thread.turn(1).locator(".hint [data-kind=allow_always]").click()
    thread.ended(1)
    assert {path.name for path in stage.at.folder.iterdir()} == before | {"notes.txt"}
    expect(thread.turn(1).locator(".refused")).to_have_count(0)
