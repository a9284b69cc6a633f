"""Model of a client that applies the frames of a chat: an independent reading of `docs/gateway-api.md`.

It takes frames as plain JSON, does not depend on how they are made, and rejects each frame that the document forbids.
So two clients agree if, and only if, nothing was lost and nothing arrived twice.
"""

from __future__ import annotations

from typing import Any

Frame = dict[str, Any]

FIELDS: dict[str, set[str]] = {
    "snapshot": {"number", "turns", "earlier"},
    "prompted": {"turn", "prompt", "by", "asked_at", "person", "key"},
    "held": {"turns"},
    "queue": {"turns"},
    "edited": {"turn", "prompt", "edits"},
    "steer": {"turn", "steer"},
    "steerable": {"turn"},
    "streaming": {"turn", "status", "question", "began_at"},
    "thinking": {"turn", "content"},
    "plan": {"turn", "done", "all"},
    "final_message_start": {"turn"},
    "assistant": {"turn", "content", "delta", "offset", "replace"},
    "completed": {"turn", "message", "outcome", "completed_at", "reason", "question", "cause", "resets_at"},
    "finalized": {
        *("turn", "steps", "duration_ms", "usage", "cost_usd", "agent", "model"),
        *("refused", "needs_allow", "rejected", "denied", "context_tokens", "context_window", "changed"),
    },
    "undone": {"turn", "undone"},
    "deleted": set(),
    "store": {"works", "reason", "help"},
    "goodbye": set(),
}
"""Types of frames, with the fields that each may have."""

WHILE_RUNNING = ("status", "reply", "question", "plan", "steerable")
OF_SNAPSHOTS = ("first", "last", "agent", "model", "place", "undos")
"""Fields of a turn that a snapshot has, and that the frames do not have, or have later."""


class FrameError(AssertionError):
    """A frame is not allowed at this point."""


