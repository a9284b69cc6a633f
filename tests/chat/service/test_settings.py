"""Values of a chat's fields that have no check of their own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.chat.errors import ContentTooLarge, Invalid
from penstock.chat.service.validation import MADE_TITLE_CHARS, MAX_SETTING_BYTES, kept_setting, made_title, setting_of


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


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Hello, you", "Hello, you"),
        ("hello", "hello"),
        ("Hi Claude! Please fix the build. It fails on main.", "Please fix the build"),
        ("Hi!\n\nThe login page is slow. Why?", "The login page is slow"),
        ("hey, what is 1.5 + 2? thanks", "What is 1.5 + 2?"),
        ("```\nTraceback: no such file\n```", "Traceback: no such file"),
        ("---", "---"),
        ("Use e.g. pytest to test it. Then stop.", "Use e.g. pytest to test it"),
        ("Hilbert spaces are nice", "Hilbert spaces are nice"),
        ("Fix src/app.ts:12 now", "Fix src/app.ts:12 now"),
        (" \n a\n", "a"),
        ("x" * 100, "x" * (MADE_TITLE_CHARS - 1) + "…"),
    ],
)
def test_a_chat_is_called_by_its_first_sentence(prompt: str, title: str) -> None:
    """A greeting, marks of code and a full stop are no part of the title."""
    assert made_title(prompt) == title


@given(st.text(min_size=1).filter(str.strip))
def test_each_prompt_makes_a_title_of_one_line(prompt: str) -> None:
    """It is never empty, and never longer than a row of the list."""
    title = made_title(prompt)
    assert title.strip()
    assert len(title.splitlines()) == 1
    assert len(title) <= MADE_TITLE_CHARS
