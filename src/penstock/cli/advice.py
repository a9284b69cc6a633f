"""Commands and options that `penstock run` suggests: how to continue a conversation, how to allow denied actions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.agents.registry import AGENTS
from penstock.run.spec import OPTIONS
from penstock.sinks.text.run_summary import EVERYTHING_UNASKED

if TYPE_CHECKING:
    from penstock.adapter import Level
    from penstock.agents._facts import PermissionKind
    from penstock.cli.options import RunOptions


CARRIED = ("route", "model", "effort", "mcp_config", "args", "trust")
"""Options of a run that the next prompt of its conversation needs too. Permissions and limits apply to one run only,
and `--env` is left out because it may have secrets."""


_PERMISSIONS: Mapping[PermissionKind, str] = {
    "answers": "has no tools",
    "reads": "reads only",
    "asks": "asks",
    "own": "follows its own settings",
    "edits": "edits here, more is denied",
    "all": EVERYTHING_UNASKED,
}
"""Words for what an agent may do, for the first line of its run."""


def resume_command(agent: str, cwd: str | None, session_id: str | None, asked: Mapping[str, Any]) -> str:
    """Return the command that continues a conversation in a directory; `session_id` None: the newest one there.

    `asked` has the values of the flags of the run; those in `CARRIED` are repeated. Return "" if a value has characters
    that a terminal would act on.
    """
    words = ["penstock", "run", agent]
    for name in CARRIED:
        flag, value = OPTIONS[name].flag.partition(" ")[0], asked.get(name)
        if value is True:
            words.append(flag)
        else:
            for one in value if isinstance(value, list) else [value] if value else []:
                words += [f"{flag}={one}"] if one.startswith("-") else [flag, one]
    if cwd is not None and os.path.realpath(cwd) != os.path.realpath(os.curdir):
        words += [f"--cwd={cwd}"] if cwd.startswith("-") else ["--cwd", cwd]
    words += ["-c"] if session_id is None else ["--session", session_id]
    command = shlex.join(words)
    return f'{command} "…"' if command.isprintable() else ""


def permission_words(
    agent: str, route: str, level: Level, options: RunOptions, *, can_ask: bool, is_confined: bool
) -> str:
    """Return what the agent may do in this run, in a few words; "" if its facts do not include it.

    Return "" too if arguments are passed on to the agent (`--args`), because they can change its permission. `can_ask`:
    somebody can answer the agent's questions.
    """
    facts = AGENTS.get("acp" if agent.startswith("acp:") else agent.partition("/")[0])
    levels = facts.allows.get(route, {}) if facts is not None else {}
    found = levels.get(level)
    if found is None or options.asked["args"]:
        return ""
    if level == "read" and found.kind == "reads":
        return _PERMISSIONS["reads"] if is_confined else "asked to read only"
    if found.kind == "asks":
        return "asks" if can_ask else "its questions are rejected"
    if found.kind == "edits" and "ask" in levels and can_ask:
        return "edits here, asks for more"
    return _PERMISSIONS[found.kind]


def level_words(level: Level, permission: str) -> str:
    """Return the level of a run for the line below a conversation: its name, or what the agent may do by default."""
    return permission if level == "own" and permission else f"allow {level}"


def allow_advice(agent: str, route: str, level: Level, *, can_ask: bool) -> str:
    """Return how to allow actions that the agent was denied; "" if everything is already allowed.

    `can_ask`: somebody can answer the agent's questions. To be asked is no advice for a job where nobody can.
    """
    ways = {"edits": ["--allow all"], "all": []}.get(level, ["--allow edits", "--allow all"])
    facts = AGENTS.get(agent.partition("/")[0])
    if can_ask and ways and facts is not None and facts.asking and route not in facts.asking:
        ways = [*ways, "--allow ask to be asked"]
    return ", or ".join(ways)
