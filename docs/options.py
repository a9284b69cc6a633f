"""Writes tables of the documents from the code: a run's options, and what the routes of each agent show of edits.

The options come from `penstock.run.spec`, the routes from the facts of the agents.

Run by `make options`.
"""

from __future__ import annotations

from pathlib import Path

from penstock.adapter import PROMPT_RULES
from penstock.agents._facts import Shown
from penstock.agents.registry import AGENTS
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


def tables() -> dict[str, str]:
    """Return the table of each page."""
    flags = {field: flag(option) for field, option in OPTIONS.items() if option.flag}
    options = {field: field for field in OPTIONS if field not in ("agent", *PROMPT_RULES)}
    return {
        "cli.md": rows(flags).replace("|  | |", "| flag | |"),
        "python-api.md": rows(options).replace("|  | |", "| option | |"),
        "agents/README.md": changes(),
    }


def changes() -> str:
    """Return the table of what each agent and route shows of edits and of denied actions."""
    lines = ["", "| agent | route | proposed | made | denied actions |", "|---|---|---|---|---|"]
    for name, agent in AGENTS.items():
        for route, facts in agent.routes.items():
            shown = [SHOWN[facts.proposed], SHOWN[facts.made], "counted" if facts.counts_refused else "–"]
            lines.append(f"| {name} | `{route}` | {' | '.join(shown)} |")
    return "\n".join([*lines, "", ""])


def page(text: str, table: str) -> str:
    """Return a page with its table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table + END + after


if __name__ == "__main__":
    for name, table in tables().items():
        path = FOLDER / name
        path.write_text(page(path.read_text("utf-8"), table), "utf-8")
