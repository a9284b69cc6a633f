"""Configuration: the settings, the source of each, and the mistakes in them.

The sources, from the weakest to the strongest: built in, the user's file, the project's `penstock.toml`, the
environment. Flags of the command line override all of them. A mistake affects only its own key: it is reported with
file and line in `Config.problems`, and the other settings apply. `docs/configuration.md` lists every key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from penstock.config.keys import (
    DEFAULTS,
    OTHER_VARIABLES,
    RUN_RULES,
    STREAMING,
    SWITCH,
    VARIABLES,
    KeyPath,
    dotted,
    is_table,
    judge,
    shown,
)
from penstock.config.notify import Webhook
from penstock.config.run_keys import is_lower, is_smaller
from penstock.errors import ConfigError, nearest

if TYPE_CHECKING:
    from penstock.config.command_rules import CommandRules

FILE_NAME = "penstock.toml"
MAX_CONFIG_BYTES = 1 << 20
"""Maximum bytes of a configuration file: it is written by hand, and a larger file was named by mistake."""

Detail = Literal["quiet", "minimal", "normal", "verbose"]
_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class Setting(msgspec.Struct, frozen=True):
    """Value in force, and its source: `penstock.toml:12`, `PENSTOCK_COLOR`, `built in`."""

    value: Any
    origin: str
    rank: int
    """Rank of its source: 0 built in, 1 a file, 2 the environment. A setting of higher rank overrides one of lower
    rank, even if the latter is more specific to the agent."""
    of_project: bool = False
    """True if a `penstock.toml` sets it, which may have come with somebody else's files."""
    users: Any = None
    """Value in the user's own file that a `penstock.toml` overrides; None if there is none."""


class AgentConfig(msgspec.Struct):
    """Table `[agents.NAME]`. Absent keys are None or empty."""

    adapter: str | None = None
    label: str | None = None
    command: list[str] | None = None
    env: dict[str, str] = {}
    prompt: Literal["stdin", "argument"] | None = None
    protocol: str | None = None
    events: dict[str, Literal["delta", "snapshot", "complete", "control"]] = {}
    """Kind of the events with each name, for the generic reader."""


class StreamingSettings(msgspec.Struct, frozen=True):
    """Display of a stream: `[json_streaming]`, overridden by the agent's own table."""

    detail: Detail
    realtime: bool
    mark_partial: bool
    show_unknown: bool


class Config(msgspec.Struct):
    """All settings in force."""

    settings: dict[KeyPath, Setting] = {}
    files: list[str] = []
    """Files that were read, the strongest first."""
    problems: list[str] = []
    """Mistakes in the configuration, one line each."""

    def output(self, key: str) -> Any:
        """Return a value of `[output]`."""
        return self.settings[("output", key)].value

    def serve(self, key: str) -> Any:
        """Return a value of `[serve]`; None if there is none."""
        found = self.settings.get(("serve", key))
        return None if found is None else found.value

    def otel(self, key: str) -> Any:
        """Return a value of `[otel]`; None if there is none."""
        found = self.settings.get(("otel", key))
        return None if found is None else found.value

    @property
    def keeps_history(self) -> bool:
        """Whether runs are listed in the history."""
        return bool(self.settings[("history", "keep")].value)

    @property
    def has_profiles(self) -> bool:
        """Whether there is a profile."""
        return any(path[0] == "run" and len(path) > 2 for path in self.settings)

    @property
    def keeps_recordings(self) -> bool:
        """Whether runs in a terminal are recorded for `penstock last`."""
        return self.keeps_history and bool(self.settings[("history", "record")].value)

    @property
    def history_days(self) -> int:
        """Days after which the recordings that Penstock keeps by itself are removed."""
        return cast(int, self.settings[("history", "days")].value)

    @property
    def sandbox(self) -> Literal["auto", "on", "own", "off"]:
        """Confinement of runs whose options name none."""
        return cast(Literal["auto", "on", "own", "off"], self.settings[("run", "sandbox")].value)

    @property
    def sandbox_tmpfs_bytes(self) -> int | None:
        """Size of each directory in memory of a confined run; None if it depends on the machine's memory."""
        found = self.settings.get(("run", "sandbox_tmpfs"))
        return None if found is None else cast(int, found.value) * 1024 * 1024

    @property
    def network(self) -> Literal["all", "agent", "none"]:
        """Network of runs whose options name none."""
        return cast(Literal["all", "agent", "none"], self.settings[("run", "network")].value)

    @property
    def network_hosts(self) -> tuple[str, ...]:
        """Addresses that all runs with the network `agent` may reach."""
        return tuple(self.settings[("run", "network_hosts")].value)

    @property
    def command_rules(self) -> CommandRules:
        """Commands that agents may run without a question, and those that they may not run."""
        from penstock.config import run_rules  # needed only to run agents, or if a file has rules

        found = self.settings.get(RUN_RULES)
        return run_rules.joined([] if found is None else found.value)

    @property
    def allow(self) -> Literal["default", "read", "ask", "edits", "all", "own"]:
        """Level of permission of runs whose options name none."""
        found = self.settings[("run", "allow")].value
        return cast(Literal["default", "read", "ask", "edits", "all", "own"], found)

    @property
    def webhooks(self) -> list[Webhook]:
        """Addresses that `penstock serve` notifies about chats."""
        found = self.settings.get(("notify",))
        return [] if found is None else msgspec.convert(found.value, list[Webhook])

    def agent(self, name: str) -> AgentConfig:
        """Return the configuration of one agent; an empty one if there is none."""
        found: dict[str, Any] = {}
        for path, setting in self.settings.items():
            if path[:2] == ("agents", name):
                if len(path) == 3:
                    found[path[2]] = setting.value
                elif path[2] in ("env", "events"):
                    found.setdefault(path[2], {})[path[3]] = setting.value
        return AgentConfig(**found)

    def agents(self) -> list[str]:
        """Return the names of all agents with a configuration of their own."""
        return sorted({path[1] for path in self.settings if path[0] == "agents"})

    def streaming(self, agent: str | None = None) -> StreamingSettings:
        """Return the display settings for the stream of this agent."""

        def best(key: str, *more: KeyPath) -> Any:
            paths = (("agents", agent or "", "json_streaming", key), *more, ("json_streaming", key))
            found = [self.settings[path] for path in paths if path in self.settings]
            # max() keeps the first of equals, so among files the setting most specific to the agent wins.
            return max(found, key=lambda setting: setting.rank).value

        return StreamingSettings(
            detail=cast(Detail, best("delta_display", ("output", "detail"))),
            realtime=best("show_delta_in_realtime"),
            mark_partial=best("mark_partial_content"),
            show_unknown=best("show_unknown_events"),
        )


