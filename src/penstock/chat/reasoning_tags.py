"""Removal of the tags that models print into their text, while it streams.

Models whose thoughts or calls a server does not parse write them as tags: `<think>…</think>`,
`<tool_call>{…}</tool_call>`. Readers of a chat see neither the tags nor their content. Code, fenced or inline,
is never changed: a reply may be about these tags. The output does not depend on how the text was cut.
"""

from __future__ import annotations

import re
from typing import Literal

THOUGHTS = ("think", "thinking", "reasoning")
CALLS = (
    "tool_call",  # Hermes, Qwen, GLM
    "tool_calls",
    "tool_response",  # the same templates, for results that a model makes up
    "tool_use",
    "tool_result",
    "tool_code",  # Gemini and Gemma: a call written as code
    "function_calls",  # Claude, also with a prefix
    "function_results",
    "invoke",
)
"""Names of tags that are removed wherever they are. `<function=NAME>` (Qwen's coders) is one more; it needs its `=`."""

MAX_TAG_CHARS = 200
"""Characters of the longest tag with its attributes; a `<` without an end within that is text."""

MAX_SPAN_CHARS = 1000
"""Characters within which the end of inline code is searched before a tag inside of it is accepted as code."""

MAX_RUN_CHARS = 64
MAX_LINE_CHARS = 256
"""Characters of a run of backticks, and of a line that can close a fence.

A longer line inside of a fence does not close it, and a longer run counts as two: the text that is held back until more
arrives is bounded.
"""

_BLANK = " \t\r\n"
_NAMES = "|".join(sorted(THOUGHTS + CALLS, key=len, reverse=True))
_OPEN = re.compile(
    rf"<(?:[a-z]{{1,10}}:)?(?:(?P<name>{_NAMES})(?:[ \t][^<>\n]*)?|(?P<call>function)=[^<>\s]+)/?>", re.IGNORECASE
)
_CLOSE = re.compile(rf"</(?:[a-z]{{1,10}}:)?(?:{_NAMES}|function)[ \t]*>", re.IGNORECASE)
_BEGUN = re.compile(
    rf"</?(?:[a-z]{{1,10}}:)?(?:[a-z_]{{0,24}}|(?:{_NAMES})(?:[ \t/][^<>\n]*)|function(?:=[^<>\s]*|[ \t]+))",
    re.IGNORECASE,
)
_ENDS = {
    name: re.compile(rf"</(?:[a-z]{{1,10}}:)?{name}\s{{0,8}}>", re.IGNORECASE)
    for name in (*THOUGHTS, *CALLS, "function")
}
_MAX_END_CHARS = 40  # length of the longest match of `_ENDS`
_RUN = f"`{{1,{MAX_RUN_CHARS}}}"
_IN_TEXT = re.compile(rf"{_RUN}|~{{1,{MAX_RUN_CHARS}}}|<")
_IN_SPAN = re.compile(rf"{_RUN}|\n|<")
_LOOKED_FOR = re.compile(rf"{_RUN}|\n")
# Characters allowed before a fence on its line: quotes and list items can hold one.
_HEAD = re.compile(r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*")
_FENCE_END = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t\r]*")
_FENCE_END_BEGUN = re.compile(r"[ \t>]*(?:`*|~*)[ \t\r]*")

Step = tuple[int, bool]
"""Index up to which the text was read, and whether more text is needed to decide on the rest."""


def strip_tags(text: str) -> str:
    """Return a whole text without its tags and their content, exactly as a `TagStripper` returns its pieces."""
    stripper = TagStripper()
    return stripper.feed(text) + stripper.close()


