"""Models in the output of `pi --list-models`: a table, whose first line names its columns."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.agents._models import AgentModel, each_once, listed

_NAME = ["provider", "model"]
_THINKING = "thinking"


def read(output: bytes) -> list[AgentModel]:
    """Return the models as `PROVIDER/MODEL`; none without the table, as if pi has no login."""
    return each_once(_models(output.decode("utf-8", "replace").split("\n")))


def _models(lines: list[str]) -> Iterator[AgentModel | None]:
    columns = lines[0].split()
    if columns[:2] != _NAME:
        return
    for line in lines[1:]:
        row = dict(zip(columns, line.split(), strict=False))
        if len(row) == len(columns):
            yield listed(f"{row['provider']}/{row['model']}", [] if row.get(_THINKING) == "no" else None)
