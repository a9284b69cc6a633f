"""Options of `penstock loop`, and the settings of a loop that follow from them and from the configuration."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.options import DisplayOptions, number, whole_number
from penstock.cli.run_factory import split_names
from penstock.config.rules import ABOVE_0
from penstock.errors import UsageError, shown
from penstock.loop.rows import DEFAULT_ROUNDS, LoopBudget, RoleAgents, Settings
from penstock.run.launch import installed_agent

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.config.settings import Config

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)

OF_NEW_LOOPS = (
    *(
        "work",
        "candidates",
        "judge",
        "review",
        "check",
        "unchecked",
        "plan",
        "setup",
        "copy",
        "protect",
        "wait",
        "allow",
        "model",
        "route",
    ),
    *("timeout", "check_timeout", "sandbox", "network", "check_network", "keep_session", "hooks", "sign", "name"),
)
"""Options of a new loop, whose settings do not change afterwards."""

DISPLAY = DisplayOptions.__struct_fields__
"""Options of how the agents' work is shown."""

COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "init": ("Write a PROMPT.md to begin with.", ()),
    "status": ("Show what a loop does or has done.", ("json",)),
    "show": ("Show one round in full: what was said, checked and changed.", ("diff",)),
    "log": ("Show the steps of a loop, each with its time.", ()),
    "tell": ("Send a message that the next round reads.", ()),
    "confirm": ("Confirm an edit of the prompt, and messages, that came while an agent worked.", ("discard",)),
    "stop": ("Stop a loop after the step that runs.", ("now",)),
    "resume": ("Go on with a loop.", ("rounds", "time", "cost", "tokens", "accept", "trust", "ask", *DISPLAY)),
    "land": (
        "Merge the result of a loop into the branch that is checked out.",
        ("squash", "resolve", "unchecked", "rounds", "trust", *DISPLAY),
    ),
    "clean": ("Remove the trees of loops that have landed.", ("dry_run", "all", "refs", "older_than")),
}
"""Commands about an existing loop, each with its summary and its options. A file with such a name is written
`./status`."""

OF_COMMANDS = ("json", "diff", "now", "squash", "resolve", "discard", "refs")
"""Options that a new loop does not have."""

NEEDS_TRUST = ("check", "setup", "copy", "notify", "allow", "check_network")
"""Keys of `[loop]` and its roles that start programs, copy files, or give agents permissions. In a project's own
file they count only with --trust."""

MAX_CANDIDATES = 8
"""Maximum number of candidates of a round: each has a tree and a running agent, and one machine can run no more."""
PLANS = ("auto", "ask")
"""Values of `--plan`. The first one is the value of the flag alone."""

LIMITS = ("rounds", "time", "wait", "cost", "tokens")
"""Keys of `[loop]` that limit what a loop may use."""


def seconds_of(word: str) -> float:
    """Return the seconds of a duration: `90`, `90s`, `30m`, `4h`, `2d`."""
    found = _DURATION.fullmatch(word)
    if found is None or float(found[1]) == 0:
        raise ArgumentTypeError(f"{shown(word)} is not a duration; expected e.g. 90s, 30m or 4h")
    return float(found[1]) * _UNITS[found[2] or "s"]


def budget_flags(made: Parser) -> None:
    """Add the options of the budget."""
    add = made.add_argument
    add("--rounds", type=whole_number(ABOVE_0), metavar="N", help=f"rounds of work at most (default {DEFAULT_ROUNDS})")
    add("--time", type=seconds_of, metavar="T", help="time of work at most, e.g. 4h; waiting does not count")
    add("--cost", type=number(ABOVE_0), metavar="USD", help="cost of all agents at most, in US dollars")
    add("--tokens", type=whole_number(ABOVE_0), metavar="N", help="tokens of all agents at most")