class Viewer:
    """Chat as one client sees it. `take` each frame, with its id if it has one."""

    def __init__(self) -> None:
        self.number: int | None = None
        """Id with which to reconnect; None before the first."""
        self.turns: dict[int, dict[str, Any]] = {}
        """Known fields of each turn, as TURN in the document defines them."""
        self.order: list[int] = []
        """Numbers of these turns in the order of the conversation."""
        self.earlier: bool = False
        self.deleted: bool = False
        self.goodbye: bool = False
        self.works: bool = True
        """False while the server cannot keep anything."""
        self.snapshots: int = 0

    def take(self, frame: Frame, id: int | None = None) -> None:
        """Apply one frame.

        Raises:
            FrameError: the frame is not allowed here.
        """
        require(not self.deleted, "a frame after `deleted`")
        fields = dict(frame)
        kind = fields.pop("type")
        require(kind in FIELDS, f"a frame of the unknown type {kind!r}")
        require(set(fields) <= FIELDS[kind], f"`{kind}` with {set(fields) - FIELDS[kind]}")
        if id is not None:
            anew = kind == "snapshot" or self.number is None or id > self.number
            require(anew, f"the id {id} after {self.number}")
            self.number = id
        getattr(self, f"_{kind}")(fields)

    @property
    def seen(self) -> dict[int, dict[str, Any]]:
        """Turns as the page shows them, for a comparison: fields that it does not show are left out."""
        return {
            number: {
                key: value
                for key, value in turn.items()
                if key not in OF_SNAPSHOTS and (value not in (None, "", 0, False) or key == "reply")
            }
            for number, turn in self.turns.items()
        }

    # --- frames ---

    def _snapshot(self, frame: Frame) -> None:
        require(frame["number"] == self.number, "a snapshot whose id is not its number")
        self.snapshots += 1
        self.earlier = frame.get("earlier", False)
        require(all({"turn", "by", "state"} <= set(turn) for turn in frame["turns"]), "a turn without `by` or `state`")
        self.turns = {turn["turn"]: dict(turn) for turn in frame["turns"]}
        self.order = [*self.turns]
        states = [turn["state"] == "queued" for turn in frame["turns"]]
        require(states == sorted(states), "a waiting turn before one that has begun")

    def _prompted(self, frame: Frame) -> None:
        require(frame["turn"] not in self.turns, "a second `prompted`")
        self.turns[frame["turn"]] = {**frame, "state": "queued"}
        self.order.append(frame["turn"])

    def _held(self, frame: Frame) -> None:
        queued = {number: turn for number, turn in self.turns.items() if turn["state"] == "queued"}
        require({*frame["turns"]} <= {*queued}, "a turn is held that does not wait")
        for number, turn in queued.items():
            turn["held"] = number in frame["turns"]

    def _queue(self, frame: Frame) -> None:
        queued = {number for number, turn in self.turns.items() if turn["state"] == "queued"}
        require({*frame["turns"]} == queued, "an order of other turns than those that wait")
        self.order = [turn for turn in self.order if turn not in queued] + frame["turns"]

    def _edited(self, frame: Frame) -> None:
        turn = self._turn(frame, "queued")
        require(frame["edits"] == turn.get("edits", 0) + 1, "a change was lost")
        turn.update(frame)

    def _steer(self, frame: Frame) -> None:
        self._turn(frame, "queued")["steer"] = frame["steer"]

    def _steerable(self, frame: Frame) -> None:
        self._turn(frame, "running")["steerable"] = True

    def _streaming(self, frame: Frame) -> None:
        turn = self._turn(frame, "queued", "running")
        begins = turn["state"] == "queued"
        require(("began_at" in frame) == begins, "only the first `streaming` says when it began")
        if begins:
            self._ran(frame["turn"])
        turn.pop("question", None)
        turn.update(frame, state="running")

    def _thinking(self, frame: Frame) -> None:
        require(bool(frame["content"]), "an empty `thinking`")
        self._turn(frame, "running")["status"] = "Thinking…"

    def _plan(self, frame: Frame) -> None:
        turn = self._turn(frame, "running")
        progress = {name: frame[name] for name in ("done", "all") if name in frame}
        require(progress.get("done", 0) <= progress.get("all", 0), "more is done than there is")
        turn["plan"] = progress or None

    def _final_message_start(self, frame: Frame) -> None:
        turn = self._turn(frame, "running")
        require("reply" not in turn, "a second `final_message_start`")
        turn.update(reply="", status=None)

    def _assistant(self, frame: Frame) -> None:
        turn = self._turn(frame, "running")
        require("reply" in turn, "`assistant` before `final_message_start`")
        require(("content" in frame) != ("delta" in frame), "`content` or `delta`, and one of them")
        before: str = turn["reply"]
        if "content" in frame:
            reply = frame["content"]
        else:
            require(frame["offset"] <= len(before), f"text from {frame['offset']} on: {len(before)} are known")
            reply = before[: frame["offset"]] + frame["delta"]
        require(frame.get("replace", False) or reply.startswith(before), "text that does not go on")
        turn.update(reply=reply, status=None)

    def _completed(self, frame: Frame) -> None:
        turn = self._turn(frame, "queued", "running")
        steer = turn.get("steer") or {}
        if steer.get("state") == "taken":
            self.order.remove(frame["turn"])
            self.order.insert(self.order.index(steer["into"]), frame["turn"])
        elif turn["state"] == "queued":  # taken back
            self._ran(frame["turn"])
        for name in (*WHILE_RUNNING, "held"):
            turn.pop(name, None)
        turn.update(frame, state="completed")

    def _finalized(self, frame: Frame) -> None:
        turn = self._turn(frame, "completed")
        require(not turn.get("finalized"), "a second `finalized`")
        turn.update(frame, finalized=True)

    def _undone(self, frame: Frame) -> None:
        turn = self._turn(frame, "completed")
        require(bool(turn.get("finalized")), "the changes of a turn that is not over were taken back")
        turn["undone"] = frame.get("undone")

    def _store(self, frame: Frame) -> None:
        self.works = frame["works"]

    def _deleted(self, _frame: Frame) -> None:
        self.deleted = True

    def _goodbye(self, _frame: Frame) -> None:
        self.goodbye = True

    def _ran(self, number: int) -> None:
        """Put a turn behind those that have begun: it waits no more."""
        self.order.remove(number)
        waiting = [place for place, turn in enumerate(self.order) if self.turns[turn]["state"] == "queued"]
        self.order.insert(waiting[0] if waiting else len(self.order), number)

    def _turn(self, frame: Frame, *states: str) -> dict[str, Any]:
        require(frame["turn"] in self.turns, f"turn {frame['turn']}, of which nothing is known")
        turn = self.turns[frame["turn"]]
        require(turn["state"] in states, f"a frame that does not belong into a turn with the state {turn['state']}")
        return turn


def require(right: bool, what: str) -> None:
    """Raise an error if `right` is false.

    Raises:
        FrameError: `right` is false.
    """
    if not right:
        raise FrameError(what)
