"""The decision about the look of the output: when bytes leave, and whether they are coloured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Mode = Literal["full", "basic", "none"]
Color = Literal["auto", "always", "never"]
Ci = Literal["github", "gitlab"]


class Look(msgspec.Struct, frozen=True):
    """When bytes leave (`mode`), whether they are coloured, and whose rules for log lines hold."""

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
    """The look of the output, from what was asked for and what is there. Pure.

    Colour: the flag or setting, then `NO_COLOR`, then `FORCE_COLOR`, then whether a terminal is there that
    can show it. Mode: what was asked for; `full` in a terminal, `basic` where colour is wanted elsewhere, else
    `none`. Where `several` runs share an output, lines are whole, so `full` is never.
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
    """Return the CI service that runs this job, if it is one whose commands the output has to respect."""
    if env.get("GITHUB_ACTIONS") == "true":
        return "github"
    if env.get("GITLAB_CI") == "true":
        return "gitlab"
    return None
