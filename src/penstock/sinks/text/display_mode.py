"""Choice of the look of the output: when bytes are written, and whether they are coloured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Mode = Literal["full", "basic", "none"]
Color = Literal["auto", "always", "never"]
Ci = Literal["github", "gitlab"]
Render = Literal["auto", "on", "off"]

_LINKING_VARIABLES = ("KITTY_WINDOW_ID", "WEZTERM_PANE", "WT_SESSION", "GHOSTTY_RESOURCES_DIR", "KONSOLE_VERSION")
_LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "rio", "Tabby")
_LINKING_TERMS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "foot-extra", "wezterm")
_FIRST_LINKING_VTE = 5000  # GNOME's terminal and others


class Look(msgspec.Struct, frozen=True):
    """Look of the output: when bytes are written (`mode`), whether they are coloured, and for which CI service.

    `render` and `hyperlinks` are for Markdown: how it is rendered, and whether the terminal is known to show links.
    """

    mode: Mode
    color: bool
    ci: Ci | None = None
    render: Render = "off"
    hyperlinks: bool = False


def look(
    env: Mapping[str, str],
    *,
    is_tty: bool,
    mode: Literal["auto", "full", "basic", "none"] = "auto",
    color: Color = "auto",
    render: Render = "off",
    several: bool = False,
) -> Look:
    """Return the look of the output, from the options and the environment. Pure.

    Colour is decided by the flag or setting, then by `NO_COLOR`, then by `FORCE_COLOR`, then by whether the output is a
    terminal that can show it. The mode is the requested one; else `full` in a terminal, `basic` if colour is wanted
    elsewhere, and otherwise `none`. If `several` runs share an output, lines are whole, so the mode is never `full`.
    Markdown is rendered in a terminal with colours only.
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
    can_render = is_tty and colored and chosen != "none" and env.get("TERM") != "dumb"
    rendered = render if can_render else "off"
    return Look(chosen, colored, ci_of(env), rendered, hyperlinks=rendered == "on" and _has_hyperlinks(env))


def _has_hyperlinks(env: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to show hyperlinks. A multiplexer in between may not pass them on."""
    term = env.get("TERM", "")
    if env.get("TMUX") or env.get("STY") or term.startswith(("screen", "tmux")):
        return False
    vte = env.get("VTE_VERSION", "")
    return (
        term in _LINKING_TERMS
        or env.get("TERM_PROGRAM", "") in _LINKING_PROGRAMS
        or any(env.get(name) for name in _LINKING_VARIABLES)
        or (vte.isascii() and vte.isdigit() and int(vte) >= _FIRST_LINKING_VTE)
    )


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
