"""Launch plan of a run, made of a name and a request: the route, the program and the configuration that apply."""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Mapping
from functools import partial
from shutil import which
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.adapter import (
    Command,
    Feature,
    Level,
    Request,
    Startable,
    Supporting,
    as_argument,
    checked,
    encoded,
    unsupported,
)
from penstock.agents import registry
from penstock.config.command_rules import CommandRules
from penstock.config.data import data_path
from penstock.errors import AgentNotFound, ConfigError, UsageError, shown
from penstock.run.directory import stays_inside
from penstock.run.inputs import request_of
from penstock.run.levels import with_level
from penstock.run.network import environment
from penstock.run.planted import settle
from penstock.run.sandbox import Confinement, automatic

if TYPE_CHECKING:
    from penstock.adapter import Adapter
    from penstock.config.settings import AgentConfig, Config, Setting
    from penstock.run.spec import RunSpec

ACP = "acp:"
"""Prefix of an agent's name: `acp:COMMAND` names any program that supports ACP."""
ADAPTER_FEATURES: tuple[Feature, ...] = ("resume", "fork", "edits", "args")
"""Features that reach an adapter of a third party which does not say what it supports; it rejects what it lacks."""
COMMAND_FEATURES: tuple[Feature, ...] = (
    "resume", "edits", "args", "effort", "system_prompt", "system_prompt_on_resume", "schema", "mcp_config",
)  # fmt: skip
"""Features of a configured command, if it has the placeholders."""


class Launch(msgspec.Struct):
    """Everything that is needed to start one run. Nothing has been started."""

    agent: str
    label: str
    route: str
    reader: Any
    """Adapter or dialogue that reads this run; it is used once."""
    command: Command
    """Command line; `argv[0]` is an absolute path."""
    env: dict[str, str]
    """Whole environment of the agent."""
    cwd: str
    mark: str
    """Value of `PENSTOCK_RUN` in the environment of its processes."""
    rules: CommandRules = CommandRules()
    """Rules for the commands that the agent asks to run."""
    allow: Level = "own"
    """Level of permission in force."""
    number: int | None = None
    provider: str | None = None
    """Provider of the agent's models; None if unknown."""
    secrets: tuple[str, ...] = ()
    """Values that no recording contains: those of the variables and the headers of MCP servers."""
    confinement: Confinement = Confinement()
    has_next_turn: bool = False
    """Whether the agent is known to begin another turn after results of tools."""


def plan(spec: RunSpec, config: Config) -> Launch:
    """Return the launch plan of a run.

    The spec's `env` overrides its `environ`, which is by default the environment of this process; its `command` and
    `adapter` override the configuration. The label is that of the spec, else the configured one, else the name.

    Raises:
        UsageError: the agent is not known, cannot do what is asked, or a value of the spec is not usable.
        AgentNotFound: its program is not installed.
    """
    name, cwd = spec.agent, _directory(spec.cwd)
    request = msgspec.structs.replace(checked(request_of(spec)), cwd=cwd, stays_inside=partial(stays_inside, cwd))
    own = config.agent(name)
    if not spec.trust:
        _trusted(name, config)
    facts = registry.AGENTS.get(name.partition("/")[0])
    asked = config.allow if spec.allow == "default" else spec.allow
    level, route = with_level(facts, asked, request, spec.route, can_answer=spec.ask)
    request = msgspec.structs.replace(request, allow=level)
    if spec.command is not None:
        own = msgspec.structs.replace(own, command=list(spec.command), adapter=spec.adapter or own.adapter)
    if name.startswith(ACP):
        words = _words(name)
        registry.check_support(name, request, _acp_features())
        chosen, reader, start = "acp", registry.load("acp.dialogue:Acp")(request), Command(argv=(*words, *request.args))
        agent = os.path.basename(words[0])
    elif own.command is not None and name.partition("/")[0] not in registry.AGENTS:
        agent = name
        chosen, reader, start = _configured(name, own, request)
    else:
        agent, chosen, reader, start = _known(name, own, request, route)
    given = os.environ if spec.environ is None else spec.environ
    inherited = {variable: value for variable, value in given.items() if variable not in start.unset}
    # Some programs, some agents among them, trust PWD more than their real directory. So it is set, as a shell does.
    inherited["PWD"] = cwd
    whole = {**inherited, **start.env, **own.env, **spec.env}
    at = start.program
    program = _found(agent, start.argv[at], whole, cwd)
    confinement = _confinement(agent, program, whole, level, request, spec, config)
    return Launch(
        agent=agent,
        label=spec.label or own.label or (agent if name.startswith(ACP) else name),
        route=chosen,
        reader=reader,
        command=msgspec.structs.replace(start, argv=(*start.argv[:at], program, *start.argv[at + 1 :])),
        env=whole if confinement.reach is None else environment(confinement.reach, whole),
        cwd=cwd,
        mark=uuid.uuid4().hex,
        allow=level,
        confinement=confinement,
        rules=config.command_rules,
        provider=facts.provider if facts is not None else None,
        number=spec.number,
        secrets=request.mcp_config.secrets if request.mcp_config is not None else (),
        has_next_turn=_has_next_turn(agent, chosen, request),
    )


