"""Edits of the prompt and messages that came while an agent or a check worked: they count when a person confirms them.

Whoever can write to the prompt or to the inbox of a loop may be its agent. A person shows who they are by a command
that no agent and no check has started.
"""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError
from penstock.loop.inbox import LoopInbox
from penstock.loop.journal import Journal, process_of
from penstock.loop.loops import LoopFolder, read_prompt
from penstock.loop.rows import HeldDecided, LoopBegan
from penstock.loop.steering import digest_of
from penstock.run.history import now_ms
from penstock.run.inside import marks


def check_outside(began: LoopBegan) -> None:
    """Check that neither an agent nor a check has started this process, unless it has also begun the loop.

    Raises:
        UsageError: one has.
    """
    if marks() - set(began.marks):
        raise UsageError(
            "an agent or a check has started this command, and they cannot change a loop",
            expected="you, in a terminal of your own",
            help="an agent asks or reports in its reply",
        )


def decide(found: LoopFolder, *, confirms: bool) -> HeldDecided:
    """Confirm or discard the waiting edit and messages, and return them. A loop that runs reads it after its step.

    Raises:
        UsageError: nothing waits.
    """
    state, inbox = found.state, LoopInbox(found.path)
    runs = process_of(found.path) is not None
    try:
        text = read_prompt(Path(state.began.prompt_path))
    except UsageError:
        text = state.prompt  # it was removed: the last text counts
    held = text if text != state.prompt and text != state.discarded_prompt else ""
    letters = [row.letter for row in state.held_messages]
    letters += [letter.id for letter in inbox.letters() if letter.kind == "message"]
    decided = HeldDecided(state.rows + 1, now_ms(), is_confirmed=confirms, prompt=held, letters=tuple(letters))
    if not held and not letters:
        raise UsageError("nothing waits to be confirmed: neither an edit of the prompt nor a message")
    if runs:
        inbox.put("confirm" if confirms else "discard", digest_of(held) if held else "", letters)
        return decided
    journal = Journal.open(found.path)
    try:
        journal.append(decided)
    finally:
        journal.close()
    return decided
