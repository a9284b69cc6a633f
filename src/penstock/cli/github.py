"""Results of `penstock run` for GitHub Actions: annotations, the summary of the step, and its outputs.

GitHub names two files in the environment. The texts of agents are data there too: they cannot end or fake an annotation
or an output, and the summary shows none of their HTML and images.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from penstock.events import Change
from penstock.sinks.sanitize import clean, clean_line
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.run_summary import money, tokens
from penstock.sinks.text.styles import duration

if TYPE_CHECKING:
    from penstock.run.result import Result

MAX_SUMMARY_REPLY_BYTES = 200_000
"""Bytes of one reply in the summary: GitHub rejects a summary of more than 1 MiB."""

MAX_OUTPUT_BYTES = 900_000
"""Bytes of one output: GitHub rejects outputs of more than 1 MiB."""

COST_DIGITS = 6
"""Decimal places of a cost: further digits are rounding errors of binary fractions."""

MAX_FILES = 100
"""Maximum number of changed files that the summary lists."""


class Finished(msgspec.Struct, frozen=True):
    """A run that has ended, for the report."""

    label: str
    result: Result
    milliseconds: int | None
    """Wall time of the run."""
    cwd: str = ""
    """Working directory; files in it are named relative to it."""

    def path(self, change: Change) -> str:
        """Return the path of the file after a change."""
        return Paths(self.cwd or None).short(change.to or change.path)


def annotation_lines(runs: Iterable[Finished]) -> str:
    """Return the workflow commands that mark failed runs and runs with denied actions."""
    lines = []
    for run in runs:
        result = run.result
        if result.outcome != "ok":
            words = result.outcome.replace("_", " ") + (f": {result.reason}" if result.reason else "")
            lines.append(_command("error", f"{run.label} failed", words))
        if result.refused:
            lines.append(_command("warning", f"{run.label}: actions denied", denied(result.refused)))
    return "".join(lines)


def denied(count: int) -> str:
    """Return the number of denied actions as a phrase."""
    return "1 action was not allowed" if count == 1 else f"{count:,} actions were not allowed"


def _command(kind: str, title: str, text: str) -> str:
    """Return one workflow command. GitHub finds the end of the command before it decodes `%0A` and the like."""
    escaped = _escaped(clean(text)[:4000])
    return f"::{kind} title={_escaped(clean_line(title)).replace(':', '%3A').replace(',', '%2C')}::{escaped}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_files(runs: Sequence[Finished], env: Mapping[str, str]) -> list[str]:
    """Append the summary and the outputs to the files of the step; return one sentence for each problem."""
    problems = []
    for name, text in (
        ("GITHUB_STEP_SUMMARY", "".join(map(summary, runs))),
        ("GITHUB_OUTPUT", outputs(runs[0]) if len(runs) == 1 else ""),
    ):
        path = env.get(name)
        if not path or not text:
            continue
        try:
            with open(path, "ab") as file:
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:
            problems.append(f"{name} cannot be written: {error.strerror}")
    return problems


def summary(run: Finished) -> str:
    """Return the part of the summary about one run, in Markdown."""
    result = run.result
    mark = "❌" if result.outcome != "ok" else "⚠️" if result.refused else "✅"
    outcome = result.outcome.replace("_", " ") + (f", but {denied(result.refused)}" if result.refused else "")
    lines = [f"### {mark} {_inline(run.label)}: {outcome}", ""]
    if result.outcome != "ok" and result.reason:
        lines += [_inline(result.reason), ""]
    reply = clean(result.reply).strip()
    if reply:
        lines += [_quoted(_shortened(reply, MAX_SUMMARY_REPLY_BYTES)), ""]
    lines += _table(run)
    lines += _files(run)
    if result.refused:
        lines += [f"**{denied(result.refused)}.** See `--allow`.", ""]
    return "\n".join(lines) + "\n"


def _table(run: Finished) -> list[str]:
    result, usage = run.result, run.result.usage
    facts = {
        "time": duration(run.milliseconds) if run.milliseconds is not None else "",
        "rounds": str(result.rounds or ""),
        "tokens in": tokens(usage.input_tokens) if usage is not None and usage.input_tokens is not None else "",
        "tokens out": tokens(usage.output_tokens) if usage is not None and usage.output_tokens is not None else "",
        "cost": "".join(money(result.cost_usd)),
        "session": _inline(result.session_id or ""),
    }
    known = {name: fact for name, fact in facts.items() if fact}
    if not known:
        return []
    return [f"| {' | '.join(known)} |", f"|{'---|' * len(known)}", f"| {' | '.join(known.values())} |", ""]


def _files(run: Finished) -> list[str]:
    changes = run.result.changes
    if not changes:
        return []
    rows = [f"| {_inline(run.path(change))} | {change.kind} | {_counts(change)} |" for change in changes[:MAX_FILES]]
    more = [f"| {len(changes) - MAX_FILES:,} more | | |"] if len(changes) > MAX_FILES else []
    return ["| file | change | lines |", "|---|---|---|", *rows, *more, ""]


def _counts(change: Change) -> str:
    added = f"+{change.added:,}" if change.added is not None else ""
    removed = f"−{change.removed:,}" if change.removed is not None else ""
    return f"{added} {removed}".strip()


def _inline(text: str) -> str:
    """Return plain text for one line of a table, escaped for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|!#~])", lambda found: f"&#{ord(found[0])};", clean_line(text))


def _quoted(text: str) -> str:
    """Return an agent's Markdown as a quotation, without HTML and images."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace("![", "!\\[")
    return "\n".join(f"> {line}" for line in safe.split("\n"))


def outputs(run: Finished) -> str:
    """Return the outputs of the step in GitHub's format: lines enclosed by an unpredictable delimiter."""
    result = run.result
    values = {
        "outcome": result.outcome,
        "reply": _shortened(result.reply, MAX_OUTPUT_BYTES),
        "session_id": result.session_id,
        "cause": result.cause,
        "input_tokens": None if result.usage is None else result.usage.input_tokens,
        "output_tokens": None if result.usage is None else result.usage.output_tokens,
        "cost_usd": None if result.cost_usd is None else round(result.cost_usd, COST_DIGITS),
        "refused": result.refused,
        "changed_files": msgspec.json.encode([run.path(change) for change in result.changes]).decode(),
    }
    delimiter = f"penstock_{secrets.token_hex(16)}"
    return "".join(
        f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in values.items() if value is not None
    )


def _shortened(text: str, limit: int) -> str:
    """Return the text, or its beginning and `…` if it has more bytes than `limit`."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore") + "…"
