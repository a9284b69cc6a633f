"""Requests of OpenAI's interface: the prompt, its conversation, and requests that need no agent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from penstock.chat.errors import Invalid
from penstock.chat.history.frames import TurnView
from penstock.chat.service.validation import made_title
from penstock.chat.web.doors.bodies import CompletionMessage, CompletionRequest
from penstock.chat.web.doors.files import GivenFile, check_count, data_of
from penstock.chat.web.doors.turn_fold import asked_text

TASK = re.compile(r"\s*### Task:.*<chat_history>", re.DOTALL)
"""Beginning of Open WebUI's prompts for tasks beside a chat, such as its title."""

TASKS: dict[str, object] = {"title": "", "tags": [], "follow_ups": [], "queries": [], "prompt": "", "text": ""}
"""Fields that such prompts ask for, each with an empty answer."""

TITLE = re.compile(r"\s*Provide a concise, 5-word-or-less title for the conversation")
"""Beginning of LibreChat's prompt for a title."""

FIRST_WORDS = re.compile(r"(?:<chat_history>|Conversation:)\s*(?:USER|User):\s*(\S[^\n]*)")
"""First words of a conversation in such a prompt."""

FILES = ("image_url", "file")
"""Types of parts with files."""

INTRODUCTION = "The messages of this conversation so far, as the program that asks has them:"
LAST = "The message to answer:"


class TextMessage(NamedTuple):
    """Message of a conversation, as text."""

    role: str
    text: str


def check(asked: CompletionRequest) -> None:
    """Check that an agent can give the expected answer.

    Raises:
        Invalid: it expects something that agents of Penstock do not do.
    """
    if not asked.messages or asked.messages[-1].role != "user":
        raise Invalid("the last message is not the user's", expected="a message of the role user at the end")
    parts = asked.messages[-1].content
    if isinstance(parts, list) and (others := sorted({part.type for part in parts} - {"text", *FILES})):
        raise Invalid(f"the message has {', '.join(others)[:80]}", expected="text, image_url and file")
    if asked.n not in (None, 1):
        raise Invalid("an agent gives one answer", expected='"n" that is 1')
    if (asked.response_format or {}).get("type", "text") != "text":
        raise Invalid("an agent answers in text only", expected='"response_format" of the type text, or none')
    if asked.tool_choice not in (None, "none", "auto"):
        raise Invalid("an agent uses its own tools, and no others", expected='"tool_choice" that is auto or none')


def files_of(asked: CompletionRequest) -> list[GivenFile]:
    """Return the files of the last message; the agent had those of earlier ones in their turns.

    Raises:
        Invalid, ContentTooLarge: as `data_of`.
    """
    parts = asked.messages[-1].content
    found = []
    for part in parts if isinstance(parts, list) else ():
        if part.type == "image_url":
            found.append(data_of(part.image_url.url if part.image_url is not None else "", "picture"))
        elif part.type == "file":
            data = part.file.file_data if part.file is not None else None
            if data is None or part.file is None:
                raise Invalid("a file has no data", expected='"file_data", as files are not uploaded before')
            url = data if data.startswith(("data:", "http:", "https:")) else f"data:;base64,{data}"
            found.append(data_of(url, part.file.filename or "file"))
    return check_count(found)


def said(messages: Sequence[CompletionMessage]) -> list[TextMessage]:
    """Return messages as text. Parts that are neither text nor files are named."""
    return [TextMessage(message.role[:40], _text(message)) for message in messages]


def prompt_of(messages: Sequence[TextMessage]) -> str:
    """Return the prompt of a turn: the last message, after those before it if there are any."""
    *before, last = messages
    if not before:
        return last.text
    parts = [f"[{role}]\n{text}" for role, text in before]
    return "\n\n".join([INTRODUCTION, *parts, LAST, last.text])


def may_end_with(turn: TurnView, last: TextMessage) -> bool:
    """Return whether a conversation whose last message is this may be a chat with this newest turn."""
    return last.role == "assistant" and _shown(turn).strip() == last.text.strip()


def is_history(turns: Sequence[TurnView], messages: Sequence[TextMessage]) -> bool:
    """Return whether a chat with these turns, all of them, is the conversation of these messages.

    Each turn is a message of the user and one of the assistant. The first prompt has all messages before.
    """
    begin = len(messages) - 2 * len(turns)
    if begin < 0 or not turns:
        return False
    for place, turn in enumerate(turns):
        at = begin + 2 * place
        asked, answered = messages[at], messages[at + 1]
        prompt = prompt_of(messages[: at + 1]) if place == 0 else asked.text
        if (asked.role, answered.role) != ("user", "assistant") or turn.prompt != prompt:
            return False
        if _shown(turn).strip() != answered.text.strip():
            return False
    return True


def side_answer(asked: CompletionRequest) -> str | None:
    """Return the answer to a request that a program makes beside its chats, as for a title; None if it is not one."""
    if asked.stream or not asked.messages:
        return None
    text = _text(asked.messages[-1])
    is_task, is_title = TASK.match(text), TITLE.match(text)
    if not is_task and not is_title:
        return None
    first = FIRST_WORDS.search(text)
    title = made_title(first[1]) if first is not None else "A chat"
    if is_title:
        return title
    for field, nothing in TASKS.items():
        if f'"{field}"' in text:
            return msgspec.json.encode({field: title if field == "title" else nothing}).decode()
    return "{}"


def digest(value: object) -> str:
    """Return a short name of a request or a key, the same for the same one."""
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:32]


def _text(message: CompletionMessage) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    shown = (part for part in message.content if part.type not in FILES)
    return "\n".join(part.text or "" if part.type == "text" else f"[{part.type[:40]}]" for part in shown)


def _shown(turn: TurnView) -> str:
    if turn.state != "completed" and turn.question is not None:
        return asked_text(turn.reply or "", turn.question)
    return turn.message
