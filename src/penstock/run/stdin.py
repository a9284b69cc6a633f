"""What is said to an agent: its prompt, or our side of a dialogue, its questions answered among it."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.adapter import Dialogue
from penstock.core.questions import allowed, rejected, resolve
from penstock.events import QuestionAsked
from penstock.run.process import Process
from penstock.run.queues import READ_BYTES
from penstock.updates import Answer, Update

if TYPE_CHECKING:
    from penstock.adapter import Allow


class Speaker:
    """Writes to the agent's stdin as much as it takes, and closes it when all is said. It never waits.

    `heard` is told all that a dialogue says, before it is written.
    """

    def __init__(
        self, prompt: bytes, dialogue: Dialogue | None, *, allow: Allow, ask: bool, heard: Callable[[bytes], None]
    ) -> None:
        self.waiting: dict[str, QuestionAsked] = {}
        """Questions of the agent that somebody has to answer."""
        self._dialogue = dialogue
        self._allow = allow
        self._ask = ask
        self._heard = heard
        self._left = bytearray(prompt)
        self._more = dialogue is not None  # may be to be said
        self._open = True

    def attach(self, process: Process, selector: selectors.BaseSelector) -> None:
        """Speak to this process."""
        self._process = process
        self._selector = selector

    def speak(self, *, working: bool) -> None:
        """Say what there is to say. `working`: something may come of it after the answer, so stdin stays open."""
        dialogue = self._dialogue
        if dialogue is not None and self._more:
            if words := dialogue.take():
                self._left += words
                self._heard(words)
            if dialogue.over and not working:
                self._more = False  # the end of stdin tells a server to go
        self._write()

    def hush(self) -> None:
        """Nothing more will be said."""
        self._more = False
        self._write()

    def cancel(self) -> bool:
        """Ask the agent to stop; False where its protocol has no way, or nothing to stop."""
        return self._dialogue is not None and self._dialogue.cancel()

    def expect(self, question: QuestionAsked) -> None:
        """Note that a question waits for its answer; do it before anybody sees the question."""
        if self._dialogue is not None:
            self.waiting[question.id] = question

    def asked(self, question: QuestionAsked) -> Answer | None:
        """Answer a new question, if no person is needed for that."""
        if self._dialogue is None:
            return None
        if self._allow == "all":
            return allowed(question)
        return None if self._ask else rejected(question, "nobody")

    def understand(self, id: str, words: str) -> Answer | None:
        """What a person's words mean; None if nothing waits for them. Words that are no answer reject."""
        question = self.waiting.get(id)
        if question is None:
            return None
        return resolve(question, words) or rejected(question, "person")

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question. One that waits no more is passed over."""
        if self._dialogue is None or self.waiting.pop(answer.id, None) is None:
            return ()
        try:
            return self._dialogue.answer(answer)
        except KeyError:
            return ()  # settled otherwise meanwhile

    def _write(self) -> None:
        if not self._open:
            return
        fd = self._process.stdin
        try:
            while self._left:
                del self._left[: os.write(fd, self._left[:READ_BYTES])]
        except BlockingIOError:
            if fd not in self._selector.get_map():
                self._selector.register(fd, selectors.EVENT_WRITE, self._write)
            return
        except OSError:
            self._left.clear()  # it does not read any more; what it says of it tells more than this
            self._more = False
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        if not self._more:
            self._open = False
            self._process.close_fd(fd)