def settings_flags(made: Parser) -> None:
    """Add the options that become the settings of a loop."""
    add = made.add_argument
    add("--work", metavar="AGENT[,AGENT…]", help="agent that works (default: the first one that is "
        "installed); the next ones take over at a usage limit")  # fmt: skip
    add("--candidates", metavar="AGENT,AGENT…", help="agents that work side by side in each round, each in a "
        "tree of its own; the best result goes on")  # fmt: skip
    add("--judge", metavar="AGENT[,AGENT…]", help="agent that compares candidates with equal checks and reviews")
    add("--review", action="append", default=[], metavar="AGENT[,AGENT…]", help="agent that has to approve each round; "
        "may be repeated")  # fmt: skip
    add("--check", action="append", default=[], metavar="COMMAND", help="command that has to succeed; may be repeated")
    add(
        "--unchecked",
        action="store_true",
        help="accept the work without any check · land: merge without the checks on the merged files",
    )
    add("--plan", choices=PLANS, help="let an agent write the tasks first · ask: "
        "they wait for your approval")  # fmt: skip
    add("--setup", metavar="COMMAND", help="command that makes the new tree ready to work in")
    add("--copy", action="append", default=[], metavar="GLOB", help="ignored files to copy into the tree")
    add("--protect", action="append", default=[], metavar="GLOB", help="files that are put back before each check")
    add("--accept", action="append", default=[], metavar="PATH", help="file, pattern or DIRECTORY/ that is committed "
        "although it is held back by rule; also for resume")  # fmt: skip
    add("--wait", type=seconds_of, metavar="T", help="how long to wait at most until a usage limit resets")
    add("--allow", choices=("read", "edits", "all", "own"), help="what the worker may do (default: edits)")
    add("--model", metavar="M", help="model of the worker")
    add("--route", choices=("exec", "server", "acp"), help="way in which Penstock talks to the worker")
    add("--timeout", type=seconds_of, metavar="T", help="time limit of one agent's step")
    add("--check-timeout", type=seconds_of, metavar="T", help="time limit of one check (default 30m)")
    add("--sandbox", choices=("auto", "on", "own", "off"), help="how agents and checks are confined (docs/sandbox.md)")
    add("--network", choices=("all", "agent", "none"), help="network of the agents: everything · only the addresses of "
        "their models · none; needs confinement (default: all)")  # fmt: skip
    add("--check-network", choices=("all", "none"), help="network of confined checks (default: none)")
    add("--keep-session", action="store_true", help="all rounds are one conversation")
    add("--sign", action="store_true", help="sign the commits, as git is configured to do it")
    add("--no-hooks", dest="hooks", action="store_false", help="do not run your commit hooks")


def with_plan(words: Sequence[str]) -> list[str]:
    """Return words in which `--plan` always has a value, since the word after it may be the prompt."""
    followers = [*words[1:], ""]
    return [
        f"--plan={PLANS[0]}" if word == "--plan" and after not in PLANS else word
        for word, after in zip(words, followers, strict=False)
    ]


def check_options(words: Namespace, parser: Parser) -> None:
    """Check that all options apply to the command, whether it begins a loop or is about one.

    Raises:
        UsageError: it has an option that does not apply.
    """
    command = words.words[0] if words.words[0] in COMMANDS else None
    for name, value in vars(words).items():
        if name == "words" or name in DISPLAY or value == parser.get_default(name):
            continue
        flag = "--no-hooks" if name == "hooks" else "--" + name.replace("_", "-")
        owners = [word for word, (_, options) in COMMANDS.items() if name in options]
        if command is None and name in OF_COMMANDS:
            raise UsageError(f"{flag} is an option of penstock loop {owners[0]}, not of a new loop")
        if command is not None and name in OF_NEW_LOOPS and command not in owners:
            raise UsageError(
                f"{flag} is an option of a new loop, and penstock loop {command} is about one that has begun",
                help="penstock loop PROMPT.md begins another",
            )
        if command is not None and command not in owners:
            raise UsageError(f"penstock loop {command} has no option {flag}", help=f"penstock loop {owners[0]} has it")


class LoopConfig:
    """Values of `[loop]`. Without trust, the project's values start no programs and only lower the user's limits."""

    def __init__(self, config: Config, *, trust: bool) -> None:
        self.config = config
        self._settings = config.settings
        self._trust = trust

    def value(self, *path: str, default: Any = None) -> Any:
        """Return the value of a key.

        Raises:
            UsageError: the project sets the key without being trusted to.
        """
        setting = self._settings.get(("loop", *path))
        if setting is None:
            return default
        if not setting.of_project or self._trust:
            return setting.value
        if path[-1] in NEEDS_TRUST:
            raise UsageError(
                f"{setting.origin} sets {path[-1]} of the loop, and it came with the files of this project",
                expected="your confirmation that you trust these files",
                help="read it, then --trust, or name it on the command line",
            )
        users = default if setting.users is None else setting.users
        if path[-1] in LIMITS and users is not None:
            return min(setting.value, users, key=_amount)
        return setting.value


def _amount(value: Any) -> float:
    return seconds_of(value) if isinstance(value, str) else float(value)


