"""Stdin of the agent: its prompt, or Penstock's side of a dialogue with the answers to questions."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.adapter import Dialogue, Steerable, not_taken
from penstock.core.questions import PERMISSIONS, allowed, allowed_by_rule, rejected, resolve
from penstock.events import QuestionAsked
from penstock.run.process import Process
from penstock.run.read_sizes import READ_BYTES
from penstock.updates import Answer, Update

if TYPE_CHECKING:
    from penstock.adapter import Level
    from penstock.config.command_rules import Verdict


class StdinWriter:
    """Writer of the agent's stdin: writes as much as it accepts, and closes it after the last byte. It never blocks.

    `record` is called with everything that a dialogue sends, before it is written.
    """

    def __init__(
        self, prompt: bytes, dialogue: Dialogue | None, *, allow: Level, ask: bool, record: Callable[[bytes], None]
    ) -> None:
        self.waiting: dict[str, QuestionAsked] = {}
        """Questions of the agent that wait for a person's answer, by id."""
        self._dialogue = dialogue
        self._allow = allow
        self._ask = ask
        self._record = record
        self._pending = bytearray(prompt)
        self._more = dialogue is not None  # more may have to be written later
        self._open = True

    def attach(self, process: Process, selector: selectors.BaseSelector) -> None:
        """Set the process to write to, and the selector that reports when it accepts more."""
        self._process = process
        self._selector = selector

    def write(self, *, working: bool) -> None:
        """Write pending bytes. `working`: background work may still ask a question, so stdin stays open."""
        dialogue = self._dialogue
        if dialogue is not None and self._more:
            if data := dialogue.take():
                self._pending += data
                self._record(data)
            if dialogue.over and not working:
                self._more = False  # a server exits at the end of its stdin
        self._flush()

    def finish(self) -> None:
        """Close stdin after the pending bytes."""
        self._more = False
        self._flush()

    def cancel(self) -> bool:
        """Cancel over the protocol; return False if it has no cancel, or nothing to cancel."""
        return self._dialogue is not None and self._dialogue.cancel()

    def steer(self, id: str, text: str) -> Sequence[Update]:
        """Give the agent a message while it works."""
        if not isinstance(self._dialogue, Steerable):
            return (not_taken(id, "the agent takes no messages while it works"),)
        if not self._more:
            return (not_taken(id, "the turn has ended"),)
        return self._dialogue.steer(id, text)

    def expect(self, question: QuestionAsked) -> None:
        """Add a question that waits for a person's answer. Call it before a reader sees the question."""
        if self._dialogue is not None:
            self.waiting[question.id] = question

    def automatic_answer(self, question: QuestionAsked, verdict: Verdict | None = None) -> Answer | None:
        """Return the answer to a new question; None if a person has to answer it.

        `verdict` is what the rules for commands say of it.
        """
        if self._dialogue is None:
            return None
        if verdict == "deny":
            return rejected(question, "rule")
        if self._allow == "all":
            return allowed(question)
        if self._allow == "read" and question.ask in PERMISSIONS:
            return rejected(question, "allow")
        if verdict == "allow" and (answer := allowed_by_rule(question)) is not None:
            return answer
        return None if self._ask else rejected(question, "nobody")

    def parse_answer(self, id: str, text: str) -> Answer | None:
        """Parse a person's answer; return None if no such question waits. Text that is not an answer rejects."""
        question = self.waiting.get(id)
        if question is None:
            return None
        return resolve(question, text) or rejected(question, "person")

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question. One that was answered or withdrawn is ignored."""
        self.waiting.pop(answer.id, None)
        if self._dialogue is None:
            return ()
        try:
            return self._dialogue.answer(answer)
        except KeyError:
            return ()

    def _flush(self) -> None:
        if not self._open:
            return
        fd = self._process.stdin
        try:
            while self._pending:
                del self._pending[: os.write(fd, self._pending[:READ_BYTES])]
        except BlockingIOError:
            if fd not in self._selector.get_map():
                self._selector.register(fd, selectors.EVENT_WRITE, self._flush)
            return
        except OSError:
            self._pending.clear()  # it does not read any more; its output explains that better than this error
            self._more = False
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        if not self._more:
            self._open = False
            self._process.close_fd(fd)
