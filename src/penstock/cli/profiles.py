"""Profiles and prompt files of `penstock run`: they become options of the run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.agents import registry
from penstock.agents.registry import AGENTS
from penstock.cli.prompt_template import Template, read_template
from penstock.config.profiles import KEYS, NAME, Profile, check_trust, profile, profile_names
from penstock.config.rules import check
from penstock.errors import UsageError, nearest, shown
from penstock.run.spec import RULES

if TYPE_CHECKING:
    from penstock.cli.options import RunOptions
    from penstock.config.settings import Config

PATHS = ("schema", "mcp_config", "record")
"""Keys whose values are paths; `files` is a list of them."""
OWN_KEYS = frozenset({"agent", "prompt", "prompt_file", "fallback", "worktree"})
"""Keys that are not fields of a run."""


def with_profile(options: RunOptions, config: Config) -> RunOptions:
    """Return the options with those of the profile that they name, and with the text of the prompt file.

    Raises:
        UsageError: the profile, the file or one of the variables cannot be used.
    """
    names = profile_names(config)
    one = _chosen(options.agents, names, config) if names else None
    if one is not None:
        options = _with(options, one, config)
    if options.prompt_file is None:
        if options.variables and options.template is None:
            raise UsageError(
                "-e sets a variable of a prompt file or a profile, and there is none",
                help="--prompt-file FILE; a variable of the agent's environment is set by --env",
            )
        return options
    text = read_template(options.prompt_file)
    values = {**(one.table("variables") if one is not None else {}), **options.variables}
    return msgspec.structs.replace(options, template=Template(text, values))


def _chosen(agents: str, names: list[str], config: Config) -> Profile | None:
    """Return the profile that is named in place of an agent; None if an agent is.

    Raises:
        UsageError: the name is that of an agent too, or mistyped, or there are several.
    """
    words = [word.strip() for word in agents.split(",")]
    for word in words:
        found = profile(config, word) if word in names else None
        known = AGENTS if word in AGENTS else [*registry.names(), *config.agents()]
        is_agent = word in known
        if found is None:
            guess = None if is_agent or not NAME.fullmatch(word) else nearest(word, [*known, *names])
            if guess in names:
                raise UsageError(f"there is no agent or profile {shown(word)}", help=f"did you mean {guess!r}?")
            continue
        if is_agent:
            raise UsageError(
                f"{shown(word)} is an agent, and {found.origin} has a profile of that name", help="rename the profile"
            )
        if len(words) > 1:
            raise UsageError(
                f"{shown(word)} is a profile, and it is used alone", help="several agents can be the agent of a profile"
            )
        return found
    return None


def _with(options: RunOptions, one: Profile, config: Config) -> RunOptions:
    if one.of_project and not options.asked["trust"]:
        check_trust(one, config, AGENTS)
    agent = one.value("agent")
    if agent is None:
        raise UsageError(f"the profile {one.name} has no agent", help=f'agent = "claude" in {one.origin}')
    text, file = one.value("prompt"), one.value("prompt_file")
    if text is not None and file is not None:
        raise UsageError(f"the profile {one.name} has a prompt and a prompt file", help="leave one of them out")
    template = None
    if options.prompt_file is None and (text is not None or file is not None):
        text = read_template(_path(one, file)) if text is None else text
        template = Template(text, {**one.table("variables"), **options.variables})
    return msgspec.structs.replace(
        options,
        agents=agent,
        template=template,
        fallback=options.fallback or list(one.value("fallback") or []),
        worktree=options.worktree or bool(one.value("worktree")),
        asked=_asked(options.asked, one),
    )


def _asked(asked: dict[str, Any], one: Profile) -> dict[str, Any]:
    """Return the values of the flags. Flags override a profile; lists and variables are added to those of it."""
    merged = dict(asked)
    for key in KEYS:
        value = one.value(key)
        if key in OWN_KEYS or value is None:
            continue
        if key in PATHS:
            value = _path(one, value)
        elif key == "files":
            value = [_path(one, path) for path in value]
        check({key: value}, RULES)  # as for a flag: it may be a project's
        if isinstance(value, list):
            merged[key] = [*value, *asked[key]]
        elif asked[key] is None or (key == "allow" and asked[key] == "default"):
            merged[key] = value
    merged["env"] = {**one.table("env"), **asked["env"]}
    return merged


def _path(one: Profile, path: str) -> str:
    """Return a path of a profile: it is relative to the file that has the profile."""
    return os.path.join(one.folder, os.path.expanduser(path))
