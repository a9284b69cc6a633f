"""The permission of a run ends with it: nothing of it is left in the agent's own files, nor in the conversation."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playing import Played
    from setups import Bench

from effort import at_most
from playing import play

from penstock.agents.registry import AGENTS

_CLAUDE = tuple(
    f".claude/{name}" for name in ("projects/*", "sessions/*", "shell-snapshots/*", "plugins/store/*", ".last-cleanup")
)
MAY_CHANGE = {
    "claude": _CLAUDE,
    "ccs": (*_CLAUDE, ".cache/*", ".ccs/logs/*"),
    "codex": (
        ".codex/*.sqlite*",
        ".codex/sessions/*",
        ".codex/shell_snapshots/*",
        ".codex/tmp/*",
        ".codex/.tmp/*",
        ".codex/session_index*",
    ),
    "gemini": (".gemini/tmp/*",),
    "opencode": (".local/*", ".cache/*"),
    "kilo": (".local/*", ".cache/*"),
    "qwen": (".qwen/projects/*", ".qwen/debug/*", ".qwen/tmp/*", ".qwen/usage/*", ".qwen/usage_record*"),
    "copilot": (".copilot/session-*", ".copilot/logs/*", ".cache/*"),
    "pi": (".pi/agent/sessions/*",),
    "kimi": (".kimi-code/[!c]*", ".cache/*"),
    "goose": (".local/share/goose/*", ".local/state/goose/*"),
    "vibe": (".vibe/logs/*", ".vibe/*cache*", ".vibe/vibehistory", ".vibe/projects.toml", ".cache/*"),
    "droid": tuple(
        f".factory/{name}*"
        for name in (
            *("bin", "cache", "certs", "host", "logs", "missions", "repl-runs", "sessions", "state"),
            *("plugins/sync_stamp", "telemetry", "temp"),
        )
    ),
    "cline": tuple(f".cline/data/{name}/*" for name in ("db", "locks", "logs", "sessions", "tasks")),
}
"""What each agent may change below its home: conversations, caches, logs, counters. `*` matches folders too."""
TIMES = re.compile(rb'"updatedAt": "[^"]*"')
"""Time of a login's last use, which cline writes beside it."""
NOTES = "notes.txt"


def configuration(at: Bench) -> dict[str, bytes]:
    """The files below the agent's home that are its configuration, by their names."""
    home = at.folder.parent / "home"
    names = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    kept = (name for name in names if not any(fnmatch(name, pattern) for pattern in MAY_CHANGE[at.target.agent]))
    return {name: TIMES.sub(b"", (home / name).read_bytes()) for name in sorted(kept)}


def writes(at: Bench, played: Played) -> bool:
    """Whether the run has written the file."""
    notes = at.folder / NOTES
    is_there = notes.exists()
    notes.unlink(missing_ok=True)
    return is_there


def test_a_permission_ends_with_its_run(at: Bench) -> None:
    """After a run of each level the agent's configuration is as before, and after one that may do all, less is allowed.

    In a new conversation, in the same one and in a branch of it, where questions are rejected as nobody is there.
    A soak runs the other levels too.
    """
    agent, route = at.target.agent, at.target.route
    subprocess.run(["git", "init", "-q"], cwd=at.folder, check=True)
    prompt = "scenario=tools please"
    unasked = writes(at, play(at, prompt, allow="default"))  # some agents always write
    before = configuration(at)
    assert before
    features = AGENTS[agent].routes[route].features
    ran = None
    levels = sorted(AGENTS[agent].allows[route], key="all".__eq__)  # "all" at the end
    for level in levels[-at_most(1, len(levels)) :]:
        ran = play(at, prompt, allow=level)
        assert writes(at, ran) or level != "all"
        assert configuration(at) == before, level
    assert ran is not None
    known = {"session_id": ran.result.session_id}
    again: list[dict[str, Any]] = [{}]
    again += [known] if "resume" in features else []
    again += [{**known, "fork": True}] if "fork" in features else []
    for of_run in again:
        assert writes(at, play(at, prompt, allow="default", **of_run)) == unasked, of_run
    assert configuration(at) == before
