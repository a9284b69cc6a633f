"""`penstock config`: prints the configuration files and every setting in force."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.cli.console import one_line, pass_on, say
from penstock.cli.parser import Parser
from penstock.config import settings
from penstock.config.keys import dotted, shown
from penstock.config.notify import without_secrets
from penstock.config.run_rules import VERDICTS, joined
from penstock.config.settings import FILE_NAME, Config, Setting


def command(args: list[str]) -> int:
    """Run `penstock config` and return the exit status."""
    as_json = parser().parse(args).json
    found = settings.load()
    return pass_on(config_as_json(found)) if as_json else say(config_as_text(found))


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("config", "Show every setting in force and where it comes from.")
    made.add_argument("--json", action="store_true", help="as one JSON object")
    return made


def config_as_text(config: Config) -> str:
    """Return the configuration in force as text for people."""
    settings = {dotted(path): setting for path, setting in config.settings.items()}
    lines = ["files, the strongest first:", *(f"  {file}" for file in config.files)]
    if not config.files:
        lines.append(f"  none ({FILE_NAME} here or above, or penstock/config.toml in ~/.config)")
    lines.append("in force:")
    width = max(map(len, settings))
    lines += [f"  {name:<{width}}  {_shown(name, found):<12}  {found.origin}" for name, found in settings.items()]
    if config.problems:
        lines += ["problems:", *(f"  {problem}" for problem in config.problems)]
    return "".join(f"{one_line(line)}\n" for line in lines)


def config_as_json(config: Config) -> bytes:
    """Return the configuration in force as one JSON object."""
    settings = {
        dotted(path): {"value": _public(dotted(path), found), "origin": found.origin}
        for path, found in config.settings.items()
    }
    whole = {"files": config.files, "settings": settings, "problems": config.problems}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _public(name: str, setting: Setting) -> Any:
    return without_secrets(setting.value) if name == "notify" else setting.value


def _shown(name: str, setting: Setting) -> str:
    if name == "run.rules":
        rules = joined(setting.value)
        return ", ".join(f"{verdict} {shown(rule)}" for verdict in VERDICTS for rule in getattr(rules, verdict))
    return f"{len(setting.value)} of them" if name == "notify" else shown(setting.value)
