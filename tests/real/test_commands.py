"""Commands of the real agents: they list them, and a prompt that begins with one calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playing import play

from penstock.events import AgentCommand, CommandsChanged, RunStarted

if TYPE_CHECKING:
    from setups import Bench

ONLY = (
    "claude-exec",
    "claude-server",
    "claude-acp",
    "qwen-exec",
    "qwen-acp",
    "opencode-acp",
    "codex-acp",
    "codex-server",
    "pi-server",
    "opencode-server",
)
"""Targets that these tests are for."""
FILES = {
    "claude": (
        ".claude/commands/greet.md",
        "---\ndescription: Greet somebody\nargument-hint: name\n---\n{}$ARGUMENTS\n",
    ),
    "codex": (".agents/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greet somebody\n---\n{}whom it says\n"),
    "opencode": (".opencode/command/greet.md", "---\ndescription: Greet somebody\n---\n{}$ARGUMENTS\n"),
    "pi": ("../home/.pi/agent/prompts/greet.md", "---\ndescription: Greet somebody\n---\n{}$ARGUMENTS\n"),
    "qwen": (".qwen/commands/greet.md", "---\ndescription: Greet somebody\n---\n{}{{{{args}}}}\n"),
}
"""Commands of a project, by agent: the file, and its text with a place for what it asks for. That of pi is the user's:
pi reads those of a project only if a person has trusted it."""
SKILLS = {"codex-server": "$greet"}
"""Name of the command where it is a skill: the model gets the text of the skill and the prompt as it was sent."""
OWN = {"codex-acp": "review"}
"""Command of a target that is not asked for one of the project."""

TRIES = 5
"""Turns after which a list has come once: qwen over ACP collects it beside its first answer, which may end before."""


def test_the_agent_lists_its_commands(at: Bench) -> None:
    """The list follows the start, and has the command of the project; calling it, the model gets its text."""
    target = str(at.target)
    own = FILES[at.target.agent] if target not in OWN else None
    if own is not None:
        file = at.folder / own[0]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(own[1].format("scenario=text Greetings to "))
    for _ in range(TRIES):
        played = play(at, "scenario=tools please")
        assert played.result.outcome == "ok"
        lists = [event.commands for event in played.events if isinstance(event, CommandsChanged)]
        if lists:
            break
    assert lists
    kinds = [type(event) for event in played.events]
    assert kinds.index(RunStarted) < kinds.index(CommandsChanged)
    found = {command.name: command for command in lists[-1]}
    if own is None:
        assert found[OWN[target]].description
        return
    name = SKILLS.get(target, "greet")
    greet = found[name]
    described = ("", "Greet somebody") if at.target.route == "exec" else ("Greet somebody",)
    assert isinstance(greet, AgentCommand)
    assert greet.description.removesuffix(" (project)") in described
    called = play(at, f"/{name} Ada Lovelace")
    assert called.result.outcome == "ok"
    sent = "Greetings to whom it says" if target in SKILLS else "Greetings to Ada Lovelace"
    assert any(sent in text for it in called.conversation for text in it.prompts)