def load(env: Mapping[str, str] | None = None, cwd: str | None = None) -> Config:
    """Read the configuration that applies in this directory and environment.

    Raises:
        ConfigError: `PENSTOCK_CONFIG` names a file that cannot be read.
    """
    env = os.environ if env is None else env
    config = Config({path: Setting(value, "built in", 0) for path, value in DEFAULTS.items()}, [], [])
    for file in find_files(env, cwd or _here()):
        text = _read(file, config, named=bool(env.get("PENSTOCK_CONFIG")))
        if text is not None:
            config.files.insert(0, file)
            of_project = os.path.basename(file) == FILE_NAME and file != env.get("PENSTOCK_CONFIG")
            _apply_file(config, file, text, of_project)
    _apply_environment(config, env)
    return config


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # the current directory has been deleted
        return os.sep


def find_files(env: Mapping[str, str], cwd: str) -> list[str]:
    """Return the files that are read, the weakest first: the user's, then the nearest `penstock.toml` upwards."""
    # os.path, because the import of pathlib takes longer than all of this.
    if named := env.get("PENSTOCK_CONFIG"):
        return [named]
    home = env.get("XDG_CONFIG_HOME") or (os.path.join(env["HOME"], ".config") if env.get("HOME") else "")
    users = os.path.join(home, "penstock", "config.toml")
    found = [users] if home and os.path.isfile(users) else []
    folder = os.path.abspath(cwd)
    while not os.path.isfile(os.path.join(folder, FILE_NAME)):
        if folder == os.path.dirname(folder):
            return found
        folder = os.path.dirname(folder)
    return [*found, os.path.join(folder, FILE_NAME)]


def _read(file: str, config: Config, *, named: bool) -> str | None:
    try:
        with open(file, "rb") as handle:
            data = handle.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        if named:
            what = f"the configuration {file} cannot be read: {error.strerror}"
            raise ConfigError(what, help="correct or unset PENSTOCK_CONFIG") from error
        config.problems.append(f"{file}: cannot be read ({error.strerror}); it is ignored")
        return None
    if len(data) > MAX_CONFIG_BYTES:
        config.problems.append(f"{file}: is larger than {MAX_CONFIG_BYTES:,} bytes; it is ignored")
        return None
    return data.decode("utf-8-sig", "replace")