def _confinement(
    agent: str,
    program: str,
    env: Mapping[str, str],
    level: Level,
    request: Request,
    spec: RunSpec,
    config: Config,
) -> Confinement:
    """Return the confinement of a run.

    Raises:
        UsageError: it was asked for and is not possible.
    """
    facts = registry.AGENTS.get(agent.partition("/")[0])
    sandbox = spec.sandbox or config.sandbox
    network = spec.network or config.network
    mode = automatic(facts, level, spec.surroundings) if sandbox == "auto" else sandbox
    if network != "all":
        if sandbox in ("own", "off"):
            what = f"the network of a run is restricted with --sandbox on alone, and this one has {sandbox}"
            raise UsageError(what, help="leave --sandbox out, or use --network all")
        mode = "on"
    settle(str(data_path()))  # before an agent, confined or not, obeys what a killed run has left
    if mode == "off":
        return Confinement()
    from penstock.run.confine import ToConfine, confined  # imported if a run may be confined

    run = ToConfine(
        agent=agent,
        facts=facts,
        program=program,
        env=env,
        cwd=request.cwd or os.curdir,
        files=(*spec.files, *filter(None, (spec.schema, spec.mcp_config))),
        allow=level,
        allow_tools=request.allow_tools,
        surroundings=spec.surroundings,
        network=network,
        hosts=(*config.network_hosts, *spec.network_hosts),
        tmpfs_bytes=config.sandbox_tmpfs_bytes,
        urls=tuple(server.url for server in request.mcp_config.servers) if request.mcp_config is not None else (),
    )
    return confined(run, mode, is_asked=sandbox != "auto" or network != "all")


def _has_next_turn(agent: str, route: str, request: Request) -> bool:
    """Return whether each result of a tool is followed by another turn.

    With a schema it may not be: some agents reply by a tool. If an agent has a limit of its own, that one counts.
    """
    facts = registry.AGENTS.get(agent.partition("/")[0])
    known = facts.routes.get(route) if facts is not None else None
    return known is not None and "max_turns" not in known.limit_flags and request.schema is None


def features_of(name: str, route: str | None, config: Config, *, ask: bool = False) -> frozenset[Feature]:
    """Return what an agent supports on a route; None: the route that a run without a choice uses.

    Raises:
        UsageError: there is no such agent or route.
    """
    own = config.agent(name)
    entry = registry.AGENTS.get(name.partition("/")[0])
    if entry is not None:
        chosen = route or entry.default_name(can_answer=ask)
        if chosen not in entry.routes:
            raise UsageError(f"{name} has no route {chosen!r}", expected="one of " + ", ".join(entry.routes))
        return entry.routes[chosen].features
    if name.startswith(ACP) or (own.command is not None and own.protocol == "acp"):
        return _acp_features()
    if own.command is not None:
        return frozenset((*COMMAND_FEATURES, *_counted(own.adapter)))
    return _third_party_features(registry.reader(name))


