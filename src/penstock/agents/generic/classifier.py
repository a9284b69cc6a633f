"""Classifier of the events of an unknown format.

It uses three sources, in this order: the user's configuration (`overrides`), the event's name, and its content compared
with the earlier content under the same key. If they give no answer, counts decide: of lines, never of time, so that a
recording always gets the same verdicts. Nothing is ever dropped here; a wrong verdict costs a line break or a marked
revision, never text.
"""

from __future__ import annotations

import enum
import re
from collections import OrderedDict, deque
from collections.abc import Mapping
from functools import lru_cache

from penstock.config.rules import STRING, Rules, check, instance_of, optional
from penstock.errors import UsageError, shown

MAX_KEYS = 256
"""Number of streams of content that are followed at once; the one that was silent longest is forgotten."""

MAX_HISTORY = 512
"""Number of lines that the counts look back over."""

MAX_HEAD_CHARS = 4096
"""Characters of the last content that are kept to check whether the next one begins with it."""

MIN_PREFIX_CHARS = 4
"""Characters of a common beginning that counts as one; a shorter one ("a", "an") is chance."""

MIN_RUN = 4
"""Number of consecutive short contents under one name that make a stream of pieces."""

SHORT_CHARS = 48
"""Characters of a short content. Models' tokens, and the chunks that agents make of them, are shorter than this;
messages rarely are."""

NO_MORE = "nothing says that more of it follows"
"""Reason for COMPLETE if neither a name nor the content gives any other: the weakest of all."""


class StreamEventType(enum.Enum):
    """Relation of an event's content to the text of the stream."""

    COMPLETE = "complete"
    """Whole: a message, a result, or the end of what was streamed."""
    DELTA = "delta"
    """Only the new piece."""
    SNAPSHOT = "snapshot"
    """All so far, longer each time."""
    CONTROL = "control"
    """About the stream, not content."""
    UNKNOWN = "unknown"
    """No source gives an answer."""


_DELTA = frozenset({
    "delta", "deltas", "partial", "chunk", "chunks", "progress", "fragment", "token", "tokens", "incremental",
    "piece", "append"
})  # fmt: skip
_SNAPSHOT = frozenset({"snapshot", "accumulated", "cumulative"})
_UPDATE = frozenset({"update", "updated", "updating", "changed"})
_COMPLETE = frozenset({
    "complete", "completed", "done", "final", "finish", "finished", "result", "stop", "stopped", "end",
    "ended", "full", "whole"
})  # fmt: skip
_CONTROL = frozenset({
    "start", "started", "begin", "began", "init", "initialized", "initialised", "open", "opened", "close",
    "closed", "ping", "pong", "heartbeat", "keepalive", "alive", "connected", "connecting", "reconnecting",
    "ready", "queued", "created", "ack", "noop", "status", "session", "config", "usage", "metrics", "stats",
    "telemetry", "hook"
})  # fmt: skip

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@lru_cache(maxsize=1024)
def words(name: str) -> frozenset[str]:
    """Return the words of an event's name, in lower case: `contentBlock_delta` has content, block and delta."""
    return frozenset(word.lower() for word in _WORD.findall(name))


class NoSuchType(UsageError, ValueError):
    """An override names no type of event."""


CLASSIFIER_RULES: Rules = {
    "overrides": optional(instance_of(Mapping, "a mapping of names of events to types")),
    "event_type": STRING,
    "content": optional(STRING),
    "key": STRING,
}


class _Track:
    """Contents that came under one key."""

    __slots__ = ("accumulating", "grown", "head", "size")

    def __init__(self) -> None:
        self.head = ""  # the beginning of the last content
        self.size = 0  # its length
        self.grown = 0  # how often a content began with the one before it
        self.accumulating = False


