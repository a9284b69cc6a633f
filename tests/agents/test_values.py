from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from penstock.agents import _json as values
from penstock.events import PlanItem


def nested(depth: int) -> Any:
    """Text inside so many objects."""
    value: Any = "deep"
    for _ in range(depth):
        value = {"content": [value]}
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("a", "a"),
        (["a", None, {"text": "b"}], "a\nb"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image", "source": {"media_type": "image/png"}}]},
         "a\n[image image/png]"),
        ({"type": "text", "text": ""}, ""),
        ({"answer": 42}, '{"answer":42}'),
        ({}, ""),
        (7, "7"),
        (False, "false"),
        (nested(3), "deep"),
    ],
)  # fmt: skip
def test_text_comes_out_of_every_shape(value: Any, text: str) -> None:
    """Strings, blocks, lists of them; what holds no text is shown as JSON."""
    assert values.text_of(value) == text


def test_text_that_lies_too_deep_is_shown_as_json() -> None:
    """Nesting costs no recursion beyond the bound, and nothing is lost."""
    assert msgspec.json.decode(values.text_of(nested(9))) == nested(5)
    assert isinstance(values.text_of(nested(5000)), str)


@pytest.mark.parametrize(
    ("value", "whole", "number"),
    [
        (3, 3, 3.0),
        (2.5, 2, 2.5),
        (True, None, None),
        ("3", None, None),
        (None, None, None),
        (math.nan, None, None),
        (math.inf, None, None),
        (10**400, 10**400, None),
    ],
)
def test_numbers_are_only_numbers(value: Any, whole: int | None, number: float | None) -> None:
    """A text or a boolean in the place of a figure is no figure."""
    assert values.as_int(value) == whole
    assert values.as_float(value) == number


def test_plans_of_many_wires() -> None:
    """Texts, or objects under one of several names; what has no text is left out."""
    entries = [
        "a",
        {"content": "b", "status": "in_progress"},
        {"step": "c", "completed": True},
        {"status": "done"},
        None,
    ]
    assert values.plan_items(entries) == [
        PlanItem("a", "pending"),
        PlanItem("b", "in_progress"),
        PlanItem("c", "completed"),
    ]
    assert values.plan_items("no list") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error":{"message":"busy"}}', "busy"),
        ('{"error":"busy"}', "busy"),
        ('{"detail":"busy"}', "busy"),
        ('{"code":3}', '{"code":3}'),
        ("{broken", "{broken"),
        ("plain", "plain"),
    ],
)
def test_the_message_inside_an_error_that_is_json(text: str, message: str) -> None:
    """What cannot be taken apart stays as it is."""
    assert values.inner_message(text) == message