def _directory(cwd: str | None) -> str:
    """Return the agent's working directory as an absolute path.

    Raises:
        UsageError: there is no such directory.
    """
    try:
        if cwd is None or os.path.isdir(cwd):
            return os.path.abspath(cwd or os.curdir)
    except FileNotFoundError:
        what, expected = "the current directory was removed", "one that is there"
        raise UsageError(what, expected=expected, help="go to another one with cd") from None
    raise UsageError(f"there is no directory {shown(cwd)}", expected="cwd to be the directory that the agent works in")


def project_setting(name: str, config: Config) -> Setting | None:
    """Return the setting of the project's own file that sets how this agent is started, which requires trust."""
    for path, setting in config.settings.items():
        if path[:2] == ("agents", name) and path[2] in ("command", "env", "protocol") and setting.of_project:
            return setting
    return None


def _trusted(name: str, config: Config) -> None:
    """Check that no file of the project sets how this agent is started.

    Raises:
        UsageError: a file of the project does.
    """
    setting = project_setting(name, config)
    if setting is not None:
        raise UsageError(
            f"{setting.origin} says how {name} is started, and it came with the files of this project",
            expected="your confirmation that you trust these files",
            help="read it, then --trust, or move it to your own configuration (penstock config shows where)",
        )


def _words(name: str) -> list[str]:
    try:
        words = shlex.split(name[len(ACP) :])
    except ValueError as error:
        raise UsageError(f"{name!r} is not a command line: {error}") from error
    if not words:
        raise UsageError("acp: needs a command", expected="a program that speaks ACP", help="e.g. acp:'PROGRAM --acp'")
    return words


def _known(name: str, own: AgentConfig, request: Request, route: str | None) -> tuple[str, str, Adapter, Command]:
    """Return an agent of the registry; its configured `command` replaces its program."""
    base, slash, profile = name.partition("/")
    entry = registry.AGENTS.get(base)
    if entry is None:
        return _third_party(name, own, request, route)
    if entry.no_command:
        raise UsageError(f"{base} has no command of its own", help=entry.no_command)
    chosen = route or entry.default_name(can_answer=False)
    found = entry.routes.get(chosen)
    if found is None:
        raise UsageError(f"{base} has no route {chosen!r}", expected="one of " + ", ".join(entry.routes))
    if found.longest is not None:
        found.longest.check(base, request.prompt)
    if slash:
        request = msgspec.structs.replace(request, profile=profile)
    command = registry.command(base, chosen, request)
    if own.command is not None:
        at = command.program
        words = (*command.argv[:at], *own.command, *command.argv[at + 1 :])
        command = msgspec.structs.replace(command, argv=words)
    if chosen != "exec":
        return base, chosen, registry.load(found.reader)(request), command
    return base, chosen, registry.make(base, is_resumed=request.session_id is not None), command


def _third_party(name: str, own: AgentConfig, request: Request, route: str | None) -> tuple[str, str, Adapter, Command]:
    """Return an agent that an entry point provides."""
    cls: Any = registry.reader(name)
    if not isinstance(cls, Startable):
        raise unsupported(name, "be started: its adapter has no command", can=f"pipe it: … | penstock --agent {name}")
    if route not in (None, "exec"):
        raise UsageError(f"{name} has no route {route!r}", expected="exec")
    registry.check_support(name, request, _third_party_features(cls))
    return name, "exec", registry.make(name), cls.command(request)


def _third_party_features(cls: Any) -> frozenset[Feature]:
    return frozenset(cls.supports if isinstance(cls, Supporting) else ADAPTER_FEATURES)


def _acp_features() -> frozenset[Feature]:
    return registry.AGENTS["acp"].routes["acp"].features


def _configured(name: str, own: AgentConfig, request: Request) -> tuple[str, Adapter, Command]:
    """Return an agent that only the configuration defines."""
    assert own.command is not None
    if own.protocol is not None and own.protocol != "acp":
        raise ConfigError(f"[agents.{name}] protocol is {own.protocol!r}", expected='"acp"')
    if own.protocol == "acp":
        registry.check_support(name, request, _acp_features())
        return "acp", registry.load("acp.dialogue:Acp")(request), Command(argv=(*own.command, *request.args))
    from penstock.agents.generic.adapter import Generic

    is_resumed = request.session_id is not None
    adapter = registry.make(own.adapter, is_resumed=is_resumed) if own.adapter else Generic(own.events)
    return "exec", adapter, filled(name, own, request)


