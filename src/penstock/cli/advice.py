"""Commands and options that `penstock run` suggests: how to continue a conversation, how to allow refused actions."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from penstock.agents.registry import AGENTS
from penstock.run.spec import OPTIONS

if TYPE_CHECKING:
    from penstock.cli.options import RunOptions


_CARRIED = ("route", "model", "effort", "mcp_config", "args", "trust")
"""Options of a run that the next prompt of its conversation needs as well. Permissions and limits are of one run, and
`--env` is left out, since it may have secrets."""


def resume_command(agent: str, cwd: str | None, session_id: str | None, options: RunOptions) -> str:
    """Return the command that continues a conversation in a directory; `session_id` None: the newest one there.

    It is "" if a value has characters that a terminal would act on.
    """
    words = ["penstock", "run", agent]
    for name in _CARRIED:
        flag, value = OPTIONS[name].flag.partition(" ")[0], options.asked[name]
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


def allow_advice(agent: str, route: str, options: RunOptions) -> str:
    """Return how actions of the agent that were refused can be allowed; "" if they all are already."""
    ways = {"default": ["--allow edits", "--allow all"], "edits": ["--allow all"]}.get(options.asked["allow"], [])
    facts = AGENTS.get(agent.partition("/")[0])
    if ways and facts is not None and "acp" in facts.routes and route == "exec":
        ways = [*ways, "--route acp to be asked"]
    return ", or ".join(ways)