def settings_of(words: Namespace, config: LoopConfig) -> Settings:
    """Return the settings of a loop.

    Raises:
        UsageError: no agent is installed, or there is no check and no --unchecked.
    """
    checks = tuple(words.check or config.value("check", default=()))
    if not checks and not words.unchecked:
        raise UsageError(
            "there is no check to tell when the work is done",
            expected='--check COMMAND, e.g. --check "make test"',
            help="--unchecked works without one",
        )
    candidates = _candidates(words, config)
    worker = ",".join(dict.fromkeys(candidates)) or words.work or default_worker(words, config)
    work = _agents(worker, config, "work", words)
    assert work is not None
    reviewers = words.review or config.value("review", "reviewers", default=())
    reviews = tuple(RoleAgents(agents=_names(text), allow="own") for text in reviewers)
    if not reviews:
        configured = _agents(None, config, "review", None)
        reviews = (configured,) if configured is not None else ()
    return Settings(
        work=work,
        checks=checks,
        unchecked=words.unchecked,
        candidates=candidates,
        judge=_judge(words, config) if candidates else None,
        reviews=reviews,
        plan=RoleAgents(agents=work.agents, model=work.model, allow="own") if words.plan else None,
        plan_is_asked=words.plan == "ask",
        setup=words.setup or config.value("setup", default=""),
        copy_globs=tuple(words.copy or config.value("copy", default=())),
        accept=tuple(words.accept),
        protect=tuple(words.protect or config.value("protect", default=())),
        keep_session=words.keep_session,
        hooks=words.hooks and config.value("hooks", default=True),
        sign=words.sign or config.value("sign", default=False),
        sandbox=words.sandbox or config.config.sandbox,
        network=words.network or config.config.network,
        check_network=words.check_network or config.value("check_network", default="none"),
        wait_ms=_ms(words.wait, config, "wait") or 0,
        step_seconds=words.timeout,
        check_seconds=words.check_timeout,
        budget=LoopBudget(
            rounds=words.rounds or config.value("rounds", default=DEFAULT_ROUNDS),
            ms=_ms(words.time, config, "time"),
            cost_usd=words.cost or config.value("cost"),
            tokens=words.tokens or config.value("tokens"),
        ),
    )


def default_worker(words: Namespace, config: LoopConfig) -> str | None:
    """Return the default agent: the first one that is installed. None if one is named.

    Raises:
        UsageError: no agent is installed.
    """
    is_named = words.work or _candidates(words, config) or config.value("work", "agents", default=())
    return None if is_named else installed_agent(config.config)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in split_names(text) if name.strip())


def _agents(text: str | None, config: LoopConfig, role: str, words: Namespace | None) -> RoleAgents | None:
    """Return the agents of a role. Flags, which apply only to the worker, take precedence over the configuration."""
    names = _names(text) if text else tuple(config.value(role, "agents", default=()))
    if not names:
        return None
    if words is None:
        return RoleAgents(
            agents=names, model=config.value(role, "model"), allow=config.value(role, "allow", default="own")
        )
    return RoleAgents(
        agents=names,
        model=words.model or config.value(role, "model"),
        allow=words.allow or config.value(role, "allow", default="edits"),
        route=words.route,
    )


def _candidates(words: Namespace, config: LoopConfig) -> tuple[str, ...]:
    """Return the candidates. `--work` takes precedence over those of the configuration.

    Raises:
        UsageError: there is only one, there are too many, or both options are given.
    """
    if words.candidates and words.work:
        raise UsageError("--work and --candidates exclude each other", help="--candidates names all agents that work")
    configured = () if words.work else tuple(config.value("candidates", default=()))
    names = _names(words.candidates) if words.candidates is not None else configured
    if words.judge and not names:
        raise UsageError("--judge compares candidates, and there are none", expected="--candidates AGENT,AGENT")
    if (names or words.candidates is not None) and not 2 <= len(names) <= MAX_CANDIDATES:
        raise UsageError(f"{len(names)} candidates are named", expected=f"2 to {MAX_CANDIDATES} agents, e.g. a,b")
    return names


def _judge(words: Namespace, config: LoopConfig) -> RoleAgents | None:
    if words.judge:
        return RoleAgents(agents=_names(words.judge), allow="own")
    return _agents(None, config, "judge", None)


def _ms(seconds: float | None, config: LoopConfig, key: str) -> int | None:
    text = config.value(key)
    if seconds is None and text is not None:
        seconds = seconds_of(text)
    return None if seconds is None else int(seconds * 1000)
