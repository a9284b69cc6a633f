"""Health of a stream: counters of its lines and events, and the warnings that follow from them."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.core.unfamiliar import Unfamiliar
from penstock.events import Cause

MAX_UNKNOWN_KINDS = 64
"""Number of unknown kinds that are counted by name; the rest are counted together."""

MAX_NAMED = 5
"""Number of names in one sentence of the report; the JSON has all."""

OTHER_KINDS = "(other kinds)"


class Health(msgspec.Struct):
    """Counters of one stream.

    `delta_events`, `complete_events` and `control_events` count lines by their content: new text, complete items
    (texts, calls, results, answers), or only control events. Unknown kinds and many deltas do not cause a warning;
    malformed lines and discontinuities do.
    """

    lines: int = 0
    bytes: int = 0
    delta_events: int = 0
    complete_events: int = 0
    control_events: int = 0
    unknown_events: int = 0
    parse_errors: int = 0
    noise_lines: int = 0
    lenient_lines: int = 0
    repaired_snapshots: int = 0
    suppressed_duplicates: int = 0
    discontinuities: int = 0
    superseded_attempts: int = 0
    adapter_errors: int = 0
    first_parse_error: int | None = None
    """Number of the first malformed line."""
    unknown_kinds: dict[str, int] = {}
    causes: dict[str, int] = {}
    """Number of notices and failures for each cause (`penstock.events.Cause`)."""

    version: str | None = None
    """Version of the agent, if it reported one."""
    recorded: tuple[str, ...] = ()
    """Versions of the agent in the recordings, if the stream has something unknown."""
    drift: list[Unfamiliar] = []
    """Kinds of lines, and names in `_meta`, that Penstock does not know. Filled at the end."""
    misfits: dict[str, int] = {}
    """Number of values that were left out for their type, and of missing ids, by field or type."""
    losses: list[str] = []
    """Signs that something was not read, one sentence each. Filled at the end; each is a warning."""
    checks: list[str] = []
    """Disagreements in what the agent reports, one sentence each. Filled at the end. They are not warnings."""

    def count_cause(self, cause: Cause) -> None:
        """Count a notice or a failure that has a cause."""
        self.causes[cause] = self.causes.get(cause, 0) + 1

    def count_unknown(self, kind: str) -> None:
        """Count an event of a kind that is not handled."""
        self.unknown_events += 1
        if kind not in self.unknown_kinds and len(self.unknown_kinds) >= MAX_UNKNOWN_KINDS:
            kind = OTHER_KINDS
        self.unknown_kinds[kind] = self.unknown_kinds.get(kind, 0) + 1

    def count_parse_error(self, line: int) -> None:
        """Count a malformed line."""
        self.parse_errors += 1
        if self.first_parse_error is None:
            self.first_parse_error = line

    def count_misfits(self, names: dict[str, int]) -> None:
        """Count values that were left out. `names`: how many, by name."""
        for name, count in names.items():
            if name in self.misfits or len(self.misfits) < MAX_UNKNOWN_KINDS:
                self.misfits[name] = self.misfits.get(name, 0) + count

    @property
    def warnings(self) -> list[str]:
        """Warnings, one sentence each; empty for a healthy stream."""
        found = []
        if self.parse_errors:
            found.append(
                f"{_many(self.parse_errors, 'line')} could not be parsed (first: line {self.first_parse_error})"
            )
        if self.discontinuities:
            found.append(f"{_many(self.discontinuities, 'text')} changed after being streamed and had to be revised")
        if self.adapter_errors:
            found.append(f"{_many(self.adapter_errors, 'event')} broke the adapter: please report it")
        if suspects := [it for it in self.drift if it.warns]:
            kinds = ", ".join(f"{it.name} ({it.place})" for it in suspects[:MAX_NAMED])
            more = f" and {len(suspects) - MAX_NAMED} more" if len(suspects) > MAX_NAMED else ""
            newer = f"version {self.version}; " if self.version else ""
            known = (
                f"recordings are of {', '.join(self.recorded)}" if self.recorded else "there are no recordings of it"
            )
            found.append(
                f"the agent printed {kinds}{more}, which Penstock does not know ({newer}{known}): "
                "what is shown may lack something or contain what was taken back"
            )
        if self.misfits:
            count = sum(self.misfits.values())
            names = ", ".join([*self.misfits][:MAX_NAMED])
            found.append(f"{_many(count, 'value')} had a type that Penstock does not read, or were missing ({names})")
        if self.losses:
            found.append(f"{', and '.join(self.losses)}: Penstock may not have read all that the agent sent")
        return found

    def summary(self, label: str) -> str:
        """Return the report in one or a few sentences for people. `label` is the name of the agent."""
        parts = [
            f"{_many(self.delta_events, 'delta event')} (streaming content) and "
            f"{_many(self.complete_events, 'complete event')}"
        ]
        if self.unknown_events:
            kinds = _many(len(self.unknown_kinds), "kind")
            parts.append(f"{_many(self.unknown_events, 'unknown event')} of {kinds} (valid JSON that is not handled)")
        if self.repaired_snapshots:
            parts.append(f"{_many(self.repaired_snapshots, 'snapshot')} among the deltas repaired")
        if self.superseded_attempts:
            parts.append(f"{_many(self.superseded_attempts, 'attempt')} given up by the agent")
        if self.causes:
            parts.append(
                "causes of trouble: " + ", ".join(f"{cause} {count:,}" for cause, count in self.causes.items())
            )
        if quiet := [it.name for it in self.drift if not it.warns]:
            parts.append("new in this version, without effect on what is shown: " + ", ".join(quiet[:MAX_NAMED]))
        parts.extend(self.checks)
        parts.extend(self.warnings)
        return f"{label}: " + "; ".join(parts) + "."

    def report(self) -> dict[str, Any]:
        """Return the report as plain data: the counters and `warnings`."""
        drift = [msgspec.structs.asdict(it) for it in self.drift]
        return {**msgspec.structs.asdict(self), "drift": drift, "warnings": self.warnings}


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
