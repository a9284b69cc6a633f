"""Each feature of a request on each route of each agent: it reaches the agent, or the request is rejected before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.adapter import Feature, Image, JsonFile, McpConfig, McpServer, Request, checked
from penstock.agents import registry
from penstock.agents.support import FEATURES
from penstock.errors import UsageError
from penstock.run.recording import RecordingWriter

PNG = b"\x89PNG\r\n\x1a\nwalrus"
IMAGE = Image("/data/walrus.png", "image/png", PNG)
SCHEMA = JsonFile("/data/walrus.json", {"type": "object", "properties": {"walrus": {"type": "integer"}}})
SERVERS = (
    McpServer("zoo", command="walrus", args=("--fast",), env={"KEY": "k"}),
    McpServer("web", "http", url="https://walrus.example/mcp", headers={"X-Key": "k"}),
)
ASKED: dict[Feature, dict[str, Any]] = {
    "effort": {"effort": "high"},
    "system_prompt": {"system_prompt": "walrus rules"},
    "system_prompt_on_resume": {"system_prompt": "walrus rules", "session_id": "s1"},
    "images": {"images": (IMAGE,)},
    "schema": {"schema": SCHEMA},
    "mcp_config": {"mcp_config": McpConfig("/data/walrus.json", SERVERS)},
    "allow_tools": {"allow_tools": ("walrus", "Seal(a *)")},
    "deny_tools": {"deny_tools": ("walrus", "Seal(a *)")},
}
MARKS: dict[Feature, tuple[str, ...]] = {
    "effort": ("high",),
    "images": ("walrus.png", IMAGE.base64),
}
"""Texts of which one shows that the feature has reached the agent, besides `walrus`."""
ROUTES = [(name, route) for name, facts in registry.AGENTS.items() for route in facts.routes if name != "generic"]


def sent(name: str, route: str, request: Request) -> str:
    """Everything that the agent gets: its command line, its stdin, and the lines of a dialogue with it."""
    facts = registry.AGENTS[name]
    command = registry.command(name, route, request) if not facts.no_command else None
    parts = [*command.argv, command.stdin.decode()] if command is not None else []
    if route != "exec":
        dialogue = registry.load(facts.routes[route].reader)(request)
        lines = dialogue.take().decode()
        while lines:
            parts.append(lines)
            for line in lines.splitlines():
                for answer in answers(json.loads(line)):
                    assert not [update for update in dialogue.read(answer) if getattr(update, "is_error", False)]
            lines = dialogue.take().decode()
    return "\n".join(parts)


def answers(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of an agent that supports everything to one line of a dialogue."""
    id, method, path = line.get("id"), line.get("method", ""), line.get("path", "")
    if path:  # opencode
        return [] if path.endswith("prompt_async") else [{"id": id, "status": 200, "body": {"id": "ses_1"}}]
    if line.get("jsonrpc"):  # ACP
        able: dict[str, Any] = {"promptCapabilities": {"image": True}, "mcpCapabilities": {"http": True}}
        able["sessionCapabilities"] = {"resume": {}, "systemPrompt": {}}
        options = [{"id": "model", "options": []}, {"id": "effort", "category": "thought_level", "options": []}]
        asked = line.get("params", {})
        chosen = [{**it, "currentValue": asked.get("value")} for it in options if it["id"] == asked.get("configId")]
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": able},
            "session/new": {"sessionId": "s", "configOptions": options},
            "session/resume": {"configOptions": options},
            "session/set_config_option": {"configOptions": chosen},
        }
        return [{"jsonrpc": "2.0", "id": id, "result": results[method]}] if method in results else []
    if method in ("initialize", "thread/start"):  # codex
        return [{"id": id, "result": {"thread": {"id": "t"}} if method == "thread/start" else {}}]
    return []


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "route"), ROUTES)
@pytest.mark.parametrize("feature", ASKED)
def test_a_feature_arrives_or_is_rejected(name: str, route: str, feature: Feature) -> None:
    """A feature that the facts of a route name is in what the agent gets; another one is rejected, with what works."""
    facts = registry.AGENTS[name]
    request = checked(Request(prompt="hi", model="a/m", **ASKED[feature]))
    supported = facts.routes[route].supports
    if {each for each, use in FEATURES.items() if use.is_used(request)} <= set(supported):
        if not facts.no_command:
            registry.check_support(name, request, supported, route)
        marks = MARKS.get(feature, ("walrus",))
        assert any(mark in sent(name, route, request) for mark in marks)
        assert not any(mark in sent(name, route, checked(Request(prompt="hi", model="a/m"))) for mark in marks)
        return
    with pytest.raises(UsageError) as caught:
        registry.check_support(name, request, supported, route)
    assert caught.value.what.startswith(f"{name} cannot ")
    lacking = next(each for each, use in FEATURES.items() if caught.value.what.endswith(use.what(request)))
    assert works(name, caught.value.help, lacking)


