"""What the session remembers: blocks, messages, lanes, calls. All of it bounded."""

from __future__ import annotations

import zlib

import msgspec

from penstock.events import Kind, MessageStatus
from penstock.updates import MessagePhase, Place
from penstock.updates import Usage as Figures

MAX_BLOCK_CHARS = 16 * 1024 * 1024
"""How much text of one block is kept for its recap. Its deltas flow on; the recap says `truncated`."""

MAX_REPLY_CHARS = 2 * MAX_BLOCK_CHARS
"""How much text of one round is kept for the reply."""

MAX_MESSAGES = 64
"""Ended messages of a lane that a late final can still be matched with."""

MAX_BLOCKS = 4096
"""Ended blocks of one message that a late final can still be matched with."""

PARTS = 512
"""Pieces of a block's text that are kept apart; more are joined, so that memory is that of the text."""

PlaceKey = int | str | tuple[str, str]


class Block:
    """One block. `number` is 0 until it starts; its text is kept in parts."""

    __slots__ = (
        "_joined",
        "_size",
        "call_id",
        "candidate",
        "echo",
        "ended",
        "final",
        "half",
        "kind",
        "message",
        "name",
        "number",
        "open",
        "parent",
        "parts",
        "plain",
        "raw_crc",
        "raw_size",
        "repaired",
        "repeats",
        "snapshots",
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
    ) -> None:
        self.kind: Kind = kind
        self.message = message
        self.parent = parent  # its lane
        self.call_id = call_id
        self.name = name
        self.number = 0
        self.open = False  # its start was told, its end was not
        self.ended = False
        self.whole = False  # the wire said that it is over
        self.final = False  # the wire repeated it whole
        self.plain = False  # nothing is held back and nothing guessed: a delta is new text as it is
        self.superseded = False
        self.repeats = False  # the input of a call that was made already, said again
        self.half = ""  # the first half of a surrogate pair, held back
        self.parts: list[str] = []  # the newest text that was put out
        self._joined: list[str] = []  # the text before it
        self._size = 0  # characters of that, kept or not
        self.truncated = False
        # Only for armed wires:
        self.candidate: str | None = ""  # the last delta, while each so far began with the one before it
        self.snapshots = False  # its deltas were found to be snapshots
        self.repaired = False
        self.raw_crc = 0  # of the deltas as they came: what the agent itself joined
        self.raw_size = 0
        self.echo: int | None = None  # its final came before its deltas, of which so many characters followed

    def count_raw(self, text: str) -> None:
        """Remember a would-be delta as it came."""
        self.raw_crc = zlib.crc32(text.encode("utf-8", "surrogatepass"), self.raw_crc)
        self.raw_size += len(text)

    def is_raw(self, text: str) -> bool:
        """Whether `text` is nothing but the would-be deltas, joined."""
        return len(text) == self.raw_size and zlib.crc32(text.encode("utf-8", "surrogatepass")) == self.raw_crc

    def add(self, text: str) -> None:
        """Keep text that was put out."""
        self.parts.append(text)

    def compact(self) -> None:
        """Join the newest parts, and drop what is over the bound. A character is copied once by this."""
        text = "".join(self.parts)
        self.parts.clear()
        room = MAX_BLOCK_CHARS - self._size
        self._size += len(text)
        if len(text) > room:
            self.truncated = True
            text = text[: max(room, 0)]
        self._joined.append(text)

    @property
    def size(self) -> int:
        """How many characters were put out, kept or not."""
        if len(self.parts) > PARTS:
            self.compact()
        return self._size + sum(map(len, self.parts))

    @property
    def text(self) -> str:
        """The text that was put out, as far as it is kept."""
        if self.parts:
            self.compact()
        if len(self._joined) > 1:
            self._joined = ["".join(self._joined)]
        return self._joined[0] if self._joined else ""

    def set_text(self, text: str) -> None:
        """Replace what was put out."""
        self._joined = []
        self._size = 0
        self.truncated = False
        self.parts.clear()
        self.parts.append(text)


