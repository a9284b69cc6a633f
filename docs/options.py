"""Writes the tables of a run's options into `docs/cli.md` and `docs/python-api.md`, and that of permissions.

The options are in `penstock.run.spec`; what an agent may do at each level of `allow` is in the facts of the agents, and
its table in `docs/agents/README.md`. Run by `make options`.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from penstock.adapter import PROMPT_RULES, Allow
from penstock.agents import registry
from penstock.run.spec import OPTIONS, SpecField

FOLDER = Path(__file__).parent
BEGIN = "<!-- make options: begin -->\n"
END = "<!-- make options: end -->\n"

LINKS = {
    "allow": "[what each agent makes of it](agents/README.md)",
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
        if name.startswith("--") and OPTIONS[field].kind == "several":
            text += "; may be repeated"
        lines.append(f"| `{name}` | {text} |")
    return "\n".join(["", "|  | |", "|---|---|", *lines, "", ""])


def permissions() -> str:
    """Return the table of what the agents do at each level of `allow`. Routes that do the same share a row."""
    lines = ["", "| agent | route | by default | `--allow edits` | `--allow all` |", "|---|---|---|---|---|"]
    known: dict[tuple[str, ...], list[str]] = {}
    for name, facts in registry.AGENTS.items():
        for route, allows in facts.allows.items():
            cells = (allows[level].text if level in allows else "not supported" for level in get_args(Allow))
            known.setdefault((name, *cells), []).append(f"`{route}`")
    lines += [f"| {name} | {', '.join(routes)} | {' | '.join(cells)} |" for (name, *cells), routes in known.items()]
    return "\n".join([*lines, "", ""])


def tables() -> dict[str, str]:
    """Return the table of each page."""
    flags = {field: flag(option) for field, option in OPTIONS.items() if option.flag}
    options = {field: field for field in OPTIONS if field not in ("agent", *PROMPT_RULES)}
    return {
        "cli.md": rows(flags).replace("|  | |", "| flag | |"),
        "python-api.md": rows(options).replace("|  | |", "| option | |"),
        "agents/README.md": permissions(),
    }


def page(text: str, table: str) -> str:
    """Return a page with its table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table + END + after


if __name__ == "__main__":
    for name, table in tables().items():
        path = FOLDER / name
        path.write_text(page(path.read_text("utf-8"), table), "utf-8")
