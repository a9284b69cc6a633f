"""Steering of a loop by people: messages, edits of the prompt, and confirmations. Pure.

What came while an agent or a check worked may be theirs, so it is held until a person confirms it.
"""

from __future__ import annotations

import hashlib

import msgspec

from penstock.loop.inbox import Letter
from penstock.loop.rows import AnyRow, HeldDecided, LoopStopRequested, MessageAdded, PromptChanged
from penstock.loop.state import LoopState, UserMessage

STOPPED = 130
"""Exit status of a loop that was stopped by a command."""


def digest_of(prompt: str) -> str:
    """Return the hash by which a text of the prompt is confirmed."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


# --- to rows -------------------------------------------------------------------------------------------


def row_of_letter(letter: Letter, state: LoopState, prompt: str, at: int, *, is_held: bool) -> AnyRow | None:
    """Return the row of a letter of the inbox; None for a message that was read before.

    Args:
        letter: the letter.
        state: the loop before it.
        prompt: text of the prompt as it is now.
        at: time in milliseconds since 1970.
        is_held: whether an agent or a check has worked since the inbox was read.
    """
    n = state.rows + 1
    if letter.kind in ("confirm", "discard"):
        text = prompt if letter.text and letter.text == digest_of(prompt) else ""
        return HeldDecided(n, at, is_confirmed=letter.kind == "confirm", prompt=text, letters=letter.letters)
    if letter.kind != "message":
        return LoopStopRequested(n, at, STOPPED, "command")
    if letter.id in state.letters:
        return None
    return MessageAdded(n, at, letter.text, letter.id, is_held and not letter.is_of_person)


def row_of_prompt(state: LoopState, prompt: str, at: int, *, is_held: bool) -> PromptChanged | None:
    """Return the row of an edit of the prompt; None if there is none."""
    if state.ended is not None or prompt in (state.held_prompt, state.discarded_prompt):
        return None
    if prompt != state.prompt:
        return PromptChanged(state.rows + 1, at, prompt, is_held or bool(state.held_prompt))
    return PromptChanged(state.rows + 1, at, "", is_held=True) if state.held_prompt else None


# --- to the state --------------------------------------------------------------------------------------


def with_prompt(state: LoopState, row: PromptChanged) -> LoopState:
    """Return the state after an edit of the prompt."""
    if row.is_held:
        return msgspec.structs.replace(state, held_prompt=row.prompt)
    return _edited(state, row.prompt)


def with_message(state: LoopState, row: MessageAdded) -> LoopState:
    """Return the state after a message, which may be the answer to a question, or about a plan."""
    state = msgspec.structs.replace(state, letters=state.letters | {row.letter})
    if row.is_held:
        return msgspec.structs.replace(state, held_messages=(*state.held_messages, row))
    message = UserMessage(row.text, len(state.rounds), state.question)
    waits = state.settings.plan_is_asked and state.plan is not None and not state.plan_is_approved
    if waits and row.text.strip().casefold() in ("yes", "y"):
        return msgspec.structs.replace(state, plan_is_approved=True)
    messages = (*state.messages, message)
    state = msgspec.structs.replace(state, messages=messages, question="", unread=len(state.rounds))
    return msgspec.structs.replace(state, plan=None) if waits else state


def with_decision(state: LoopState, row: HeldDecided) -> LoopState:
    """Return the state after a person has confirmed or discarded what was held."""
    messages = [one for one in state.held_messages if one.letter in row.letters]
    left = tuple(one for one in state.held_messages if one not in messages)
    state = msgspec.structs.replace(state, held_messages=left)
    if row.prompt and not row.is_confirmed:
        state = msgspec.structs.replace(state, held_prompt="", discarded_prompt=row.prompt)
    elif row.prompt and row.prompt != state.prompt:
        state = _edited(state, row.prompt)
    for message in messages if row.is_confirmed else ():
        state = with_message(state, msgspec.structs.replace(message, is_held=False))
    return state


def _edited(state: LoopState, prompt: str) -> LoopState:
    return msgspec.structs.replace(state, prompt=prompt, held_prompt="", discarded_prompt="", unread=len(state.rounds))
