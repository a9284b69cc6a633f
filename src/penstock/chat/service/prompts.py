"""Prompts of the user's own, for people who write to agents: those of the profiles in the user's configuration.

A profile of a project came with its files and is left out: its prompt is somebody else's text.
"""

from __future__ import annotations

import msgspec

from penstock.config.profile_values import Profile, profile, profile_names
from penstock.config.regular_files import read_start
from penstock.config.settings import Config
from penstock.run.prompt_template import variables_of

MAX_PROMPTS = 200
"""Number of prompts that are offered: more than a person chooses from."""

MAX_PROMPT_BYTES = 64 * 1024
"""Bytes of the longest prompt that is offered: it goes into a field in which a person changes it."""

MAX_ALL_BYTES = 1024 * 1024
"""Bytes of all prompts that are offered: they are sent at once."""

MAX_DESCRIPTION = 200
"""Characters of a description: one line of a list."""


class PromptVariable(msgspec.Struct, frozen=True):
    """Variable of a prompt: `{{NAME}}` in its text."""

    name: str
    value: str = ""
    """Value that the profile gives it; "" if it gives none."""


class StoredPrompt(msgspec.Struct, frozen=True):
    """Prompt that the user has stored under a name."""

    name: str
    description: str
    """First line of its text."""
    text: str
    variables: list[PromptVariable]
    """Variables of the text, each once, in their order."""


def stored_prompts(config: Config) -> list[StoredPrompt]:
    """Return the prompts of the profiles in the user's own configuration, by name. It reads files, and so blocks.

    A prompt is left out if its file cannot be read, it is not text, or it is too long.
    """
    found: list[StoredPrompt] = []
    size = 0
    for name in profile_names(config):
        one = profile(config, name)
        text = None if one is None or one.of_project else _text_of(one)
        if one is None or text is None:
            continue
        size += len(text.encode())
        if size > MAX_ALL_BYTES or len(found) == MAX_PROMPTS:
            break
        values = one.table("variables")
        variables = [PromptVariable(it, values.get(it, "")) for it in variables_of(text)]
        found.append(StoredPrompt(name, text.split("\n", 1)[0].strip()[:MAX_DESCRIPTION], text, variables))
    return found


def _text_of(one: Profile) -> str | None:
    """Return the text of the prompt of a profile; None if it has none that can be offered."""
    text, file = one.value("prompt"), one.value("prompt_file")
    if (text is None) == (file is None):  # with both, the profile is an error
        return None
    try:
        if text is None:
            text = read_start(one.path(file), MAX_PROMPT_BYTES + 1, follows=True).decode("utf-8-sig")
        is_short = len(text.encode()) <= MAX_PROMPT_BYTES
    except (OSError, ValueError):
        return None
    text = text.strip()
    return text if is_short and text and "\0" not in text else None
