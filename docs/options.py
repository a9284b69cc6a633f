"""Writes tables of the documents from the code.

The options of a run come from `penstock.run.spec`; what an agent may do at each level of permission, and what its
routes show of edits, from the facts of the agents. Run by `make options`.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from penstock.adapter import PROMPT_RULES, Feature, Level, Limit
from penstock.agents import registry
from penstock.agents._facts import AgentFacts, RouteFacts, Shown
from penstock.run.spec import OPTIONS, SpecField

FOLDER = Path(__file__).parent
BEGIN = "<!-- make options: begin -->\n"
END = "<!-- make options: end -->\n"

SHOWN: dict[Shown, str] = {
    "diff": "diff",
    "fragment": "diff without line numbers",
    "counts": "counts",
    "names": "names",
    "nothing": "–",
}
"""Words of the table for what a route shows."""

FEATURE_FIELDS: dict[Feature, str] = {
    "effort": "effort",
    "system_prompt": "system_prompt",
    "images": "files",
    "schema": "schema",
    "mcp_config": "mcp_config",
    "allow_tools": "allow_tools",
    "deny_tools": "deny_tools",
}
"""Features in the table of flags, each with the field of the run that has the flag."""

LINKS = {
    "effort": "[agents and levels](agents/README.md#flags-that-some-agents-have)",
    "system_prompt": "[agents](agents/README.md#flags-that-some-agents-have)",
    "files": "[agents](agents/README.md#flags-that-some-agents-have)",
    "schema": "[agents](agents/README.md#flags-that-some-agents-have)",
    "mcp_config": "[agents](agents/README.md#flags-that-some-agents-have)",
    "allow_tools": "[agents](agents/README.md#flags-that-some-agents-have)",
    "deny_tools": "[agents](agents/README.md#flags-that-some-agents-have)",
    "allow": "[what each agent makes of it](agents/README.md)",
    "max_cost": "[which agents support it](agents/README.md#limits-of-a-run)",
    "max_turns": "[which agents support it](agents/README.md#limits-of-a-run)",
    "max_tokens": "[which agents support it](agents/README.md#limits-of-a-run)",
    "retry": "[when](run.md#the-same-agent-is-tried-again)",
    "record": "[recording.md](recording.md)",
    "trust": "[configuration.md](configuration.md)",
}
"""Pages that say more about an option."""


def flag(option: SpecField) -> str:
    """Return a flag with its values, as a cell of a table."""
    return " ".join(filter(None, [option.flag, "\\|".join(option.choices)]))


def rows(named: dict[str, str]) -> str:
    """Return the rows of these options, each by the name that it has there."""
    lines = []
    for field, name in named.items():
        text = ": ".join(filter(None, [OPTIONS[field].text, LINKS.get(field)]))
        is_flag = name.startswith("--")
        if is_flag and OPTIONS[field].kind == "several":
            text += "; may be repeated"
        short = f", `{OPTIONS[field].short}`" if is_flag and OPTIONS[field].short else ""
        lines.append(f"| `{name}`{short} | {text} |")
    return "\n".join(["", "|  | |", "|---|---|", *lines, "", ""])


def permissions() -> str:
    """Return the table of what the agents do at each level of `allow`. Routes that do the same share a row."""
    levels = get_args(Level)
    lines = [
        "",
        f"| agent | route | {' | '.join(f'`{level}`' for level in levels)} |",
        "|---" * (2 + len(levels)) + "|",
    ]
    known: dict[tuple[str, ...], list[str]] = {}
    for name, facts in registry.AGENTS.items():
        for route, allows in facts.allows.items():
            cells = (allows[level].text if level in allows else "not supported" for level in levels)
            known.setdefault((name, *cells), []).append(f"`{route}`")
    lines += [f"| {name} | {', '.join(routes)} | {' | '.join(cells)} |" for (name, *cells), routes in known.items()]
    return "\n".join([*lines, "", ""])


def tables() -> dict[str, list[str]]:
    """Return the tables of each page, in their order."""
    flags = {field: flag(option) for field, option in OPTIONS.items() if option.flag}
    options = {field: field for field in OPTIONS if field not in ("agent", *PROMPT_RULES)}
    return {
        "cli.md": [rows(flags).replace("|  | |", "| flag | |")],
        "python.md": [rows(options).replace("|  | |", "| option | |")],
        "agents/README.md": [permissions(), flags_by_route(), limits(), changes()],
    }


def flags_by_route() -> str:
    """Return the table of the flags that not every route supports."""
    flags = {feature: f"`{OPTIONS[field].flag.split()[0]}`" for feature, field in FEATURE_FIELDS.items()}
    columns = " | ".join({**flags, "images": f"images by {flags['images']}"}.values())
    lines = ["", f"| agent | route | {columns} |", "|---" * (2 + len(FEATURE_FIELDS)) + "|"]
    for name, agent in registry.AGENTS.items():
        for route, facts in agent.routes.items():
            cells = [_support(agent, facts, feature) for feature in FEATURE_FIELDS]
            lines.append(f"| {name} | `{route}` | {' | '.join(cells)} |")
    return "\n".join([*lines, "", ""])


def _support(agent: AgentFacts, route: RouteFacts, feature: Feature) -> str:
    if feature not in route.supports:
        return "–"
    return ", ".join(agent.efforts) if feature == "effort" and agent.efforts else "yes"


def limits() -> str:
    """Return the table of the limits of a run that each agent and route supports."""
    flags = [f"`{OPTIONS[name].flag}`" for name in get_args(Limit)]
    lines = ["", f"| agent | route | {' | '.join(flags)} |", "|---|---|---|---|---|"]
    for name, agent in registry.AGENTS.items():
        for route, facts in agent.routes.items():
            cells = (_limit(facts, limit) for limit in get_args(Limit))
            lines += [] if agent.no_command and route == "exec" else [f"| {name} | `{route}` | {' | '.join(cells)} |"]
    return "\n".join([*lines, "", ""])


def _limit(facts: RouteFacts, limit: Limit) -> str:
    ways = [f"its own flag, `{facts.limit_flags[limit]}`"] if limit in facts.limit_flags else []
    ways += ["counted"] if limit in facts.counts else []
    return "; ".join(ways) or "not supported"


def changes() -> str:
    """Return the table of what each agent and route shows of edits and of denied actions."""
    lines = ["", "| agent | route | proposed | made | denied actions |", "|---|---|---|---|---|"]
    for name, agent in registry.AGENTS.items():
        for route, facts in agent.routes.items():
            shown = [SHOWN[facts.proposed], SHOWN[facts.made], "counted" if facts.counts_refused else "–"]
            lines.append(f"| {name} | `{route}` | {' | '.join(shown)} |")
    return "\n".join([*lines, "", ""])


def page(text: str, tables: list[str]) -> str:
    """Return a page with its tables as they are now."""
    done = ""
    for table in tables:
        before, _, rest = text.partition(BEGIN)
        _, _, text = rest.partition(END)
        done += before + BEGIN + table + END
    return done + text


if __name__ == "__main__":
    for name, found in tables().items():
        path = FOLDER / name
        path.write_text(page(path.read_text("utf-8"), found), "utf-8")
