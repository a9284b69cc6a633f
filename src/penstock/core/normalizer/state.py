"""Records of the normalizer: blocks, messages, lanes. All of them are bounded."""

from __future__ import annotations

import msgspec

from penstock.core.normalizer.snapshots import MIN_PREFIX_CHARS, SnapshotGuess
from penstock.events import Kind
from penstock.updates import MessagePhase, Place, Text
from penstock.updates import Usage as Figures

MAX_BLOCK_CHARS = 16 * 1024 * 1024
"""Maximum characters of one block that are kept for its `block_ended`. Further deltas are emitted, and the end is
marked `truncated`."""

MAX_REPLY_CHARS = 2 * MAX_BLOCK_CHARS
"""Maximum characters of one round that are kept for the reply."""

MAX_MESSAGES = 64
"""Maximum number of ended messages of a lane that a late final can be matched with."""

MAX_BLOCKS = 4096
"""Maximum number of ended blocks of one message that a late final can be matched with."""

PARTS = 512
"""Maximum number of separate pieces of a block's text; more are joined, to keep memory near the size of the text."""

PlaceKey = int | str | tuple[str, str]


class Block:
    """One block of text. `number` is 0 until it starts; its text is kept in parts."""

    __slots__ = (
        "_counted",
        "_joined",
        "_size",
        "_tail",
        "call_id",
        "ended",
        "final",
        "guess",
        "half",
        "held",
        "kind",
        "message",
        "name",
        "number",
        "open",
        "parent",
        "parts",
        "plain",
        "repeats",
        "superseded",
        "truncated",
        "whole",
    )

    def __init__(
        self,
        kind: Kind,
        message: Message | None,
        parent: str | None,
        call_id: str | None = None,
        name: str | None = None,
        guess: SnapshotGuess | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.message: Message | None = message  # None for the output of a call
        self.parent: str | None = parent  # its lane
        self.call_id: str | None = call_id
        self.name: str | None = name
        self.guess: SnapshotGuess | None = guess  # None if deltas of this wire are always new text
        self.number: int = 0
        self.held: bool = False  # output of a call that has not been emitted yet
        self.open: bool = False  # its start was emitted, its end was not
        self.ended: bool = False
        self.whole: bool = False  # the wire marked its end
        self.final: bool = False  # the wire repeated it completely
        self.plain: bool = False  # nothing is held back or guessed: a delta is new text, unchanged
        self.superseded: bool = False
        self.repeats: bool = False  # the input of a call that was emitted already, sent again
        self.half: str = ""  # the first half of a surrogate pair, held back
        self.parts: list[str] = []  # the newest text that was emitted
        self._joined: list[str] = []  # the text before it
        self._size = 0  # characters of the text before it, kept or not
        self._tail = 0  # characters of the first `_counted` parts
        self._counted = 0
        self.truncated: bool = False

    @property
    def waits(self) -> bool:
        """True if it cannot start yet: input before its tool's name, output before its call."""
        return not self.name if self.kind == "tool_input" else self.held

    @property
    def repaired(self) -> bool:
        """True if one of its deltas was found to be a snapshot."""
        return self.guess is not None and self.guess.repaired

    def is_joined_deltas(self, text: str) -> bool:
        """Return whether `text` is exactly its received deltas, joined, on a wire whose deltas may be snapshots."""
        return self.guess is not None and self.guess.is_joined(text)

    def add(self, text: str) -> None:
        """Keep text that was emitted."""
        self.parts.append(text)

    def compact(self) -> None:
        """Join the newest parts, and drop text beyond the limit. This copies each character once."""
        text = "".join(self.parts)
        self._clear_parts()
        free = MAX_BLOCK_CHARS - self._size
        self._size += len(text)
        if len(text) > free:
            self.truncated = True
            text = text[: max(free, 0)]
        self._joined.append(text)

    @property
    def size(self) -> int:
        """Number of characters that were emitted, kept or not."""
        if len(self.parts) > PARTS:
            self.compact()
        if len(self.parts) > self._counted:  # each part is counted once, however often the size is requested
            self._tail += sum(map(len, self.parts[self._counted :]))
            self._counted = len(self.parts)
        return self._size + self._tail

    @property
    def text(self) -> str:
        """Text that was emitted, as far as it is kept."""
        if self.parts:
            self.compact()
        if len(self._joined) > 1:
            self._joined = ["".join(self._joined)]
        return self._joined[0] if self._joined else ""

    def set_text(self, text: str) -> None:
        """Replace the text that was emitted."""
        self._joined = []
        self._size = 0
        self.truncated = False
        self._clear_parts()
        self.parts.append(text)

    def _clear_parts(self) -> None:
        self.parts.clear()
        self._tail = self._counted = 0


class Message:
    """One model message."""

    __slots__ = (
        "blocks",
        "cut_at_limit",
        "ended",
        "explicit",
        "key",
        "number",
        "phase",
        "places",
        "restarting",
        "usage",
        "usage_model",
        "wire_key",
    )

    def __init__(self, key: str | None, number: int, explicit: bool) -> None:
        self.key: str | None = key
        self.wire_key: str | None = key  # the wire's own id, which differs if it continues another message
        self.number: int = number
        self.explicit: bool = explicit  # the wire marked its start, so it will mark its end
        self.ended: bool = False
        self.cut_at_limit: bool = False  # the model stopped at its output limit, in the middle of a text
        self.phase: MessagePhase | None = None  # the agent's own name for its text
        self.restarting: bool = False  # its start came again; the next block shows whether the message restarts
        self.blocks: list[Block] = []
        self.places: dict[PlaceKey, Block] = {}
        self.usage: Figures | None = None
        self.usage_model: str | None = None

    def is_named(self, key: str | None) -> bool:
        """Return whether `key` is an id of this message."""
        return key is not None and key in (self.key, self.wire_key)

    def add(self, block: Block, place: PlaceKey) -> None:
        """Keep a new block at `place`."""
        self.blocks.append(block)
        self.places[place] = block
        if len(self.blocks) > MAX_BLOCKS:
            kept = self.blocks[-MAX_BLOCKS // 2 :]
            self.blocks = [old for old in self.blocks[: -len(kept)] if not old.ended] + kept
            self.places = {at: old for at, old in self.places.items() if not old.ended or old in kept}

    def release(self) -> None:
        """Drop the references of ended blocks to this message, so that all are freed without the garbage collector."""
        for block in self.blocks:
            if block.ended:
                block.message = None

    def unfinished(self, kind: Kind, whole: str | None = None) -> Block | None:
        """Return the block of this kind that `whole`, its complete text, repeats; without `whole`, the oldest one.

        Only blocks that were not yet repeated completely are considered. Some never are, such as blank or superseded
        ones: therefore the first block whose text `whole` continues is preferred to the oldest.
        """
        found = [block for block in self.blocks if block.kind == kind and not block.final]
        if whole and len(found) > 1:
            for block in found:
                if block.size and (whole.startswith(block.text) or block.is_joined_deltas(whole)):
                    return block
        return found[0] if found else None

    def find_repeated(self, kind: Kind, text: str) -> Block | None:
        """Return the finished block that a full frame repeats, on a wire whose snapshots are repaired."""
        if len(text) < MIN_PREFIX_CHARS:
            return None
        for block in self.blocks:
            if block.kind == kind and (block.text == text or block.is_joined_deltas(text)):
                return block
        return None

    def claim_early(self, key: PlaceKey, kind: Kind) -> Block | None:
        """Return the block whose full frame came before its first delta, and make `key` its place."""
        if key in self.places:
            return None
        for block in self.blocks:
            if block.kind == kind and block.guess is not None and block.guess.is_early:
                self.places[key] = block
                return block
        return None

    def has_frame(self, update: Text) -> bool:
        """Return whether a text under another message id is the full frame of one of its blocks."""
        if update.mode != "final":
            return False
        block = self.unfinished(update.kind)
        if block is None:
            repeated = self.find_repeated(update.kind, update.text)
            # On a wire that streams texts, a new text has deltas. Without deltas, an equal text may be a separate one.
            return repeated is not None and repeated.guess is not None and repeated.guess.has_deltas
        if block.is_joined_deltas(update.text):
            return True
        return block.size >= MIN_PREFIX_CHARS and update.text.startswith(block.text)

    @property
    def is_whole(self) -> bool:
        """True if the wire marked the end of each block."""
        return all(block.ended or block.whole for block in self.blocks)

    @property
    def text(self) -> str:
        """Text of its text blocks, joined without separators."""
        return "".join(block.text for block in self.blocks if block.kind == "text" and block.number)

    @property
    def reply(self) -> str:
        """Part of the reply in this message: its text, without superseded blocks."""
        return "".join(
            block.text for block in self.blocks if block.kind == "text" and block.number and not block.superseded
        )


class Lane:
    """Lane of the top agent (`parent` None) or of one sub-agent."""

    __slots__ = (
        "finals",
        "has_content",
        "message",
        "messages",
        "parent",
        "replied",
        "results_seen",
        "round",
        "round_chars",
        "rounds",
    )

    def __init__(self, parent: str | None) -> None:
        self.parent: str | None = parent
        self.message: Message | None = None  # the current one; it may have ended
        self.messages: dict[str, Message] = {}  # by id, the recent ones
        self.round: list[Message] = []  # messages of the open round
        self.round_chars: int = 0
        self.finals: list[Message] = []  # the agent's answer, from the last earlier round of this turn that has one
        self.replied: bool = False  # the answer of the turn was given; the next round begins another turn
        self.rounds: int = 0
        self.has_content: bool = False  # a block of the open round started
        self.results_seen: bool = False  # the next message opens a new round

    @property
    def open_message(self) -> Message | None:
        """Current message, if it has not ended."""
        return None if self.message is None or self.message.ended else self.message

    def remember(self, message: Message) -> None:
        """Make `message` the current one."""
        self.message = message
        for key in {message.key, message.wire_key} - {None}:
            assert key is not None
            self.messages.pop(key, None)
            self.messages[key] = message
            if len(self.messages) > MAX_MESSAGES:
                self._forget_oldest()
        if self.results_seen and not self.continues(message):
            self._new_round()
        self.results_seen = False
        self.round.append(message)

    def _forget_oldest(self) -> None:
        gone = self.messages.pop(next(iter(self.messages)))
        if gone.ended and self.messages.get(gone.key or "") is not gone:
            gone.release()

    def key_for(self, key: str | None) -> str | None:
        """Return the id of the message that a new one continues, else `key`.

        A model that stopped at its output limit is asked for the rest, which comes in a new message. Both count as one.
        """
        last = self.message
        if key is None or last is None or last.key is None or self.results_seen or not last.cut_at_limit:
            return key
        return last.key

    def continues(self, message: Message) -> bool:
        """Return whether it is a message of this round, opened again."""
        return message.key is not None and any(message.key == other.key for other in self.round)

    def _new_round(self) -> None:
        self.finals = [] if self.replied else _finals(self.round) or self.finals
        self.replied = False
        self.round = []
        self.round_chars = 0
        self.has_content = False

    def count_content(self) -> None:
        """Count the open round when its first block starts."""
        if not self.has_content:
            self.has_content = True
            self.rounds += 1

    def trim(self, message: Message) -> None:
        """Add an ended message to the round's text, which is bounded."""
        self.round_chars += sum(block.size for block in message.blocks if block.kind == "text")
        while len(self.round) > 1 and (self.round_chars > MAX_REPLY_CHARS or len(self.round) > MAX_BLOCKS):
            gone = self.round.pop(0)
            self.round_chars -= sum(block.size for block in gone.blocks if block.kind == "text")

    @property
    def answer(self) -> list[Message]:
        """Messages whose text is the reply: those that the agent marks as its answer, else those of the open round."""
        finals = _finals(self.round) or _finals(self.finals)
        if finals:
            return finals
        others = [message for message in self.round if message.phase != "commentary"]
        return others if any(message.reply for message in others) else self.round

    @property
    def reply(self) -> str:
        """Text of the answer."""
        return reply_of(self.answer)


def _finals(messages: list[Message]) -> list[Message]:
    """Return the messages that the agent marks as its answer."""
    return [message for message in messages if message.phase == "final" and message.reply]


def reply_of(messages: list[Message]) -> str:
    """Join the text of a round: a blank line between messages, but not between the parts of one."""
    parts: list[str] = []
    key = None
    for message in messages:
        if text := message.reply:
            if parts:
                parts.append("" if key is not None and message.key == key else "\n\n")
            parts.append(text)
            key = message.key
    return "".join(parts)


def place_key(place: Place, kind: Kind) -> PlaceKey:
    """Return the key of a block in its message. Wires without places count by kind."""
    return ("kind", kind) if place is None else place


def merged(old: Figures | None, new: Figures) -> Figures:
    """Replace each earlier figure with the later one, if there is one."""
    if old is None:
        return new
    given = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **given)
