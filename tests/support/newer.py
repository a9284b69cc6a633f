"""A `penstock` of a newer version: it writes fields, kinds of entries and a description that are not known here."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from penstock.chat.cluster import nodes
from penstock.chat.history.entries import Answered, Prompted, Released, StopRequested
from penstock.chat.service.log import chat_log, stored_turns, truncation
from penstock.chat.service.nodes import NodeAbout
from penstock.cli.main import main

VERSION = "99.0.0"
FIELDS = b',"newer":{"list":[1,null]}}'
KIND = b'{"type":"newer_kind","turn":1,"text":"?"}'

_fitted = truncation.fitted


def fitted(items: Iterable[Any], limit: int) -> tuple[list[bytes], list[Any]]:
    """Return entries with more fields, and an entry of a new kind behind those of a run."""
    data, written = _fitted(items, limit)
    data = [it[:-1] + FIELDS for it in data]
    if isinstance(written[0], Prompted | StopRequested | Released | Answered):
        return data, written
    return [*data, KIND], [*written, None]


class Encoder:
    """Encoder of the views of turns, which have another field."""

    def encode(self, view: object) -> bytes:
        """Return the view."""
        return msgspec.json.encode(view)[:-1] + FIELDS


def described(about: NodeAbout) -> Jsonb:
    """Return the description of this node, with another field."""
    return Jsonb({**msgspec.to_builtins(about), "newer": {"memory": 1}})


if __name__ == "__main__":
    chat_log.fitted = fitted  # type: ignore[attr-defined]
    stored_turns._encoder = Encoder()  # type: ignore[assignment]
    nodes._json = described
    nodes.__version__ = VERSION  # type: ignore[attr-defined]
    sys.exit(main())
