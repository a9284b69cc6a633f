"""Choice of the look of the output: when bytes are written, and whether they are coloured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Mode = Literal["full", "basic", "none"]
Color = Literal["auto", "always", "never"]
Ci = Literal["github", "gitlab"]


class Look(msgspec.Struct, frozen=True):
    """Look of the output: when bytes are written (`mode`), whether they are coloured, and for which CI service."""

    mode: Mode
    color: bool
    ci: Ci | None = None


def look(
    env: Mapping[str, str],
    *,
    is_tty: bool,
    mode: Literal["auto", "full", "basic", "none"] = "auto",
    color: Color = "auto",
    several: bool = False,
) -> Look:
    """Return the look of the output, from the options and the environment. Pure.

    Colour is decided by the flag or setting, then by `NO_COLOR`, then by `FORCE_COLOR`, then by whether the output is a
    terminal that can show it. The mode is the requested one; else `full` in a terminal, `basic` if colour is wanted
    elsewhere, and otherwise `none`. If `several` runs share an output, lines are whole, so the mode is never `full`.
    """
    colored = _colored(env, is_tty, color)
    chosen: Mode
    if mode != "auto":
        chosen = mode
    elif is_tty:
        chosen = "full"
    else:
        chosen = "basic" if colored else "none"
    if several and chosen == "full":
        chosen = "basic" if colored else "none"
    return Look(chosen, colored, ci_of(env))


def _colored(env: Mapping[str, str], is_tty: bool, color: Color) -> bool:
    if color != "auto":
        return color == "always"
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR", "0").lower() not in ("", "0", "false"):
        return True
    return is_tty and env.get("TERM") != "dumb"


def ci_of(env: Mapping[str, str]) -> Ci | None:
    """Return the CI service that runs this job; None if its log has no commands that the output has to consider."""
    if env.get("GITHUB_ACTIONS") == "true":
        return "github"
    if env.get("GITLAB_CI") == "true":
        return "gitlab"
    return None