def _counted(adapter: str | None) -> tuple[Feature, ...]:
    """Return the limits that Penstock can count in what a command of the user prints."""
    base, _, route = (adapter or "").partition("/")
    facts = registry.AGENTS.get(base)
    found = facts.routes.get(route or "exec") if facts is not None else None
    return found.counts if found is not None else ()


def filled(name: str, own: AgentConfig, request: Request) -> Command:
    """Return a configured command line with its placeholders filled: `{prompt}` and those of `_values`.

    Without a placeholder the prompt goes to stdin, or, if so configured, after `--`.

    Raises:
        UsageError: there is no placeholder for a part of the request.
    """
    words = list(own.command or ())
    for place, value in _values(request).items():
        if value is None:  # a word with a placeholder that the request does not fill is left out
            words = [word for word in words if place not in word]
        elif not any(place in word for word in words):
            raise unsupported(name, f"be given {_PLACES[place]}", can=f"put {place} into its command")
        else:
            words = [word.replace(place, value) for word in words]
    registry.check_support(name, request, (*COMMAND_FEATURES, *_counted(own.adapter)))
    at = next((number for number, word in enumerate(words) if "{prompt}" in word), None)
    if at is None and own.prompt != "argument":
        return Command(argv=(*words, *request.args), stdin=encoded(request.prompt))
    prompt = as_argument(name, request.prompt)
    if at is None:
        return Command(argv=(*words, *request.args, "--", prompt))
    if words[at].startswith("{prompt}") and prompt.startswith("-") and "--" not in words[:at]:
        raise unsupported(name, "take a prompt that begins with '-'", can="put '--' before {prompt} in its command")
    return Command(argv=(*words[:at], *request.args, words[at].replace("{prompt}", prompt), *words[at + 1 :]))


_PLACES = {
    "{model}": "a model",
    "{session_id}": "a session id",
    "{effort}": "a level of effort (--effort)",
    "{system_prompt}": "instructions (--system-prompt)",
    "{schema}": "a JSON Schema (--schema)",
    "{mcp_config}": "MCP servers (--mcp-config)",
}
"""Placeholders of a configured command, with what they are for."""


def _values(request: Request) -> dict[str, str | None]:
    """Return the values of the placeholders; None for those that the request does not use."""
    return {
        "{model}": request.model,
        "{session_id}": request.session_id,
        "{effort}": request.effort,
        "{system_prompt}": request.system_prompt,
        "{schema}": None if request.schema is None else request.schema.path,
        "{mcp_config}": None if request.mcp_config is None else request.mcp_config.path,
    }


def _found(agent: str, program: str, env: Mapping[str, str], cwd: str) -> str:
    """Return the program's path.

    Raises:
        AgentNotFound: it does not exist, or is not executable.
    """
    from shutil import which

    path = env.get("PATH", os.defpath)
    place = os.path.join(cwd, program) if os.sep in program else program
    found = which(place, path=path)
    if found is not None:
        return os.path.abspath(found)
    entry = registry.AGENTS.get(agent)
    other = which(place, mode=os.F_OK, path=path)
    why = f"{other} is not executable" if other is not None else ""
    raise AgentNotFound(agent, program, entry.install if entry is not None else "", why)


def installed_agent(config: Config, env: Mapping[str, str] | None = None) -> str:
    """Return the first known agent whose program is installed.

    Raises:
        UsageError: there is none.
    """
    path = (os.environ if env is None else env).get("PATH")
    for name, facts in registry.AGENTS.items():
        command = config.agent(name).command
        program = command[0] if command else facts.default.program
        if program and which(program, path=path) is not None:
            return name
    raise UsageError(
        "no agent is installed", expected="one in PATH", help="penstock agents lists them, with how to install each"
    )
