"""Values of a chat's fields that have no check of their own."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.chat.errors import ContentTooLarge, Invalid
from penstock.chat.service.validation import MAX_SETTING_BYTES, kept_setting, setting_of


@pytest.mark.parametrize(
    ("kind", "value"),
    [(bool, True), (list[str], ["a", "ü\n"]), (str, "\\u0000"), (str | None, None), (int, -1), (str, "é" * 100)],
)
def test_values_that_are_kept(kind: Any, value: object) -> None:
    """A value of the type of its field is kept as it is."""
    assert kept_setting("later", kind, value) == value


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (bool, 1, "Expected `bool`, got `int`"),
        (list[str], ["a", 1], "Expected `str`, got `int`"),
        (list[str], "a", "Expected `array`"),
        (str, None, "Expected `str`, got `null`"),
        (str, object(), "not valid"),
        (str, "a\0", "NUL"),
        (list[str], ["\\", "a\\\0"], "NUL"),
        (list[str], ["\ud800"], "half a character"),
    ],
)
def test_values_that_are_rejected(kind: Any, value: object, words: str) -> None:
    """A value of another type, and text that a database cannot keep, is an error that names the field."""
    with pytest.raises(Invalid, match=words) as problem:
        kept_setting("later", kind, value)
    assert "'later'" in str(problem.value)


def test_a_value_that_is_too_large() -> None:
    """A value has at most so many bytes, in JSON: lists of chats have it."""
    assert kept_setting("later", str, "a" * (MAX_SETTING_BYTES - 2))
    with pytest.raises(ContentTooLarge, match="16,385 bytes"):
        kept_setting("later", str, "a" * (MAX_SETTING_BYTES - 1))


def test_a_field_that_is_none() -> None:
    """A name that is no field is an error with the fields that there are."""
    with pytest.raises(Invalid, match="cannot be changed") as problem:
        setting_of("id", "x")
    assert "heartbeat" in str(problem.value.expected)
