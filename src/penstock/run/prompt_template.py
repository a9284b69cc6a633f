"""Prompts with variables: `{{NAME}}` in a file or a profile, whose values are those of `-e NAME=VALUE`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from penstock.adapter import MAX_STDIN_BYTES
from penstock.config.profiles import NAME
from penstock.errors import UsageError, shown

PROMPT = "prompt"
"""Variable whose value is the prompt of the command line."""
_PLACE = re.compile(r"\{\{(" + NAME.pattern + r")\}\}")


def variables_of(text: str) -> list[str]:
    """Return the names of the variables in a text, each once, in their order."""
    return list(dict.fromkeys(_PLACE.findall(text)))


class Template(msgspec.Struct, frozen=True):
    """Text of a prompt, and the values of the variables in it."""

    text: str
    values: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Check that each variable has a value, and each value a variable.

        Raises:
            UsageError: one has not.
        """
        names = variables_of(self.text)
        for name in self.values:
            if name == PROMPT:
                raise UsageError("{{prompt}} is the prompt of the command line", help="leave out its value")
            if name not in names:
                known = ", ".join(one for one in names if one != PROMPT)
                raise UsageError(
                    f"the prompt has no variable {shown(name)}",
                    expected=f"one of {known}" if known else "",
                    help="write {{" + name + "}} in it; a variable of the agent's environment is set by --env",
                )
        missing = [name for name in names if name not in self.values and name != PROMPT]
        if missing:
            raise UsageError(
                f"the prompt has the variable {missing[0]}, which has no value", help=f"-e {missing[0]}=VALUE"
            )

    @property
    def needs_prompt(self) -> bool:
        """True if the text has a place for the prompt of the command line."""
        return "{{" + PROMPT + "}}" in self.text

    def filled(self, prompt: str) -> str:
        """Return the text with its values. Without a place of its own, the prompt follows after an empty line."""
        values = {**self.values, PROMPT: prompt}
        text = _PLACE.sub(lambda found: values[found[1]], self.text)
        if self.needs_prompt or not prompt.strip():
            return text
        return f"{text.rstrip()}\n\n{prompt}"


def read_template(path: str) -> str:
    """Return the text of a file with a prompt.

    Raises:
        UsageError: it cannot be read, is not UTF-8, or is too long.
    """
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(MAX_STDIN_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the prompt file {shown(path)} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"the prompt file {shown(path)} is not a text in UTF-8") from error
    if len(data) > MAX_STDIN_BYTES:
        raise UsageError(f"the prompt file {shown(path)} has more than {MAX_STDIN_BYTES:,} bytes")
    if not text.strip():
        raise UsageError(f"the prompt file {shown(path)} is empty")
    return text
