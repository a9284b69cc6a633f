"""Specification of one run, from which the flags of `penstock run`, the options of Python and the docs follow.

`docs/options.py` writes the tables of the docs.
"""

# No `from __future__ import annotations`: the options are read from the annotations, which have to be evaluated.

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args, get_origin

import msgspec

from penstock.adapter import EFFORT, INSTRUCTIONS, MODEL, SESSION_ID, TOOL, TOOLS, Allow, Request
from penstock.config.addresses import ADDRESS, ADDRESSES
from penstock.config.rules import (
    ABOVE_0,
    COMMAND,
    DIRECTORY,
    ENVIRONMENT,
    NAME,
    PATH,
    PATHS,
    RUN_NUMBER,
    SECONDS,
    STRING,
    STRINGS,
    SWITCH,
    VARIABLE,
    Rule,
    Rules,
    instance_of,
    one_of,
    optional,
    whole,
)
from penstock.run.lifecycle import Limits
from penstock.run.limits import COUNT
from penstock.run.network import Network
from penstock.run.sandbox import Sandbox, Surroundings

RouteName = Literal["exec", "server", "acp"]


class SpecField(NamedTuple):
    """Properties of one field of `RunSpec` besides its type."""

    rule: Rule
    """Rule of its values, besides None if its type allows that."""
    text: str
    """Effect and unit of the field, for the help and the docs."""
    flag: str = ""
    """Its flag of `penstock run`, with the placeholder of the value; "" if it has none."""
    word: Rule | None = None
    """Rule of one word of the command line, if that is not the field's own."""
    kind: Literal["text", "number", "whole number", "switch", "choice", "several"] = "text"
    """Conversion of the words of the command line to the value."""
    choices: tuple[str, ...] = ()
    short: str = ""
    """Its short flag, if many agents have the same one; "" if it has none."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Specification of one run: agent, prompt, directory, permissions and limits."""

    agent: Annotated[
        str,
        SpecField(NAME, "the agent's name, `NAME/PROFILE`, `acp:COMMAND`, or a name of the configuration"),
    ]
    prompt: Annotated[
        str,
        SpecField(STRING, "what to ask"),
    ]
    stdin_text: Annotated[
        str | None,
        SpecField(STRING, "text that is added to the prompt, in the form of the command line"),
    ] = None
    model: Annotated[
        str | None,
        SpecField(MODEL, "the model, by the agent's own name for it", "--model M", short="-m"),
    ] = None
    session_id: Annotated[
        str | None,
        SpecField(SESSION_ID, "resume this conversation", "--session ID"),
    ] = None
    fork: Annotated[
        bool,
        SpecField(
            SWITCH,
            "branch that conversation, which gives it a new id; the old one stays as it is",
            "--fork",
        ),
    ] = False
    allow: Annotated[
        Allow,
        SpecField(
            one_of(*get_args(Allow)),
            "what the agent may do: read: only look · ask: ask before it changes something · edits: change files here "
            "without asking · all: everything · own: its own default · default: ask where somebody can answer and the "
            "agent can ask, else own",
            "--allow",
        ),
    ] = "default"
    route: Annotated[
        RouteName | None,
        SpecField(
            one_of(*get_args(RouteName)),
            "how Penstock talks to the agent; by default the best way that the agent has",
            "--route",
        ),
    ] = None
    effort: Annotated[
        str | None,
        SpecField(EFFORT, "how much the model thinks, by the agent's own word for it, as `high`", "--effort LEVEL"),
    ] = None
    system_prompt: Annotated[
        str | None,
        SpecField(
            INSTRUCTIONS, "instructions that are added to the agent's own; they replace none", "--system-prompt TEXT"
        ),
    ] = None
    files: Annotated[
        tuple[str, ...],
        SpecField(
            PATHS,
            "a file that goes with the prompt: a text, which any agent can be sent, or an image",
            "--file PATH",
            PATH,
        ),
    ] = ()
    schema: Annotated[
        str | None,
        SpecField(PATH, "a file with a JSON Schema; the reply is then JSON that fits it", "--schema FILE"),
    ] = None
    mcp_config: Annotated[
        str | None,
        SpecField(
            PATH,
            'a file with MCP servers that the agent also uses, as `{"mcpServers": {…}}`',
            "--mcp-config FILE",
        ),
    ] = None
    allow_tools: Annotated[
        tuple[str, ...],
        SpecField(
            TOOLS,
            "a tool that the agent may use without asking, by the agent's own name for it",
            "--allow-tool NAME",
            TOOL,
        ),
    ] = ()
    deny_tools: Annotated[
        tuple[str, ...],
        SpecField(TOOLS, "a tool that the agent may not use, by the agent's own name for it", "--deny-tool NAME", TOOL),
    ] = ()
    cwd: Annotated[
        str | None,
        SpecField(PATH, "the working directory of the agent; by default this one", "--cwd DIR", DIRECTORY),
    ] = None
    timeout: Annotated[
        float | None,
        SpecField(SECONDS, "time limit in seconds for the whole run; by default none", "--timeout S"),
    ] = None
    idle_timeout: Annotated[
        float | None,
        SpecField(SECONDS, "time limit in seconds without any output; by default none", "--idle-timeout S"),
    ] = None
    max_cost: Annotated[
        float | None,
        SpecField(ABOVE_0, "limit of the cost of the run in US dollars; by default none", "--max-cost USD"),
    ] = None
    max_turns: Annotated[
        int | None,
        SpecField(
            COUNT,
            "limit of the turns of the main agent, each up to the results of its tools; by default none",
            "--max-turns N",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        SpecField(
            COUNT,
            "limit of the input and output tokens of all model calls; by default none",
            "--max-tokens N",
        ),
    ] = None
    retry: Annotated[
        int | None,
        SpecField(
            whole(0, 100),
            "repeat the run up to N times if its provider is overloaded or fails, or if its stream is cut off, with "
            "growing waits; by default 0",
            "--retry N",
        ),
    ] = None
    record: Annotated[
        str | None,
        SpecField(
            PATH,
            "the directory in which each run keeps its raw bytes, in a folder of its own",
            "--record DIR",
        ),
    ] = None
    args: Annotated[
        tuple[str, ...],
        SpecField(STRINGS, "more arguments for the agent's command, before the prompt", "--arg ARG", STRING),
    ] = ()
    env: Annotated[
        Mapping[str, str],
        SpecField(
            ENVIRONMENT,
            "environment variables for the agent, set over those that it inherits",
            "--env NAME=VALUE",
            VARIABLE,
        ),
    ] = {}
    trust: Annotated[
        bool,
        SpecField(SWITCH, "allow the `penstock.toml` of this directory to start commands", "--trust"),
    ] = False
    sandbox: Annotated[
        Sandbox | None,
        SpecField(
            one_of(*get_args(Sandbox)),
            "how the agent is confined (Linux, bubblewrap): on: it writes only its directory and its own state, and "
            "does not see your home · own: it does not see Penstock's data and other processes · auto: on where it "
            "cannot ask or only reads · by default that of the configuration, which is auto",
            "--sandbox",
        ),
    ] = None
    network: Annotated[
        Network | None,
        SpecField(
            one_of(*get_args(Network)),
            "network of the agent, which is then confined: agent: only the addresses of its model, and those of "
            "--network-host · none: no network · by default that of the configuration, which is all",
            "--network",
        ),
    ] = None
    network_hosts: Annotated[
        tuple[str, ...],
        SpecField(
            ADDRESSES,
            "an address that the agent may also reach with `--network agent`, as api.example.com:443",
            "--network-host HOST:PORT",
            ADDRESS,
        ),
    ] = ()
    surroundings: Annotated[
        Surroundings,
        SpecField(
            instance_of(Surroundings, "a penstock.run.sandbox.Surroundings"),
            "what the program around the run knows of its confinement",
        ),
    ] = Surroundings()
    ignore_project: Annotated[
        bool,
        SpecField(
            SWITCH,
            "leave the project's own settings, hooks and MCP servers out, for agents that have words for it",
        ),
    ] = False
    environ: Annotated[
        Mapping[str, str] | None,
        SpecField(ENVIRONMENT, "the environment to inherit; by default that of this process"),
    ] = None
    label: Annotated[
        str | None,
        SpecField(STRING, "the name of the agent in its events; by default its own"),
    ] = None
    number: Annotated[
        int | None,
        SpecField(RUN_NUMBER, "the `run` of its events, if several runs share an output"),
    ] = None
    ask: Annotated[
        bool,
        SpecField(
            SWITCH,
            "questions wait for `Run.answer`; otherwise they are allowed with `all` and rejected without",
        ),
    ] = False
    command: Annotated[
        tuple[str, ...] | None,
        SpecField(
            COMMAND,
            "the command that starts the agent: the program of a known agent, else the whole command line",
        ),
    ] = None
    adapter: Annotated[
        str | None,
        SpecField(
            NAME,
            "the adapter for the command's output, if Penstock does not know its name; else `generic`",
        ),
    ] = None
    limits: Annotated[
        Limits,
        SpecField(
            instance_of(Limits, "a penstock.Limits"),
            "grace periods and time limits, a `penstock.Limits`",
        ),
    ] = Limits()

    def request(self) -> Request:
        """Return the part that an adapter may see, without the contents of files: see `run.inputs`."""
        return Request(
            prompt=self.prompt,
            model=self.model,
            session_id=self.session_id,
            fork=self.fork,
            cwd=self.cwd,
            allow="own" if self.allow == "default" else self.allow,
            args=self.args,
            stdin_text=self.stdin_text,
            effort=self.effort,
            system_prompt=self.system_prompt,
            allow_tools=self.allow_tools,
            deny_tools=self.deny_tools,
            ignore_project=self.ignore_project,
            max_cost=self.max_cost,
            max_turns=self.max_turns,
            max_tokens=self.max_tokens,
        )


def _option(annotation: Any) -> SpecField:
    """Return the option of an annotation; its type decides how the command line is converted."""
    kind: Any
    option: SpecField
    kind, option = get_args(annotation)
    members = get_args(kind) or (kind,)
    literal = kind if get_origin(kind) is Literal else next((it for it in members if get_origin(it) is Literal), None)
    if literal is not None:
        return option._replace(kind="choice", choices=get_args(literal))
    if kind is bool:
        return option._replace(kind="switch")
    if float in members:
        return option._replace(kind="number")
    if int in members:
        return option._replace(kind="whole number")
    return option._replace(kind="several") if get_origin(kind) in (tuple, Mapping) else option


OPTIONS: Mapping[str, SpecField] = {name: _option(annotation) for name, annotation in RunSpec.__annotations__.items()}
"""Option of each field."""
RULES: Rules = {
    name: optional(option.rule) if type(None) in get_args(get_args(RunSpec.__annotations__[name])[0]) else option.rule
    for name, option in OPTIONS.items()
}
"""Rule for the values of each field."""


class Options(TypedDict, total=False):
    """Options of a run: fields of `RunSpec`, which `agent` and `Agent.run` take by keyword."""

    allow: Allow
    effort: str | None
    system_prompt: str | None
    files: Sequence[str | os.PathLike[str]]
    schema: str | os.PathLike[str] | None
    mcp_config: str | os.PathLike[str] | None
    allow_tools: Sequence[str]
    deny_tools: Sequence[str]
    route: RouteName | None
    cwd: str | os.PathLike[str] | None
    timeout: float | None
    idle_timeout: float | None
    max_cost: float | None
    max_turns: int | None
    max_tokens: int | None
    retry: int | None
    record: str | os.PathLike[str] | None
    args: Sequence[str]
    env: Mapping[str, str]
    trust: bool
    sandbox: Sandbox | None
    network: Network | None
    network_hosts: Sequence[str]
    surroundings: Surroundings
    ignore_project: bool
    environ: Mapping[str, str] | None
    label: str | None
    number: int | None
    ask: bool
    command: Sequence[str] | None
    adapter: str | None
    limits: Limits


OPTION_RULES: Rules = {name: RULES[name] for name in Options.__annotations__}
"""Rule for the values of each of the `Options`."""


def spec_of(given: Mapping[str, Any]) -> RunSpec:
    """Return the spec of these fields, as Python code may pass them: any path, any sequence. `RULES` apply to them."""
    values = dict(given)
    for name in ("cwd", "record", "schema", "mcp_config"):
        if values.get(name) is not None:
            values[name] = os.fspath(values[name])
    for name in ("args", "command", "files", "allow_tools", "deny_tools", "network_hosts"):
        if values.get(name) is not None:
            values[name] = tuple(map(os.fspath, values[name]))
    return RunSpec(**values)