class Message:
    """One model message. `number` is 0 while it is only known by name."""

    __slots__ = (
        "blocks",
        "ended",
        "explicit",
        "key",
        "number",
        "phase",
        "places",
        "restarting",
        "status",
        "usage",
        "usage_model",
    )

    def __init__(self, key: str | None, number: int, explicit: bool) -> None:
        self.key = key
        self.number = number
        self.explicit = explicit  # the wire said that it begins, so it says where it ends
        self.ended = False
        self.status: MessageStatus = "ok"
        self.phase: MessagePhase | None = None  # what the agent itself says that its text is
        self.restarting = False  # its start came again; what follows tells whether it begins anew
        self.blocks: list[Block] = []
        self.places: dict[PlaceKey, Block] = {}
        self.usage: Figures | None = None
        self.usage_model: str | None = None

    def add(self, block: Block, place: PlaceKey) -> None:
        """Take a new block in at `place`."""
        self.blocks.append(block)
        self.places[place] = block
        if len(self.blocks) > MAX_BLOCKS:
            kept = self.blocks[-MAX_BLOCKS // 2 :]
            self.blocks = [old for old in self.blocks[: -len(kept)] if not old.ended] + kept
            self.places = {at: old for at, old in self.places.items() if not old.ended or old in kept}

    def unfinished(self, kind: Kind, whole: str | None = None) -> Block | None:
        """The oldest block of this kind that was not repeated whole.

        Some never are (a blank one, one that was given up), so where `whole`, a text that repeats one of
        several, goes on from what another one has, it is that one's.
        """
        found = [block for block in self.blocks if block.kind == kind and not block.final]
        if whole and len(found) > 1:
            for block in found:
                if block.size and (whole.startswith(block.text) or block.is_raw(whole)):
                    return block
        return found[0] if found else None

    @property
    def text(self) -> str:
        """The text of its text blocks, joined as they are."""
        return "".join(block.text for block in self.blocks if block.kind == "text" and block.number)

    @property
    def reply(self) -> str:
        """What it adds to the reply: its text, without what the agent gave up."""
        if self.status == "superseded":
            return ""
        return "".join(
            block.text for block in self.blocks if block.kind == "text" and block.number and not block.superseded
        )


class Lane:
    """The top agent (`parent` None) or one sub-agent."""

    __slots__ = (
        "finals",
        "message",
        "messages",
        "parent",
        "replied",
        "results_seen",
        "round",
        "round_chars",
        "rounds",
        "spoke",
    )

    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self.message: Message | None = None  # the current one; it may have ended
        self.messages: dict[str, Message] = {}  # by id, the recent ones
        self.round: list[Message] = []  # those of the open round
        self.round_chars = 0
        self.finals: list[Message] = []  # of the last earlier round of this turn that has some: the agent's answer
        self.replied = False  # the answer of the turn was given; the next round begins another turn
        self.rounds = 0
        self.spoke = False  # the open round has content
        self.results_seen = False  # the next message opens a new round

    def remember(self, message: Message) -> None:
        """Make `message` the current one."""
        self.message = message
        if message.key is not None:
            self.messages.pop(message.key, None)
            self.messages[message.key] = message
            if len(self.messages) > MAX_MESSAGES:
                del self.messages[next(iter(self.messages))]
        if self.results_seen and not self.continues(message):
            self.new_round()
        self.results_seen = False
        self.round.append(message)

    def continues(self, message: Message) -> bool:
        """Whether it is a message of this round, opened again."""
        return message.key is not None and any(message.key == other.key for other in self.round)

    def new_round(self) -> None:
        """What came so far belongs to rounds that are over."""
        self.finals = [] if self.replied else _finals(self.round) or self.finals
        self.replied = False
        self.round = []
        self.round_chars = 0
        self.spoke = False

    def said(self) -> None:
        """The open round has content: it counts."""
        if not self.spoke:
            self.spoke = True
            self.rounds += 1

    def trim(self, message: Message) -> None:
        """An ended message joins the round's text, which is bounded."""
        self.round_chars += sum(block.size for block in message.blocks if block.kind == "text")
        while len(self.round) > 1 and (self.round_chars > MAX_REPLY_CHARS or len(self.round) > MAX_BLOCKS):
            gone = self.round.pop(0)
            self.round_chars -= sum(block.size for block in gone.blocks if block.kind == "text")

    @property
    def answer(self) -> list[Message]:
        """The messages whose text is the reply: those that the agent calls its answer, else those of the open round."""
        finals = _finals(self.round) or _finals(self.finals)
        if finals:
            return finals
        others = [message for message in self.round if message.phase != "commentary"]
        return others if any(message.reply for message in others) else self.round

    @property
    def reply(self) -> str:
        """The text of the answer."""
        return reply_of(self.answer)


class Call:
    """One tool call."""

    __slots__ = ("block", "call_id", "called", "lane", "name", "output", "returned")

    def __init__(self, call_id: str, name: str | None, lane: str | None) -> None:
        self.call_id = call_id
        self.name = name
        self.lane = lane
        self.called = False
        self.returned = False
        self.block: Block | None = None  # its input
        self.output: Block | None = None


def _finals(messages: list[Message]) -> list[Message]:
    """Those that the agent calls its answer."""
    return [message for message in messages if message.phase == "final" and message.reply]


def reply_of(messages: list[Message]) -> str:
    """The text of a round: messages apart by a blank line, but not the parts of one."""
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
    """Where a block stands in its message. Wires without places count by kind."""
    return ("kind", kind) if place is None else place


def merged(old: Figures | None, new: Figures) -> Figures:
    """Later figures replace earlier ones, each on its own."""
    if old is None:
        return new
    given = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **given)
