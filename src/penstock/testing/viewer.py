"""What a viewer of a chat does with the frames it gets: an independent reading of `docs/gateway-api.md`.

It takes frames as plain JSON, knows nothing of how they are made, and objects to each that the page of that document
forbids. So two viewers agree if, and only if, nothing was lost and nothing came twice.
"""

from __future__ import annotations

from typing import Any

Frame = dict[str, Any]

WHILE_RUNNING = ("status", "reply", "hint")


class FrameError(AssertionError):
    """A frame came that must not come."""


class Viewer:
    """The chat as one viewer sees it. `take` each frame, with its id where it has one."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The id to come back with; None before the first."""
        self.turns: dict[int, dict[str, Any]] = {}
        self.deleted = False
        self.snapshots = 0

    def take(self, frame: Frame, id: int | None = None) -> None:
        """Take one frame.

        Raises:
            FrameError: it cannot come here.
        """
        self._require(not self.deleted, "a frame after `deleted`")
        if id is not None:
            self._require(self.number is None or id > self.number, f"the id {id} after {self.number}")
            self.number = id
        kind = frame["type"]
        if kind == "snapshot":
            self._snapshot(frame, id)
        elif kind == "prompted":
            self._require(frame["turn"] not in self.turns, "a second `prompted`")
            self.turns[frame["turn"]] = {"state": "queued", "prompt": frame["prompt"], "by": frame["by"]}
        elif kind == "deleted":
            self.deleted = True
        elif kind != "goodbye":
            self._turn(kind, frame, self.turns[frame["turn"]])

    def _snapshot(self, frame: Frame, id: int | None) -> None:
        self._require(id == frame["number"], "a snapshot whose id is not its number")
        self.snapshots += 1
        self.turns = {}
        for turn in frame["turns"]:
            kept = {key: turn[key] for key in (*WHILE_RUNNING, "message", "outcome", "reason", "steps") if key in turn}
            first = {"state": turn.get("state", "queued"), "prompt": turn["prompt"], "by": turn.get("by", "person")}
            self.turns[turn["turn"]] = first | kept | ({"recorded": True} if turn.get("recorded") else {})

    def _turn(self, kind: str, frame: Frame, turn: dict[str, Any]) -> None:
        state = turn["state"]
        if kind == "recorded":
            self._require(state == "completed" and "recorded" not in turn, "`recorded` of a turn that is not completed")
            turn.update(recorded=True, steps=frame["steps"])
            return
        self._require(state != "completed", f"`{kind}` after `completed`")
        if kind == "streaming":
            turn.update(state="running", status=frame["status"])
            turn.pop("hint", None)
            if "hint" in frame:
                turn["hint"] = frame["hint"]
        elif kind == "completed":
            for key in WHILE_RUNNING:
                turn.pop(key, None)
            turn.update(state="completed", message=frame["message"], outcome=frame["outcome"])
            turn.update({key: frame[key] for key in ("reason", "hint") if key in frame})
        else:
            self._require(state == "running", f"`{kind}` of a turn that does not run")
            self._reply(kind, frame, turn)

    def _reply(self, kind: str, frame: Frame, turn: dict[str, Any]) -> None:
        if kind == "thinking":
            self._require(bool(frame["content"]), "an empty `thinking`")
            turn["status"] = "Thinking…"
        elif kind == "final_message_start":
            self._require("reply" not in turn, "a second `final_message_start`")
            turn.update(reply="", status=None)
        else:
            self._require(kind == "assistant", f"a frame of the unknown type {kind!r}")
            self._require("reply" in turn, "`assistant` before `final_message_start`")
            turn.update(reply=self._grown(frame, turn["reply"]), status=None)

    def _grown(self, frame: Frame, before: str) -> str:
        if "content" in frame:
            text: str = frame["content"]
            self._require(frame.get("replace", False) or text.startswith(before), "text that does not go on")
            return text
        offset: int = frame["offset"]
        self._require(offset <= len(before), f"text from {offset} on, where {len(before)} characters are known")
        whole: str = before[:offset] + frame["delta"]
        self._require(frame.get("replace", False) or whole.startswith(before), "text that does not go on")
        return whole

    @property
    def seen(self) -> dict[int, dict[str, Any]]:
        """What is on the page, for a comparison: what stands nowhere is left out."""
        return {
            number: {key: value for key, value in turn.items() if value not in (None, "", 0) or key == "reply"}
            for number, turn in self.turns.items()
        }

    @staticmethod
    def _require(right: bool, what: str) -> None:
        if not right:
            raise FrameError(what)
