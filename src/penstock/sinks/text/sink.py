"""The sink for people: a terminal, a log, a CI service. It is append-only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from penstock.config.rules import PATH, SWITCH, Rules, check, instance_of, one_of, optional, whole
from penstock.events import Delta, Event
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.layout import Layout
from penstock.sinks.text.run_summary import Guidance
from penstock.sinks.text.styles import palette
from penstock.sinks.text.visibility import Detail, Prefix, Prefixes, Service, Visibility
from penstock.sinks.text.wrapping import Margin

if TYPE_CHECKING:
    from penstock.sinks.text.rendering.rendered_text import Rendering

Mode = Literal["full", "basic", "none"]
Render = Literal["auto", "on", "off"]

MAX_COLUMNS = 1_000_000
"""Maximum columns of a terminal: more is a mistake."""

TEXT_RULES: Rules = {
    "mode": one_of(*get_args(Mode)),
    "detail": one_of(*get_args(Detail)),
    "color": SWITCH,
    "prefix": one_of(*get_args(Prefix)),
    "render": one_of(*get_args(Render)),
    "hyperlinks": SWITCH,
    "ci": optional(one_of(*get_args(Service))),
    "realtime": SWITCH,
    "mark_partial": SWITCH,
    "show_unknown": SWITCH,
    "width": optional(whole(1, MAX_COLUMNS)),
    "cwd": optional(PATH),
    "label_number": whole(0, MAX_COLUMNS),
    "label_width": whole(0, MAX_COLUMNS),
    "guidance": optional(instance_of(Guidance, "a penstock.sinks.text.run_summary.Guidance")),
}


def _rendering(kind: Literal["auto", "on"], has_links: bool) -> Rendering:
    from penstock.sinks.text.rendering.rendered_text import Rendering  # only if Markdown is rendered

    return Rendering(kind, has_links)


class TextSink:
    """Sink that writes events as lines for people.

    The mode decides when a line is written, never its text: `full` writes a line as it grows, `basic` and `none`
    write it once it is complete. For a stream without `block_revised`, `full` without its colours writes the same bytes
    as `none`. After a `block_revised`, `full` writes on a marked line what `none` wrote correctly the first time.

    A sink serves one run at a time. Several concurrent agents need a sink each, in `basic` or `none`, which write
    complete lines.

    Args:
        mode: when lines are written.
        detail: `quiet` is text and errors; `minimal` adds tool calls and the closing line; `normal` thinking, results,
            plans and notices; `verbose` complete inputs and results, usage and unknown events.
        color: SGR colours; `none` never has any.
        prefix: text in the brackets before each line: the agent, the kind of line, both, or no brackets.
        ci: CI service whose log is written, which then folds long results.
        realtime: False makes `full` write a line once it is complete.
        mark_partial: mark text that was cut off or superseded.
        show_unknown: show unknown events in `verbose`.
        width: columns of the terminal, to wrap lines by words; None inserts no line breaks.
        cwd: working directory of the run; paths in it are shown relative to it. An agent may report another.
        label_number: number of the agent among several, from 0, which selects the colour of its label.
        label_width: characters of the longest label of several, to which the others are padded; 0 for a single agent.
        guidance: words that only the program around the sink knows.
        render: how Markdown is shown. `off`: as it came, with colours; `auto`: its markers become styles; `on`: also
            with links, coloured code, tables, and words that are whole at the margin. Without colours it is `off`.
            The caller flushes what is held for too long: see `holds`.
        hyperlinks: the terminal shows hyperlinks (OSC 8).

    Raises:
        UsageError: an argument has another value.
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
        width: int | None = None,
        cwd: str | None = None,
        label_number: int = 0,
        label_width: int = 0,
        guidance: Guidance | None = None,
        render: Render = "off",
        hyperlinks: bool = False,
    ) -> None:
        words = {"mode": mode, "detail": detail, "prefix": prefix, "ci": ci}
        switches = {"realtime": realtime, "mark_partial": mark_partial, "show_unknown": show_unknown, "color": color}
        rendered = {"render": render, "hyperlinks": hyperlinks}
        sizes = {"width": width, "cwd": cwd, "label_number": label_number, "label_width": label_width}
        check({**words, **switches, **rendered, **sizes, "guidance": guidance}, TEXT_RULES)
        self._margin = Margin(width)
        self._layout = Layout(
            palette(color and mode != "none", label_number if label_width else None),
            live=mode == "full" and realtime,
            visibility=Visibility(detail, show_unknown=show_unknown, mark_partial=mark_partial),
            prefixes=Prefixes(prefix, label_width),
            margin=self._margin,
            paths=Paths(cwd),
            guidance=guidance or Guidance(),
            ci=ci,
            rendering=_rendering(render, hyperlinks) if render != "off" and color and mode != "none" else None,
        )

    def resize(self, width: int | None) -> None:
        """Set the `width` of the terminal, in columns, for the lines that follow.

        Raises:
            UsageError: it is not a number of columns, or None.
        """
        check({"width": width}, TEXT_RULES)
        self._margin.width = width

    def render(self, events: Iterable[Event]) -> str:
        """Return the text of these `events` to write now; "" for nothing."""
        layout = self._layout
        open_block, grow = layout.open_block, layout.grow
        for event in events:
            # The common case in few steps: more text for the open line.
            if type(event) is Delta and event.block == open_block:
                grow(event.text)
            else:
                layout.take(event)
                open_block, grow = layout.open_block, layout.grow
        layout.compact()
        return self._written() if layout.out else ""

    def close(self) -> str:
        """End the open line and return the waiting text, so that others may write. More events may follow."""
        self._layout.close()
        return self._written()

    @property
    def holds(self) -> dict[tuple[int, int], float]:
        """Held text, which is empty unless Markdown is rendered: a key for each, and the seconds that it may be held.

        A key stays the same while the same text is held. Call `flush_held` when the time of one is over.
        """
        return self._layout.holds

    def flush_held(self) -> str:
        """Return the text that rendering held back, as it came."""
        self._layout.flush_held()
        return self._written()

    def silent(self, seconds: int, agent: str) -> str:
        """Return a line saying that `agent` has been silent for this many `seconds`. It ends an unfinished line."""
        self._layout.silent(seconds, agent)
        return self._written()

    def _written(self) -> str:
        out = self._layout.out
        text = "".join(out)
        out.clear()
        return text
