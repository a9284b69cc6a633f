"""Parts of an exported chat, from the views of its turns and their details; without any form.

All texts of agents and people are sanitized here: what acts on a terminal is dropped, what hides text is made visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock import events as ev
from penstock.chat.history.entries import OWNER
from penstock.chat.history.frames import TurnView
from penstock.chat.history.items import AnyItem, Asked, Called, Noticed, Planned, Said, Thought
from penstock.core.causes import CAUSES
from penstock.sinks.sanitize import clean
from penstock.sinks.text.run_summary import utc_time
from penstock.sinks.text.styles import duration, exit_words

MAX_NAME_CHARS = 60
"""Characters of the name of a file: a title may have more."""


MAX_DEPTH = 6
"""Number of sub-agents below each other that are moved in; deeper ones stand beside the last."""


class TurnToExport(NamedTuple):
    """Turn of an exported chat."""

    view: TurnView
    items: Sequence[AnyItem] | None = None
    """Items of its details; None if they are not wanted."""
    gap: str = ""
    """Why its details are not there, or not complete."""


class ExportWriter(Protocol):
    """Module that writes one form: the beginning of the file, each turn, and its end."""

    def head(self, title: str | None, agent: str, cwd: str) -> str:
        """Return the beginning of the file."""

    def turn(self, exported: TurnToExport, agent: str) -> str:
        """Return the part of a turn. `agent`: that of the chat."""

    def end(self) -> str:
        """Return the end of the file."""


class CodeBlock(NamedTuple):
    """Text of a step that is code or output."""

    text: str
    language: str = ""


class ExportedStep(NamedTuple):
    """Step of a turn."""

    kind: str
    depth: int
    """Number of calls of sub-agents that it is below."""
    title: str = ""
    """Title of a call."""
    facts: tuple[str, ...] = ()
    text: str = ""
    codes: tuple[CodeBlock, ...] = ()
    plan: tuple[tuple[str, bool], ...] = ()
    """Items of a plan, and whether each is done."""


class TurnParts(NamedTuple):
    """What a file has of one turn."""

    who: str
    asked_at: str
    prompt: str
    agent: str
    reply: str
    steps: tuple[ExportedStep, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about how it ended."""
    gap: str = ""


def is_exported(view: TurnView) -> bool:
    """Return whether a turn is part of a file: one that was taken back before it began is not."""
    return not (view.state == "completed" and view.outcome == "cancelled" and view.began_at is None)


def file_name(title: str | None, suffix: str) -> str:
    """Return a name for the file: the words of the title."""
    words = re.findall(r"[^\W_]+", (title or "").lower())
    return f"{'-'.join(words)[:MAX_NAME_CHARS].rstrip('-') or 'chat'}.{suffix}"


def one_line(text: str | None) -> str:
    """Return a text of somebody else as one harmless line."""
    return " ".join(clean(text or "").split())


def parts_of(turn: TurnToExport, agent: str) -> TurnParts:
    """Return the parts of a turn. `agent`: that of the chat, if the turn names none."""
    view, items, gap = turn
    is_done = view.state == "completed"
    reply = clean((view.message if is_done else view.reply) or "")
    return TurnParts(
        who=_who(view),
        asked_at=when(view.asked_at),
        prompt=clean(view.prompt),
        agent=one_line(view.agent or agent),
        reply=reply,
        steps=tuple(_steps(items or (), reply)),
        notes=tuple(_notes(view)),
        gap=one_line(gap),
    )


def when(at: int) -> str:
    """Return a time as `2026-11-27 14:05 UTC`; "" for 0, an unknown one."""
    return utc_time(at) if at else ""


def _who(view: TurnView) -> str:
    if view.by == "heartbeat":
        return "Heartbeat"
    return "You" if view.person == OWNER else one_line(view.person)


