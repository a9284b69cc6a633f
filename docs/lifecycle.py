"""Writes the tables of `penstock.run.lifecycle` into `docs/processes.md`. Run by `make lifecycle`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from penstock.run.lifecycle import FACT_TRANSITIONS, GUARD_SECONDS, LIMITED, TRANSITIONS, Limits, State, Transition

PAGE = Path(__file__).parent / "processes.md"
BEGIN = "<!-- make lifecycle: begin -->\n"
END = "<!-- make lifecycle: end -->\n"


def name(member: Enum) -> str:
    """Return a state or a cause as the page names it."""
    return f"`{member.name.lower()}`"


def states() -> list[str]:
    """Return the table of the states."""
    lines = ["| State | Meaning | Limits |", "|---|---|---|"]
    lines += [f"| {name(state)} | {state.value} | {'count' if state in LIMITED else ''} |" for state in State]
    return lines


def effect(row: Transition) -> str:
    """Return the cells of a transition: next state, its grace period, actions, cause."""
    grace = "from the start" if row.restart else ""
    if row.grace is not None:
        grace = f"`{row.grace}`" if row.grace in Limits.__struct_fields__ else f"{GUARD_SECONDS:g} s"
    actions = ", ".join(action.value for action in row.actions)
    state, cause = name(row.state) if row.state else "the same", name(row.cause) if row.cause else ""
    return f"{state} | {actions} | {grace} | {cause}"


def transitions() -> list[str]:
    """Return the table of the transitions; triggers and facts of one effect share a row."""
    lines = ["| In | When | Then | Actions | Grace period | StopCause |", "|---|---|---|---|---|---|"]
    for state in State:
        effects: dict[str, list[str]] = {}
        for trigger, row in TRANSITIONS[state].items():
            effects.setdefault(effect(row), []).append(trigger.value)
        for fact, row in FACT_TRANSITIONS.get(state, {}).items():
            effects.setdefault(effect(row), []).append(f"*{fact.value}*")
        shown = name(state)
        for cells, when in effects.items():
            lines.append(f"| {shown} | {'; '.join(when)} | {cells} |")
            shown = ""
    return lines


def page(text: str) -> str:
    """Return the page with the tables as they are now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n".join([*states(), "", *transitions()]) + "\n\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
