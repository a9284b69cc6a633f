"""Items of a document's queue: prompts that are run one by one, and are struck through when they are done."""

from __future__ import annotations

import re

import msgspec

from penstock.doc.components import find_component
from penstock.doc.lines import split_lines, without_end

QUEUE = "queue"
"""Name of the component that holds the items."""

_ITEM = re.compile(r"(?P<bullet>[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+)(?P<box>\[[ xX]\][ \t]+)?(?P<text>\S.*)$")
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_DONE = "done"
"""Last word of the line that opens a code fence, if its prompt is done: text in code cannot be struck through."""


class QueueItem(msgspec.Struct, frozen=True):
    """A prompt of the queue. `line` is its first line, which is edited when it is done."""

    line: str
    prompt: str


def queue_items(text: str) -> tuple[QueueItem, ...]:
    """Return the open items of a document, in their order: list items, and prompts in code fences."""
    component = find_component(text, QUEUE)
    if component is None:
        return ()
    lines = [without_end(line) for line in split_lines(text[component.start : component.end])]
    items: list[QueueItem] = []
    position = 0
    while position < len(lines):
        end, item = _item(lines, position)
        if item:
            items.append(item)
        position = end
    return tuple(items)


def _item(lines: list[str], start: int) -> tuple[int, QueueItem | None]:
    """Return the end of what begins at a line, and the item, if it is one that is not done."""
    line = lines[start]
    fence = _FENCE.match(line)
    if fence:
        closing = re.compile(rf"[ \t]*{fence['fence'][0]}{{{len(fence['fence'])},}}[ \t]*$")
        end = next((i for i in range(start + 1, len(lines)) if closing.match(lines[i])), len(lines))
        prompt = "\n".join(lines[start + 1 : end]).strip("\n")
        is_open = prompt.strip() and fence["info"].split()[-1:] != [_DONE]
        return end + 1, QueueItem(line, prompt) if is_open else None
    found = _ITEM.match(line)
    if not found:
        return start + 1, None
    end = start + 1
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > _indent(line):
        end += 1
    if _is_done(found["box"], found["text"]):
        return end, None
    return end, QueueItem(line, "\n".join([found["text"], *lines[start + 1 : end]]))


def _is_done(box: str | None, text: str) -> bool:
    text = text.rstrip()
    return (box or "").strip().lower() == "[x]" or (len(text) > 4 and text.startswith("~~") and text.endswith("~~"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def struck(line: str) -> str:
    """Return the first line of an item as it is when the item is done: ticked, struck through, or marked."""
    found = _ITEM.match(line)
    if found is None:
        return re.sub(r"(?<=[^`~])$", " ", line.rstrip()) + _DONE
    if found["box"]:
        return found["bullet"] + "[x]" + found["box"][3:] + found["text"]
    return f"{found['bullet']}~~{found['text'].rstrip()}~~"


def with_struck(text: str, line: str) -> str | None:
    """Return the text with an item struck through; None if its line was changed or removed."""
    component = find_component(text, QUEUE)
    if component is None:
        return None
    position = component.start
    for found in split_lines(text[component.start : component.end]):
        if without_end(found) == line:
            return text[:position] + struck(line) + text[position + len(line) :]
        position += len(found)
    return None