def _notes(view: TurnView) -> Iterator[str]:
    if view.state == "queued":
        yield "It waits for its turn."
    elif view.whole is not None:
        yield "It was given to the agent while it worked on the next message."
    elif view.state == "running":
        yield "It is still running."
    elif view.cause is not None or view.outcome in _OUTCOMES:
        reason = one_line(view.reason)
        words = CAUSES[view.cause].capitalize() if view.cause is not None else _OUTCOMES[view.outcome]
        yield f"{words}: {reason}" if reason else f"{words}."
    by_person = [one_line(it.name) for it in view.denied or () if it.by == "person"]
    by_policy = [one_line(it.name) for it in view.denied or () if it.by == "policy"]
    if view.rejected:
        yield f"Rejected by a person: {_listed(by_person, view.rejected)}."
    if left := max(0, view.refused - view.rejected):
        yield f"Not allowed: {_listed(by_policy, left)}."


_OUTCOMES: dict[ev.Outcome | None, str] = {
    "error": "It failed",
    "cancelled": "Stopped",
    "timed_out": "It ran out of time",
    "cut_off": "It was cut off",
    "empty": "It ended without a reply",
}


def _listed(names: list[str], count: int) -> str:
    """Return names of actions, and how many more there were: only the first have names."""
    if more := count - len(names):
        names = [*names, f"{more} {'more ' if names else ''}{'action' if more == 1 else 'actions'}"]
    return ", ".join(names)


def _steps(items: Sequence[AnyItem], reply: str) -> Iterator[ExportedStep]:
    """Yield the steps, those of a sub-agent below its call; without the reply, which follows."""
    below: dict[int | None, list[int]] = {}
    depths: list[int] = []
    for number, item in enumerate(items):
        parent = item.parent if item.parent is not None and item.parent < number else None
        below.setdefault(parent, []).append(number)
        depths.append(0 if parent is None else min(MAX_DEPTH, depths[parent] + 1))
    left = below.get(None, [])[::-1]  # a stack of its own: agents may start agents without end
    while left:
        number = left.pop()
        left += below.get(number, [])[::-1]
        item = items[number]
        is_reply = isinstance(item, Said) and depths[number] == 0 and clean(item.text).strip() == reply.strip()
        if not is_reply:
            yield _step(item, depths[number])


def _step(item: AnyItem, depth: int) -> ExportedStep:
    marks = [mark for mark, is_so in (("given up", item.given_up), ("cut off", item.cut)) if is_so]
    if item.shortened:
        marks.append(f"{item.shortened:,} characters left out")
    if isinstance(item, Called):
        return _call(item, depth, marks)
    if isinstance(item, Planned):
        plan = tuple((one_line(entry.text), entry.status == "completed") for entry in item.items)
        return ExportedStep("Plan", depth, facts=tuple(marks), plan=plan)
    if isinstance(item, Asked):
        text = clean(item.text) if item.answer is None else f"{clean(item.text)}\n\nAnswer: {one_line(item.answer)}"
        return ExportedStep("Question", depth, facts=tuple(marks), text=text, codes=_diffs(item.changes))
    kind = "Thought" if isinstance(item, Thought) else "Notice" if isinstance(item, Noticed) else "Text"
    return ExportedStep(kind, depth, facts=tuple(marks), text=clean(item.text))


def _call(item: Called, depth: int, marks: list[str]) -> ExportedStep:
    facts = []
    if item.refused or item.is_error:
        facts.append("not allowed" if item.refused else "failed")
    if item.exit_code:
        facts.append(exit_words(item.exit_code))
    if item.duration_ms is not None:
        facts.append(duration(item.duration_ms))
    codes = _diffs(item.changes)
    if item.input and not codes:
        codes = (CodeBlock(clean(item.input)),)
    if item.output:
        codes += (CodeBlock(clean(item.output)),)
    title = one_line(item.title) or one_line(item.name)
    return ExportedStep("Call", depth, title=title, facts=(*facts, *marks), codes=codes)


def _diffs(changes: list[ev.Change] | None) -> tuple[CodeBlock, ...]:
    return tuple(CodeBlock(clean(change.diff), "diff") for change in changes or () if change.diff)