TAKES_FILE = ("claude", "ccs")
"""Agents that get the path of the file with the servers on all routes, and read it themselves."""

DIALOGUES = [
    (name, route)
    for name, route in ROUTES
    if route != "exec" and name not in TAKES_FILE and "mcp_config" in registry.AGENTS[name].routes[route].supports
]


@pytest.mark.parametrize(("name", "route"), DIALOGUES)
def test_a_recording_has_no_values_of_mcp_servers(name: str, route: str, tmp_path: Path) -> None:
    """Values of variables and headers are sent to the agent, and not recorded, however short they are."""
    servers = (
        McpServer("zoo", command="walrus", env={"PLAIN": 'long "värde" 1', "SHORT": "k7"}),
        McpServer("web", "http", url="https://walrus.example/mcp", headers={"X-One": "q8", "X-Two": "Bearer abcdefgh"}),
    )
    config = McpConfig("/data/walrus.json", servers)
    lines = sent(name, route, checked(Request(prompt="hi", model="a/m", mcp_config=config))).encode()
    values = ["värde", "k7", "q8", "abcdefgh"]
    assert [value for value in values if value.encode() not in lines] == []
    writer = RecordingWriter.begin(tmp_path, agent=name, label=name, route=route, argv=[], secrets=config.secrets)
    writer.sent(lines, 0)
    recorded = (writer.folder / "sent.ndjson").read_bytes()
    assert [value for value in values if value.encode() in recorded] == []
    assert b"PLAIN" in recorded
    assert b"walrus.example" in recorded
    writer.close()


def works(name: str, help: str, feature: Feature) -> bool:
    """Whether all that the advice names has the feature: other routes of the agent, or other agents."""
    if help.startswith("use --route "):
        routes = help.removeprefix("use --route ").split(" or --route ")
        return all(feature in registry.AGENTS[name].routes[route].supports for route in routes)
    if help == FEATURES[feature].help:
        return True
    agents = [each.split(" --route ") for each in help.removeprefix("these agents can: ").split(", ")]
    return len(agents) > 0 and all(
        feature in (registry.AGENTS[agent].routes[route[0]] if route else registry.AGENTS[agent].default).supports
        for agent, *route in agents
    )


def test_every_feature_has_an_agent() -> None:
    """Each feature is supported by two agents at least: a flag for one agent alone would not be for all of them."""
    able = {
        feature: {
            name
            for name, facts in registry.AGENTS.items()
            if any(feature in route.features for route in facts.routes.values())
        }
        for feature in FEATURES
    }
    assert not [feature for feature, agents in able.items() if len(agents) < 2]


@pytest.mark.parametrize("name", [name for name, facts in registry.AGENTS.items() if facts.efforts])
def test_a_level_that_an_agent_lacks_is_rejected(name: str) -> None:
    """An agent with levels of its own is not started with another one: some would ignore it."""
    facts = registry.AGENTS[name]
    route = next(route for route, found in facts.routes.items() if "effort" in found.supports)
    with pytest.raises(UsageError, match="has no level of effort 'giant'") as caught:
        registry.command(name, route, checked(Request(prompt="hi", model="m", effort="giant")))
    assert all(level in caught.value.expected for level in facts.efforts)


def test_several_tools_are_several_flags() -> None:
    """Each tool is one flag, so that no agent splits a name at its blanks."""
    request = checked(Request(prompt="hi", allow_tools=("Bash(git *)", "Read"), deny_tools=("Write",)))
    argv = registry.command("claude", "exec", request).argv
    assert [word for word in argv if "tools" in word] == [
        "--allowed-tools=Bash(git *)",
        "--allowed-tools=Read",
        "--disallowed-tools=Write",
    ]


def test_texts_of_files_are_in_the_prompt() -> None:
    """A text goes to any agent, with its path, before the piped input."""
    from penstock.adapter import TextFile

    files = (TextFile("a.txt", "one"), TextFile("b.txt", "two\n"))
    request = checked(Request(prompt="hi", files=files, stdin_text="three"))
    assert request.prompt == (
        'hi\n\n<file path="a.txt">\none\n</file>\n\n<file path="b.txt">\ntwo\n</file>\n\n<stdin>\nthree\n</stdin>'
    )
    assert request.files == ()
