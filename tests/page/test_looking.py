"""What one sees of an agent at work, if one asks: the output of its command as it comes, and its plan."""

from __future__ import annotations

import re
from collections.abc import Callable

from chatpage.device import NARROW
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect

NUMBER = re.compile(r"line (\d+) <b>red\n?$")


def test_output_and_plan_are_shown_when_asked_for(workshop: Callable[..., Thread]) -> None:
    """The quiet line opens the output of the command, which grows; the plan says how far it is, and has its items."""
    thread = workshop("peer")
    thread.hide(["make all", "line 1", "Read it", "Test it"])
    thread.say("build")
    turn = thread.turn(1)
    plan = turn.get_by_role("button", name="Plan: 1 of 3")
    expect(plan).to_have_attribute("aria-expanded", "false", timeout=PATIENCE)
    expect(thread.status(1)).to_have_text("Running a command…")
    assert thread.leaks() == [], "nothing of the agent's is there before one asks"
    plan.focus()
    thread.page.keyboard.press("Enter")
    expect(turn.locator(".plan li")).to_have_text(
        ["completed: Read it", "in progress: Build <b>it</b>", "pending: Test it"]
    )
    turn.get_by_role("button", name="Running a command…").click()
    command = turn.get_by_role("region", name="Command")
    expect(command.locator(".call-title")).to_have_text("make all")
    output = command.get_by_label("Output")
    expect(output).to_have_text(NUMBER, timeout=PATIENCE)
    before = int(NUMBER.findall(output.inner_text().rstrip())[0])
    expect(output).not_to_have_text(re.compile(rf"line {before} <b>red\n?$"), timeout=PATIENCE)
    expect(turn.locator("b, img")).to_have_count(0)
    at_end = "it => it.scrollHeight > it.clientHeight && it.scrollTop + it.clientHeight > it.scrollHeight - 2"
    thread.page.wait_for_function(f"({at_end})(document.querySelector('.now pre'))")
    output.evaluate("it => { it.scrollTop = 0 }")
    thread.page.wait_for_timeout(1500)
    assert output.evaluate("it => it.scrollTop") == 0, "who reads further up stays there"
    thread.button("Stop").click()
    thread.ended(1, "cancelled")
    expect(turn.locator(".now, .plan-now, .opener")).to_have_count(0)


def test_output_on_a_phone(workshop: Callable[..., Thread]) -> None:
    """Nothing is wider than the screen, and what cannot be asked for says why."""
    thread = workshop("peer", viewport=NARROW)
    thread.say("build")
    thread.turn(1).get_by_role("button", name="Plan: 1 of 3").click()
    thread.turn(1).get_by_role("button", name="Running a command…").click()
    expect(thread.turn(1).get_by_label("Output")).to_contain_text("line 9", timeout=PATIENCE)
    assert thread.page.evaluate("document.querySelector('.thread').scrollWidth") <= NARROW["width"]
    thread.device.allow("status of 503")
    problem = '{"code": "unavailable", "detail": "the disk is full"}'
    thread.page.route("**/activity", lambda route: route.fulfill(status=503, body=problem))
    expect(thread.turn(1).get_by_role("alert")).to_contain_text("The disk is full", timeout=PATIENCE)
    thread.page.unroute("**/activity")
    expect(thread.turn(1).get_by_role("alert")).to_have_count(0, timeout=PATIENCE)
