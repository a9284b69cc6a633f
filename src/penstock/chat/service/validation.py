"""Validation of what callers set in a chat: each function returns the value as it is kept, or raises."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec

from penstock.adapter import Allow, Request, checked
from penstock.chat.errors import ContentTooLarge, Invalid, TooMany
from penstock.chat.store.rows import ChatSettings, Visibility
from penstock.errors import UsageError
from penstock.run import inside

MADE_TITLE_CHARS = 60
"""Characters of a made title: the first sentence of the first prompt is cut to this length."""

GREETING = re.compile(r"(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening))\b[^.!?,\n]{0,20}[.!?,]\s*", re.I)
"""Greeting before a sentence, with a name: it says nothing of the chat."""

SENTENCE = re.compile(r".{12,}?[.!?](?=\s)")
"""First sentence of a line. What is shorter is often a word and its mark, such as `e.g.`"""

MAX_TITLE_CHARS = 200
"""Characters of a title: it is one line."""

MAX_BUDGET = 1_000_000
"""US dollars of a budget. A larger number is a mistake."""

MAX_KEY_CHARS = 200
"""Characters of the key of a prompt. A longer value was not made as a key."""


MAX_SETTING_BYTES = 16 * 1024
"""Bytes of a field of a chat without a limit of its own, as JSON: each element of a list of chats has it."""

CHAT_ID = re.compile(r"[0-9a-f]{32}")
"""Pattern of the ids of chats."""


def check_max_chats(chats: int, limit: int) -> None:
    """Check that the limit allows one more chat. Raises: TooMany: the limit is reached."""
    if chats >= limit:
        help = "delete some, or start penstock serve with more: --max-chats"
        raise TooMany(f"there are {limit:,} chats already", help=help)


def check_max_turns(person: str, turns: int, limit: int) -> None:
    """Check that the limit of a person allows one more turn. Raises: TooMany: the limit is reached."""
    if turns >= limit:
        what = f"{turns} turns of {person} run or wait already"
        raise TooMany(what, help="wait until one of them has ended, or ask an owner of the server for a higher limit")


def visibility_of(visibility: Any) -> Visibility:
    """Return who sees a chat.

    Raises:
        Invalid: the value is neither `private` nor `team`.
    """
    if visibility not in get_args(Visibility):
        raise Invalid("there is no such visibility", expected="private or team")
    found: Visibility = visibility
    return found


def text_of(text: str, limit: int, *, may_be_empty: bool = False) -> str:
    """Return the text for an agent, at most `limit` bytes; it `may_be_empty` if files go with it.

    Raises:
        Invalid, ContentTooLarge: the text is not valid, or too large.
    """
    size = len(whole(text, "the message"))
    if size > limit:
        help = "put the text into a file and name the file"
        raise ContentTooLarge(f"the message has {size:,} bytes", expected=f"at most {limit:,} bytes", help=help)
    if (not text.strip() and not may_be_empty) or "\0" in text:
        raise Invalid("the message is empty, or has a NUL", expected="a message for the agent")
    return text


def key_of(key: str | None) -> str | None:
    """Return the key by which a repeated prompt is recognized.

    Raises:
        Invalid: the key is not valid.
    """
    if key is not None and not (0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        raise Invalid("this is not a key for a prompt", expected=f"1 to {MAX_KEY_CHARS} characters of ASCII")
    return key


def budget_of(budget: Any) -> float | None:
    """Return the US dollars that the turns of a chat may cost; None if there is no limit.

    Raises:
        Invalid: it is not an amount.
    """
    if budget is None:
        return None
    is_number = isinstance(budget, int | float) and not isinstance(budget, bool)
    if not is_number or not 0 < budget <= MAX_BUDGET:
        raise Invalid("this is not a budget", expected=f"US dollars, more than 0 and at most {MAX_BUDGET:,}, or null")
    return float(budget)


def chat_id_of(id: str) -> str:
    """Return the id that a caller has chosen for a chat.

    Raises:
        Invalid: it is not one.
    """
    if CHAT_ID.fullmatch(id) is None:
        raise Invalid("a chat cannot have this id", expected="32 hexadecimal digits, in lower case")
    return id


def depth_of(depth: int) -> int:
    """Return the number of agents above that of a chat.

    Raises:
        Invalid: the agent may ask for no other one.
    """
    if not 0 <= depth < inside.MAX_DEPTH:
        raise Invalid(f"an agent asks for another one, {depth} below the first", expected=f"below {inside.MAX_DEPTH}")
    return depth


def title_of(title: Any) -> str | None:
    """Return a title in one line; None if there is none.

    Raises:
        Invalid, ContentTooLarge: the title is not valid, or too long.
    """
    if title is None:
        return None
    if not isinstance(title, str):
        raise Invalid("a title is text")
    whole(title, "the title")
    words = " ".join(title.split())
    if len(words) > MAX_TITLE_CHARS:
        raise ContentTooLarge(f"the title has {len(words):,} characters", expected=f"at most {MAX_TITLE_CHARS}")
    return words or None


def made_title(prompt: str) -> str:
    """Return a title: the first sentence of the first line that has letters or digits, without a greeting."""
    lines = [" ".join(line.split()) for line in prompt.strip().splitlines()]
    said = [line for line in lines if any(map(str.isalnum, line))] or lines
    line = said[0]
    if greeting := GREETING.match(line):
        rest = line[greeting.end() :] or (said[1] if len(said) > 1 else "")
        line = rest[0].upper() + rest[1:] if len(rest.split()) > 2 else line
    if sentence := SENTENCE.match(line):
        line = sentence[0].rstrip(".")
    return line if len(line) <= MADE_TITLE_CHARS else line[: MADE_TITLE_CHARS - 1].rstrip() + "…"


def allow_of(allow: Any) -> Allow:
    """Return what the agent may do without a question.

    Raises:
        Invalid: the value is not valid.
    """
    if allow not in get_args(Allow):
        raise Invalid(f"allow cannot be {str(allow)[:40]!r}", expected="one of " + ", ".join(get_args(Allow)))
    found: Allow = allow
    return found


def model_of(model: Any) -> str | None:
    """Return the checked name of a model, which no agent reads as an option; None for the agent's own choice.

    Raises:
        Invalid: the name is not valid.
    """
    if model is None:
        return None
    if not isinstance(model, str):
        raise Invalid("a model is named by text")
    whole(model, "the model's name")
    try:
        return checked(Request(prompt="…", model=model)).model
    except UsageError as error:
        raise Invalid(error.what, expected=error.expected) from error


def effort_of(effort: Any) -> str | None:
    """Return the checked level of effort, which no agent reads as an option; None for the agent's own choice.

    Raises:
        Invalid: it is not a word.
    """
    if effort is None:
        return None
    if not isinstance(effort, str):
        raise Invalid("a level of effort is a word")
    whole(effort, "the level of effort")
    try:
        return checked(Request(prompt="…", effort=effort)).effort
    except UsageError as error:
        raise Invalid(error.what, expected=error.expected) from error


def setting_of(name: str, value: Any) -> Any:
    """Return the value of a field of `ChatSettings` that has no check of its own: of its type, and not too large.

    Raises:
        Invalid, ContentTooLarge: there is no such field, or the value is not valid.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(ChatSettings)}
    if name not in fields:
        raise Invalid(f"{name[:40]!r} of a chat cannot be changed", expected=", ".join(fields))
    return kept_setting(name, fields[name], value)


def kept_setting(name: str, kind: Any, value: Any) -> Any:
    """Return a value of a type, with which a field of a chat can be kept.

    Raises:
        Invalid, ContentTooLarge: it is not of this type, too large, or not storable text.
    """
    try:
        found = msgspec.convert(msgspec.to_builtins(value), kind)
        encoded = msgspec.json.encode(found)
    except UnicodeEncodeError as error:
        raise Invalid(f"the value of {name!r} has half a character", expected="text that UTF-8 can encode") from error
    except (msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"the value of {name!r} is not valid: {error}") from error
    if len(encoded) > MAX_SETTING_BYTES:
        most = f"at most {MAX_SETTING_BYTES:,} bytes"
        raise ContentTooLarge(f"the value of {name!r} has {len(encoded):,} bytes", expected=most)
    if b"\\u0000" in encoded.replace(b"\\\\", b""):
        raise Invalid(f"the value of {name!r} has a NUL", expected="text without it")
    return found


def whole(text: str, name: str) -> bytes:
    """Return the text as UTF-8.

    Raises:
        Invalid: it has half a character, which no encoding has.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{name} has half a character", expected="text that UTF-8 can encode") from error
