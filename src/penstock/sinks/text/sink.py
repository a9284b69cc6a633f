"""The sink for people: a terminal, a log, a CI service. It writes at the end of what it wrote, and only there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from penstock.config.rules import SWITCH, Rules, check, one_of, optional
from penstock.events import Delta, Event
from penstock.sinks.text.layout import Layout
from penstock.sinks.text.theme import COLOURS, PLAIN
from penstock.sinks.text.visibility import Detail, Look, Prefix, Service

Mode = Literal["full", "basic", "none"]

TEXT_RULES: Rules = {
    "mode": one_of(*get_args(Mode)),
    "detail": one_of(*get_args(Detail)),
    "color": SWITCH,
    "prefix": one_of(*get_args(Prefix)),
    "ci": optional(one_of(*get_args(Service))),
    "realtime": SWITCH,
    "mark_partial": SWITCH,
    "show_unknown": SWITCH,
}


class TextSink:
    """Events as lines for people.

    A mode says when a line leaves, never what it says: `full` writes a line as it grows, `basic` and `none`
    write it once it is whole. With its colours taken out, `full` writes the bytes of `none`, for every
    stream without `block_revised`; after one, `full` shows on a marked line what `none` never wrote wrong.

    One sink serves one run at a time; several agents at once have a sink each, in `basic` or `none`, whose
    output is whole lines.

    Args:
        mode: when lines leave.
        detail: `quiet` text and errors; `minimal` tool calls and the closing line too; `normal` thinking,
            results, plans and notices too; `verbose` whole inputs and results, usage, unknown events.
        color: SGR colours; `none` never has any.
        prefix: what stands in the brackets before each line: the agent, the kind of line, both, no brackets.
        ci: the service whose log is written to, which then folds long results.
        realtime: False makes `full` write a line once it is whole.
        mark_partial: words on what was cut off or given up, and a dim prefix while a block streams.
        show_unknown: unknown events, in `verbose`.

    Raises:
        UsageError: one of them is something else.
    """

    def __init__(
        self,
        mode: Mode,
        *,
        detail: Detail = "normal",
        color: bool = False,
        prefix: Prefix = "agent",
        ci: Service | None = None,
        realtime: bool = True,
        mark_partial: bool = True,
        show_unknown: bool = True,
    ) -> None:
        words = {"mode": mode, "detail": detail, "prefix": prefix, "ci": ci}
        switches = {"realtime": realtime, "mark_partial": mark_partial, "show_unknown": show_unknown, "color": color}
        check({**words, **switches}, TEXT_RULES)
        self._layout = Layout(
            COLOURS if color and mode != "none" else PLAIN,
            live=mode == "full" and realtime,
            look=Look(detail, show_unknown=show_unknown, mark_partial=mark_partial),
            prefix=prefix,
            ci=ci,
        )

    def render(self, events: Iterable[Event]) -> str:
        """What to write now; "" for nothing."""
        layout = self._layout
        open_block, grow = layout.open_block, layout.grow
        for event in events:
            # The common case, in few steps: more text for the line that is open.
            if type(event) is Delta and event.block == open_block:
                grow(event.text)
            else:
                layout.take(event)
                open_block, grow = layout.open_block, layout.grow
        layout.compact()
        return self._written() if layout.out else ""

    def close(self) -> str:
        """End the open line and give out what waits; somebody else may write. The run may go on, or another begin."""
        self._layout.close()
        return self._written()

    def _written(self) -> str:
        out = self._layout.out
        text = "".join(out)
        out.clear()
        return text
