"""Commands of opencode's server: when it is asked for them, and which prompts call one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import updates as up
from penstock.adapter import Image, JsonFile, Level, Request
from penstock.agents.opencode.server import AGENTS, CALL, COMMANDS, PROMPT, OpenCodeServer
from penstock.events import AgentCommand

S = "ses_1"
BUSY = {"event": {"type": "session.status", "properties": {"sessionID": S, "status": {"type": "busy"}}}}
IDLE = {"event": {"type": "session.idle", "properties": {"sessionID": S}}}
TEMPLATE = "Greetings to $ARGUMENTS"


def opened(prompt: str, allow: Level = "all", **asked: Any) -> OpenCodeServer:
    """A dialogue that has nothing to wait for before its prompt."""
    dialogue = OpenCodeServer(Request(prompt=prompt, allow=allow, **asked))
    dialogue.read({"id": 1, "status": 200, "body": {"id": S}})
    if allow not in ("all", "own"):
        dialogue.read({"id": AGENTS, "status": 200, "body": [{"name": "build", "permission": []}]})
    return dialogue


def last(dialogue: OpenCodeServer) -> dict[str, Any]:
    """The newest request; the others are forgotten."""
    request: dict[str, Any] = json.loads(dialogue.take().splitlines()[-1])
    return request


def listed(template: Any = TEMPLATE, source: str = "command") -> dict[str, Any]:
    """An answer to the request for the list."""
    greet = {"name": "greet", "description": "Greets", "template": template, "source": source}
    return {"id": COMMANDS, "status": 200, "body": [{"name": "init"}, greet]}


def test_the_list_is_asked_for_beside_the_turn() -> None:
    """A prompt waits for nothing; once its turn has begun the list is asked for, once and without templates."""
    dialogue = opened("hello /greet")
    assert last(dialogue)["path"] == f"/session/{S}/prompt_async"
    dialogue.read(BUSY)
    request = {"id": COMMANDS, "method": "GET", "path": "/command", "fields": ["name", "description"]}
    assert last(dialogue) == request
    assert dialogue.read(listed()) == (up.Commands([AgentCommand("init"), AgentCommand("greet", "Greets")]),)
    assert dialogue.read(BUSY) == ()
    assert dialogue.take() == b""


def test_a_prompt_that_calls_a_command() -> None:
    """The command gets all that follows its name, with the model, the effort and the images of the run."""
    image = Image("/d/a.png", "image/png", b"x")
    dialogue = opened("/greet  Ada\nand /all", model="p/one", effort="high", images=(image,))
    request = last(dialogue)
    assert (request["path"], request["fields"]) == ("/command", ["name", "description", "template", "source"])
    [found] = dialogue.read(listed())
    assert isinstance(found, up.Commands)
    part = {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,eA=="}
    body = {"command": "greet", "arguments": "Ada\nand /all", "parts": [part], "model": "p/one", "variant": "high"}
    path = f"/session/{S}/command"
    assert last(dialogue) == {"id": CALL, "method": "POST", "path": path, "patient": True, "body": body}
    dialogue.read(BUSY)
    assert dialogue.take() == b""


@pytest.mark.parametrize("prompt", ["/usr/bin/env is here", "/gree", "/Greet", "/", "/ greet", " /greet", "/greet:x"])
@pytest.mark.parametrize("status", [200, 500, 0])
def test_any_other_prompt_is_sent_as_it_is(prompt: str, status: int) -> None:
    """No command has its name, or there is no list, which is not an error."""
    dialogue = opened(prompt)
    request = last(dialogue)
    if request["id"] == COMMANDS:
        answer = {**listed(), "status": status} if status == 200 else {"id": COMMANDS, "status": status, "body": None}
        assert not [it for it in dialogue.read(answer) if not isinstance(it, up.Commands)]
        request = last(dialogue)
    assert (request["id"], request["path"]) == (PROMPT, f"/session/{S}/prompt_async")
    assert request["body"]["parts"] == [{"type": "text", "text": prompt}]


@pytest.mark.parametrize("allow", ["read", "ask", "edits", "own", "all"])
@pytest.mark.parametrize(
    ("prompt", "more"),
    [
        ("/greet", ["Look at !`git diff`"]),
        ("/greet !`touch x`", []),
        ("/greet `touch x`", ["Wow!$ARGUMENTS"]),
        ("/greet ! `touch x`", ["$1$2"]),
        ("/greet oh!", ["$ARGUMENTS`touch x`"]),
        ("/greet !$`", ["`touch x` $ARGUMENTS"]),
        ("/greet", [TEMPLATE, "mcp"]),
        ("/greet", [{}]),
    ],
)
def test_a_command_runs_no_shell_that_the_level_asks_about(prompt: str, more: list[Any], allow: Level) -> None:
    """Shell commands of a template and of its arguments would run unasked, so such a prompt stays a text."""
    dialogue = opened(prompt, allow)
    dialogue.take()
    notices = [it for it in dialogue.read(listed(*more)) if isinstance(it, up.Notice)]
    request = last(dialogue)
    if allow in ("own", "all"):
        assert (request["id"], notices) == (CALL, [])
        return
    assert (request["id"], request["body"]["parts"]) == (PROMPT, [{"type": "text", "text": prompt}])
    [notice] = notices
    assert notice.text.startswith("/greet is sent as a text: it may run shell commands without asking")
    assert f"--allow {allow} " in notice.text


def test_arguments_that_are_only_words() -> None:
    """A sign in them is no shell command."""
    dialogue = opened("/greet Ada! Look at `x` for $5.", "read")
    dialogue.read(listed())
    assert last(dialogue)["id"] == PROMPT  # both signs, in one text
    for prompt in ("/greet Ada!", "/greet `x`, $5"):
        dialogue = opened(prompt, "read")
        dialogue.read(listed())
        assert last(dialogue)["id"] == CALL


@pytest.mark.parametrize("asked", [{"system_prompt": "Be brief."}, {"schema": JsonFile("/s.json", {"type": "object"})}])
def test_what_a_call_cannot_have(asked: dict[str, Any]) -> None:
    """A system prompt and a schema are not dropped for a command."""
    dialogue = opened("/greet Ada", **asked)
    dialogue.take()
    [notice] = [it for it in dialogue.read(listed()) if isinstance(it, up.Notice)]
    assert "sent as a text" in notice.text
    assert last(dialogue)["id"] == PROMPT


def test_a_call_that_fails() -> None:
    """Before the turn it is the end of the run; once the turn has begun, its events report its end."""
    failed = {"id": CALL, "status": 400, "body": {"name": "BadRequest", "data": {"message": "no such agent"}}}
    dialogue = opened("/greet")
    dialogue.read(listed())
    [result] = dialogue.read(failed)
    assert isinstance(result, up.Result)
    assert (result.is_error, dialogue.over) == (True, True)
    dialogue = opened("/greet")
    for line in (listed(), BUSY):
        dialogue.read(line)
    assert dialogue.read(failed) == ()
    assert not dialogue.over
    assert isinstance(dialogue.read(IDLE)[-1], up.Result)


def test_a_run_that_is_cancelled_asks_for_no_list() -> None:
    """The turn is aborted as soon as it has begun."""
    dialogue = opened("hello")
    assert dialogue.cancel()
    dialogue.read(BUSY)
    assert last(dialogue)["path"] == f"/session/{S}/abort"