class TagStripper:
    """Filter that removes the tags from one block of text.

    A tag without an end hides the rest of its block. For an end without a tag, only the end is removed: the beginning
    of the thoughts is not known. White space around removed text becomes that of one gap, and none at the beginning or
    the end of the text. White space is held back until a character follows it, so it may be returned a piece later.
    """

    __slots__ = ("_before", "_fence", "_gap", "_head", "_held", "_line_start", "_mode", "_out", "_removed", "_said",
                 "_ticks", "_until")  # fmt: skip

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._mode: Literal["text", "span", "fence", "hidden"] = "text"
        self._held = ""  # read again with what follows
        self._out: list[str] = []
        self._head = ""  # the beginning of the line that is open
        self._ticks = 0  # number of backticks that opened the inline code
        self._fence = ""  # the run that opened the fence, or may have opened it
        self._line_start = False  # in a fence
        self._until = _ENDS["think"]
        self._gap: list[str] = []  # white space after the last character
        self._before = ""  # white space before the removed text
        self._removed = False  # something was removed since the last character
        self._said = False  # any character was returned

    def feed(self, text: str) -> str:
        """Return the visible text that these characters add; "" while it is undecided."""
        if self._mode == "text" and not self._held and not _IN_TEXT.search(text):
            self._say(text)
            return self._taken()
        return self._read(self._held + text, False)

    def close(self) -> str:
        """Return the rest, at the end of the block. Further text belongs to another block."""
        rest = self._read(self._held, True)
        if not self._removed:
            rest += "".join(self._gap)
        self._reset()
        return rest

    def _taken(self) -> str:
        said = "".join(self._out)
        self._out.clear()
        return said

    def _read(self, text: str, final: bool) -> str:
        at, waits = 0, False
        while at < len(text) and not waits:
            if self._mode == "text":
                at, waits = self._in_text(text, at, final)
            elif self._mode == "span":
                at, waits = self._in_span(text, at, final)
            elif self._mode == "fence":
                at, waits = self._in_fence(text, at, final)
            else:
                at, waits = self._in_hidden(text, at, final)
        self._held = text[at:]
        return self._taken()

    # --- modes of the reader -----------------------------------------------------------------------

    def _in_text(self, text: str, at: int, final: bool) -> Step:
        found = _IN_TEXT.search(text, at)
        if found is None:
            self._say(text[at:])
            return len(text), False
        start, run = found.start(), found[0]
        self._say(text[at:start])
        if run == "<":
            return self._tag(text, start, final)
        if _goes_on(found, text, final):
            return start, True
        fence = len(run) >= 3 and _HEAD.fullmatch(self._head) is not None
        self._say(run)
        self._fence = run if fence else ""
        if run[0] == "`":
            self._mode, self._ticks = "span", len(run)  # a fence only if no backtick follows on its line
        elif fence:
            self._mode, self._line_start = "fence", False
        return found.end(), False

    def _in_span(self, text: str, at: int, final: bool) -> Step:
        found = _IN_SPAN.search(text, at)
        if found is None:
            self._say(text[at:])
            return len(text), False
        start, what = found.start(), found[0]
        self._say(text[at:start])
        if what == "\n":
            self._mode, self._line_start = ("fence" if self._fence else "text"), True
        elif what == "<":
            tag = _tag_at(text, start, final)
            if tag is None:
                return start, True
            code = self._is_code(text, start, final) if tag else True
            if code is None:
                return start, True
            if not code:
                self._mode = "text"  # the backtick was only a backtick
                return start, False
        else:
            if _goes_on(found, text, final):
                return start, True
            self._fence = ""
            if len(what) == self._ticks:
                self._mode = "text"
        self._say(what)
        return found.end(), False

    def _is_code(self, text: str, start: int, final: bool) -> bool | None:
        """Return whether a tag after a backtick is inline code, which ends on its line; None while it is undecided."""
        window = text[start : start + MAX_SPAN_CHARS]
        fence = bool(self._fence)
        for found in _LOOKED_FOR.finditer(window):
            if found[0] == "\n":
                return fence
            if len(window) < MAX_SPAN_CHARS and _goes_on(found, window, final):
                return None
            if len(found[0]) == self._ticks:
                return True
            fence = False
        return False if final or len(window) == MAX_SPAN_CHARS else None

    def _in_fence(self, text: str, at: int, final: bool) -> Step:
        end = text.find("\n", at)
        if not self._line_start:
            stop = len(text) if end < 0 else end + 1
            self._say(text[at:stop])
            self._line_start = end >= 0
            return stop, False
        line = text[at:end] if end >= 0 else text[at:]
        if len(line) < MAX_LINE_CHARS:
            if end < 0 and not final and _FENCE_END_BEGUN.fullmatch(line):
                return at, True
            closing = _FENCE_END.fullmatch(line)
            if closing is not None and closing[1].startswith(self._fence):
                self._say(line)
                self._mode = "text"
                return at + len(line), False
        self._line_start = False
        return at, False

    def _in_hidden(self, text: str, at: int, final: bool) -> Step:
        found = self._until.search(text, at)
        if found is not None:
            self._mode = "text"
            return found.end(), False
        last = text.rfind("<", at)
        if last >= 0 and not final and len(text) - last < _MAX_END_CHARS:
            return last, True
        return len(text), False

    # --- tags and gaps -----------------------------------------------------------------------------

    def _tag(self, text: str, start: int, final: bool) -> Step:
        tag = _tag_at(text, start, final)
        if tag is None:
            return start, True
        if not tag:
            self._say("<")
            return start + 1, False
        self._remove()
        opening = _OPEN.fullmatch(tag)
        if opening is not None and not tag.endswith("/>"):
            self._mode = "hidden"
            self._until = _ENDS[(opening["name"] or opening["call"]).lower()]
        return start + len(tag), False

    def _say(self, text: str) -> None:
        """Emit text without the white space at its end, which may turn out to precede a tag."""
        line = text.rfind("\n") + 1
        # One character more than can matter, so that a longer line is recognized as longer.
        self._head = (("" if line else self._head) + text[line : line + MAX_RUN_CHARS + 1])[: MAX_RUN_CHARS + 1]
        rest = text.lstrip(_BLANK)
        self._gap.append(text[: len(text) - len(rest)])
        if not rest:
            return
        body = rest.rstrip(_BLANK)
        gap = "".join(self._gap)
        self._out += ((self._merged(gap) if self._removed else gap), body)
        self._gap = [rest[len(body) :]]
        self._removed = False
        self._said = True

    def _remove(self) -> None:
        gap = "".join(self._gap)
        self._before = self._merged(gap) if self._removed else gap
        self._gap = []
        self._removed = True

    def _merged(self, after: str) -> str:
        """Return one gap for the two around removed text: the one with more lines, with the later indentation."""
        _, line, indentation = after.rpartition("\n")
        if not self._said:
            return indentation if line else ""
        before = self._before
        if after.count("\n") > before.count("\n"):
            return after
        if "\n" in before:
            return before[: before.rindex("\n") + 1] + indentation if line else before
        return before or after


def _tag_at(text: str, start: int, final: bool) -> str | None:
    """Return the tag that begins at `start`, "" if there is none, None while it is undecided."""
    window = text[start : start + MAX_TAG_CHARS]
    found = _OPEN.match(window) or _CLOSE.match(window)
    if found is not None:
        return found[0]
    if not final and len(window) < MAX_TAG_CHARS and _BEGUN.fullmatch(window):
        return None
    return ""


def _goes_on(run: re.Match[str], text: str, final: bool) -> bool:
    """Return whether a run of one character at the end of the text may become longer."""
    return not final and run.end() == len(text) and len(run[0]) < MAX_RUN_CHARS