def _apply_file(config: Config, file: str, text: str, of_project: bool) -> None:
    import tomllib

    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits, and for very deep nesting
        config.problems.append(f"{file}:{_error_line(str(error), text)}: no valid TOML ({error}); the file is ignored")
        return
    lines: dict[KeyPath, int] | None = None
    users_profiles = {path[:2] for path in config.settings if path[0] == "run" and len(path) > 2}
    ignored: set[KeyPath] = set()
    for path, value in _leaves(data):
        problem, kept = judge(path, value)
        if kept and of_project and (forbidden := _forbidden(path, value, config)):
            problem, kept = forbidden, False
        if kept and path[:2] in users_profiles:  # never its permission with a prompt of the project
            problem, kept = f"{dotted(path[:2])} is a profile of your own; that of the project is ignored", False
            if path[:2] in ignored:
                continue
            ignored.add(path[:2])
        if kept and of_project and path == RUN_RULES:
            from penstock.config import run_rules

            if any(table.get("allow") for table in value):
                problem = "run.rules allows commands; a file of the project can only deny them"
            above = config.settings.get(path)
            value = run_rules.with_denied([] if above is None else above.value, value)
        lines = key_lines(text) if lines is None else lines
        where = f"{file}:{_line_of(path, lines)}"
        if problem:
            config.problems.append(f"{where}: {problem}")
        if kept:
            weaker = config.settings.get(path)
            users = weaker.value if of_project and weaker is not None and weaker.rank == 1 else None
            config.settings[path] = Setting(value, where, 1, of_project, users)


def _forbidden(path: KeyPath, value: Any, config: Config) -> str:
    """Return why a file of the project cannot set a key to this value; "" if it can."""
    match path:
        case ("run", "sandbox") if value != "on":
            return f'run.sandbox is {shown(value)}; a file of the project can only set "on"'
        case ("run", "allow") if not is_lower(value, config.allow):
            return f"run.allow is {shown(value)}; a file of the project can only lower it"
        case ("run", "network") if not is_smaller(value, config.network):
            return f"run.network is {shown(value)}; a file of the project can only restrict it"
        case ("history", "record") if value is not False:
            return "history.record is true; a file of the project can only set false"
        # `days` removes recordings of other directories too.
        case ("history", "days") | ("run", "network_hosts" | "sandbox_tmpfs") | ("notify",) | ("serve" | "otel", _):
            return f"{dotted(path)} is the user's alone; a file of the project cannot set it"
    return ""


def _error_line(message: str, text: str) -> str:
    # tomllib reports the line in its message only: "… (at line 3, column 7)", or "(at end of document)".
    _, found, rest = message.partition("at line ")
    return rest.split(",")[0] if found else str(text.count("\n") + 1)


def _leaves(data: dict[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    for key, value in data.items():
        path = (*above, key)
        # A table in place of a value is checked as a value.
        if isinstance(value, dict) and is_table(path):
            yield from _leaves(value, path)
        else:
            yield path, value


def _apply_environment(config: Config, env: Mapping[str, str]) -> None:
    for name, text in env.items():
        if not name.startswith("PENSTOCK_") or text == "" or name in OTHER_VARIABLES:
            continue
        if name not in VARIABLES:
            # Other programs may use their own names here; only a name that looks like a typing error is reported.
            guess = nearest(name[9:], [known[9:].lower() for known in VARIABLES])
            if guess:
                config.problems.append(f"{name}: there is no such variable; did you mean PENSTOCK_{guess.upper()}?")
            continue
        path = VARIABLES[name]
        value = _SWITCHES.get(text.lower(), text) if path[-1] in STREAMING and STREAMING[path[-1]] is SWITCH else text
        problem, kept = judge(path, value)
        if problem:
            config.problems.append(f"{name}: {problem}")
        if kept:
            config.settings[path] = Setting(value, name, 2)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of each table and key by a simple scan, because tomllib does not report lines.

    This is sufficient for messages, but is not a parser: keys in inline tables have the line of their table.
    """
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:  # inside a text of several lines
            quotes = "" if quotes in line else quotes
            continue
        stripped = line.strip()
        if stripped.startswith("["):
            table = _parts(stripped.strip("[").partition("]")[0])
            found.setdefault(table, number)
        elif "=" in stripped and not stripped.startswith("#"):
            key, _, value = stripped.partition("=")
            found.setdefault(table + _parts(key), number)
            quotes = next((mark for mark in ('"""', "'" * 3) if value.count(mark) % 2), "")
    return found


def _parts(key: str) -> KeyPath:

    return tuple(
        bare or double or single for double, single, bare in re.findall(r'"([^"]*)"|\'([^\']*)\'|([\w-]+)', key)
    )


def _line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
