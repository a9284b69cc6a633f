"""A loop: a repository that agents work on, in a tree of its own, until checks and reviewers find the work done.

All rules are pure functions of the journal: `fold` and `next`. Nothing here shows a loop; `cli/loop` does. Programs use
`Loop` with `Settings`, `RoleAgents` and `LoopBudget`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.loop.api import Loop as Loop
    from penstock.loop.api import LoopResult as LoopResult
    from penstock.loop.rows import LoopBudget as LoopBudget
    from penstock.loop.rows import RoleAgents as RoleAgents
    from penstock.loop.rows import Settings as Settings

_HOME = {"Loop": "api", "LoopResult": "api", "LoopBudget": "rows", "RoleAgents": "rows", "Settings": "rows"}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.loop' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"penstock.loop.{home}"), name)
    return found
