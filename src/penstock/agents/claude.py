"""Claude Code: `claude -p … --output-format stream-json --verbose [--include-partial-messages]`.

And `ccs` profiles, which are Claude Code before another model's server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from penstock.agents._claude_like import ClaudeLike, MessageDelta, MessageStop
from penstock.updates import MessageEnd, Traits, Update


class Claude(ClaudeLike):
    """A message ends with its stop reason.

    A `message_stop` without one was made up by the CLI where the server began the message again, or gives
    blocks of it up.
    """

    name: ClassVar[str] = "claude"

    def _message_delta(self, api: MessageDelta, lane: str | None) -> Iterator[Update]:
        yield from super()._message_delta(api, lane)
        if api.delta is not None and api.delta.stop_reason is not None:
            yield MessageEnd(lane=lane, stop_reason=api.delta.stop_reason)

    def _message_stop(self, api: MessageStop, lane: str | None) -> Iterator[Update]:
        if api.abandoned_blocks is not None:
            yield MessageEnd(lane=lane, abandoned_from=api.abandoned_blocks.from_block_index)


class Ccs(Claude):
    """The same wire through a proxy whose server may send snapshots for deltas."""

    name: ClassVar[str] = "ccs"
    traits: ClassVar[Traits] = Traits(block_ends=True, finals=True, armed=True)
