"""Messages given to codex in its running turn (`turn/steer`): sent, accepted, and taken once codex answers to them.

codex accepts such a message at once and reads it before its next model call. It then reports it as an item of the user;
what the model does about it follows. A message that codex reports at the very end of its turn, with nothing behind it,
is in the conversation but was never answered, so it counts as one that was not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.adapter import not_taken
from penstock.agents._json import as_dict, inner_message, text_of
from penstock.agents._steers import SentSteers
from penstock.updates import Notice


class Steers(SentSteers):
    """Messages of one turn that are on their way to the model."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[int, str] = {}  # ids of messages by those of our requests
        self._is_prompted = False  # codex has reported the prompt of the turn

    def sent(self, id: str, request: int) -> None:
        """Note the request by which a message is sent."""
        self._asked[request] = id

    def answered(self, request: int, error: Any) -> Sequence[Notice]:
        """Read the answer to a request: an error rejects the message."""
        id = self._asked.pop(request, None)
        if error is None or id is None or self._texts.pop(id, None) is None:
            return ()
        reason = inner_message(text_of(as_dict(error).get("message")) or text_of(error))
        return (not_taken(id, reason or "codex rejected it"),)

    def seen(self, id: str, text: str, *, is_recorded: bool) -> None:
        """Note a message of the user that codex reports. `id`: "" if codex is a version that has none.

        `is_recorded`: the wire is a recording, so the messages that were given are known from it alone.
        """
        is_prompt, self._is_prompted = not self._is_prompted, True
        if not id and not is_prompt:
            id = next((known for known, given in self._texts.items() if given == text), "")
        if id in self._texts or (is_recorded and id):
            self._texts.pop(id, None)
            self._seen.append(Notice("user", text, steer=id))