class StreamEventClassifier:
    """Classifier of one stream's events, one by one, in their order.

    Args:
        overrides: event name to the name or value of a `StreamEventType` ("delta", "COMPLETE"); they override all
            other sources.

    Raises:
        UsageError: an override names no such type (it is a ValueError too), or is otherwise invalid.
    """

    def __init__(self, overrides: Mapping[str, str | StreamEventType] | None = None) -> None:
        check({"overrides": overrides}, CLASSIFIER_RULES)
        self._overrides = {name: _type(kind) for name, kind in (overrides or {}).items()}
        self._tracks: OrderedDict[str, _Track] = OrderedDict()
        self._history: deque[tuple[str, bool]] = deque(maxlen=MAX_HISTORY)
        self.reason: str = ""
        """Reason of the last verdict, in a few words."""

    def classify(self, event_type: str, content: str | None = None, key: str = "") -> StreamEventType:
        """Return the type of one event.

        Args:
            event_type: its name as the wire has it, "" if it has none.
            content: its text, if it has some.
            key: distinguishes streams of content (a block's id); the same one for all if none is known.

        Raises:
            UsageError: one of them is not a string.
        """
        if type(event_type) is not str or type(key) is not str or (content is not None and type(content) is not str):
            check({"event_type": event_type, "content": content, "key": key}, CLASSIFIER_RULES)
        track = self._track(key)
        kind, self.reason = self._judge(event_type, content, track)
        if content:
            self._history.append((event_type, len(content) <= SHORT_CHARS))
            track.head, track.size = content[:MAX_HEAD_CHARS], len(content)
        if kind is StreamEventType.COMPLETE:
            track.accumulating = False
            track.head, track.size, track.grown = "", 0, 0
        elif kind in (StreamEventType.DELTA, StreamEventType.SNAPSHOT) and content:
            track.accumulating = True
        return kind

    def is_accumulating(self, key: str = "") -> bool:
        """Return whether content under `key` was begun and is not complete."""
        track = self._tracks.get(key)
        return track is not None and track.accumulating

    def settle(self) -> None:
        """Complete everything that was begun: the wire ended the message, not its content."""
        self._tracks.clear()

    def _track(self, key: str) -> _Track:
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = _Track()
            if len(self._tracks) > MAX_KEYS:
                self._tracks.popitem(last=False)
        else:
            self._tracks.move_to_end(key)
        return track

    def _judge(self, name: str, content: str | None, track: _Track) -> tuple[StreamEventType, str]:
        override = self._overrides.get(name)
        if override is not None:
            return override, f"the configuration says so for {name!r}"
        named = _by_name(name, content)
        if named is not None:
            return named
        if content is None:
            return StreamEventType.UNKNOWN, "it has no content, and its name has no known word"
        if not content:
            return StreamEventType.CONTROL, "its content is empty"
        return self._by_content(name, content, track) or self._by_counts(name, content, track)

    def _by_content(self, name: str, content: str, track: _Track) -> tuple[StreamEventType, str] | None:
        if track.size >= MIN_PREFIX_CHARS and len(content) >= track.size and content.startswith(track.head):
            if len(content) > track.size:
                track.grown += 1
                return StreamEventType.SNAPSHOT, "it begins with the content before it and continues"
            if track.grown:
                return StreamEventType.SNAPSHOT, "it is the growing content before it again"
        if words(name) & _UPDATE:
            return StreamEventType.DELTA, "an update that does not repeat what came before"
        if _unclosed(content):
            return StreamEventType.DELTA, "its content is JSON that is not closed yet"
        return None

    def _by_counts(self, name: str, content: str, track: _Track) -> tuple[StreamEventType, str]:
        run = 0
        for earlier, short in reversed(self._history):
            if earlier != name or not short:
                break
            run += 1
            if run >= MIN_RUN:
                break
        if run >= MIN_RUN and len(content) <= SHORT_CHARS:
            return StreamEventType.DELTA, f"{run} short contents of the same name came right before it"
        if track.accumulating and run and len(content) <= SHORT_CHARS:
            return StreamEventType.DELTA, "it continues what was begun"
        if len(content) <= SHORT_CHARS and _cut_off(content):
            return StreamEventType.DELTA, "it is short and ends in the middle of a sentence"
        return StreamEventType.COMPLETE, NO_MORE


def _type(kind: str | StreamEventType) -> StreamEventType:
    if isinstance(kind, StreamEventType):
        return kind
    try:
        return StreamEventType(kind.lower())
    except (ValueError, AttributeError):
        known = ", ".join(each.value for each in StreamEventType)
        raise NoSuchType(
            f"{shown(kind)} is not a type of event; there are: {known}", help="correct overrides"
        ) from None


def _by_name(name: str, content: str | None) -> tuple[StreamEventType, str] | None:
    said = words(name)
    for kind, vocabulary in (
        (StreamEventType.DELTA, _DELTA),
        (StreamEventType.SNAPSHOT, _SNAPSHOT),
        (StreamEventType.COMPLETE, _COMPLETE),
    ):
        if found := said & vocabulary:
            if kind is not StreamEventType.COMPLETE and content is None:
                return StreamEventType.CONTROL, f"its name says {min(found)!r}, but it has no content"
            return kind, f"its name says {min(found)!r}"
    if content is None and (found := said & (_CONTROL | _UPDATE)):
        return StreamEventType.CONTROL, f"its name says {min(found)!r} and it has no content"
    return None


def _cut_off(content: str) -> bool:
    """Return whether a text ends or begins as no message would."""
    return content[-1] == " " or content[-1].isalnum() or content[-1] in ",;-–(/'\"" or content[0] == " "


def _unclosed(content: str) -> bool:
    """Return whether a text begins as JSON and its brackets do not all close. Only its first characters count."""
    if content[0] not in "{[":
        return False
    depth, quoted, escaped = 0, False, False
    for char in content[:MAX_HEAD_CHARS]:
        if escaped:
            escaped = False
        elif quoted:
            escaped = char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if not depth:
                return False
    return len(content) <= MAX_HEAD_CHARS
