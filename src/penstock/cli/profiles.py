"""Profiles and prompt files of `penstock run`: they become options of the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.agents import registry
from penstock.agents.registry import AGENTS
from penstock.config.profile_values import Profile, profile, profile_names
from penstock.config.profiles import FREE, KEYS, NAME
from penstock.config.rules import check
from penstock.config.run_keys import is_lower, is_smaller
from penstock.config.settings import Config
from penstock.errors import UsageError, nearest, shown
from penstock.run.prompt_template import Template, read_template
from penstock.run.spec import RULES

if TYPE_CHECKING:
    from penstock.cli.options import RunOptions

PATHS = ("schema", "mcp_config", "record")
"""Keys whose values are paths; `files` is a list of them."""
OWN_KEYS = frozenset({"agent", "prompt", "prompt_file", "fallback", "fallback_on", "worktree"})
"""Keys that are not fields of a run."""


def check_trust(one: Profile, config: Config, agents: Mapping[str, object]) -> None:
    """Check that the profile of a project grants nothing. `agents` are the agents that Penstock knows.

    Raises:
        UsageError: it does.
    """
    for key, setting in one.settings.items():
        why = distrusted(one, key, setting.value, config, agents)
        if why:
            raise UsageError(
                f"{setting.origin} {why}, and it came with the files of this project",
                expected="your confirmation that you trust these files",
                help="read it, then --trust, or make a profile of your own",
            )


def distrusted(one: Profile, key: str, value: Any, config: Config, agents: Mapping[str, object]) -> str:
    """Return in words why a key of a project's profile needs trust; "" if it needs none."""
    plain = key.partition(".")[0]
    if plain not in FREE:
        return f"sets {key} of the profile {one.name}"
    if plain == "allow" and not is_lower(value, config.allow):
        return f'sets allow = "{value}", which may be more than yours'
    if plain == "sandbox" and value != "on":
        return f'sets sandbox = "{value}"'
    if plain == "network" and not is_smaller(value, config.network):
        return f'sets network = "{value}"'
    if plain == "agent" and not all(name.strip().partition("/")[0] in agents for name in value.split(",")):
        return f"starts {value}"
    if plain == "fallback" and not all(name.partition("/")[0] in agents for name in value):
        return f"starts {', '.join(value)}"
    if plain == "prompt_file" and not _is_below(os.path.join(one.folder, value), one.folder):
        return f"reads {value}"
    return ""


def _is_below(path: str, folder: str) -> bool:
    real, place = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((real, place)) == place


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
        raise UsageError(f"the profile {one.name} has no agent", help=f"name one in {one.origin}")
    text, file = one.value("prompt"), one.value("prompt_file")
    if text is not None and file is not None:
        raise UsageError(f"the profile {one.name} has a prompt and a prompt file", help="leave one of them out")
    template = None
    if options.prompt_file is None and (text is not None or file is not None):
        text = read_template(one.path(file)) if text is None else text
        template = Template(text, {**one.table("variables"), **options.variables})
    return msgspec.structs.replace(
        options,
        agents=agent,
        template=template,
        fallback=options.fallback or list(one.value("fallback") or []),
        fallback_on=options.fallback_on or one.value("fallback_on"),
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
            value = one.path(value)
        elif key == "files":
            value = [one.path(path) for path in value]
        check({key: value}, RULES)  # as for a flag: it may be a project's
        if isinstance(value, list):
            merged[key] = [*value, *asked[key]]
        elif asked[key] is None or (key == "allow" and asked[key] == "default"):
            merged[key] = value
    merged["env"] = {**one.table("env"), **asked["env"]}
    return merged
