"""How Markdown is rendered: markers, links, tables, code, and when it is rendered at all."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock import events as ev
from penstock.sinks.text.display_mode import look
from penstock.sinks.text.sink import TextSink

A: dict[str, Any] = {"agent": "a"}
TERMINAL = {"TERM": "xterm-256color"}


def show(text: str, render: Any = "on", **options: Any) -> str:
    """What a terminal gets of a text, without colours."""
    sink = TextSink("full", color=True, render=render, prefix="none", **options)
    started, delta = ev.BlockStarted(1, "text", 1, **A), ev.Delta(1, "text", text, **A)
    output = sink.render([started, delta, ev.BlockEnded(1, "text", text, True, **A)]) + sink.close()
    return re.sub(r"\x1b\[[0-9;]*m", "", output).rstrip("\n")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("# Title\n> said\n- item", "Title\n│ said\n• item"),
        ("**bold** and `code`", "bold and code"),
        ("*args, *.py, __init__, 2**8, **/*.py", "*args, *.py, __init__, 2**8, **/*.py"),
        ("```py\nx = 1\n```\nend", "py\nx = 1\nend"),
        ("```\nx\n```", "x"),
        ("```x``` is code", "x is code"),
        ("`a**b**`", "a**b**"),
        ("#tag and >=", "#tag and >="),
    ],
)
def test_markers(source: str, shown: str) -> None:
    """They are dropped if they are certainly markers."""
    assert show(source, "auto") == shown
    assert show(source, "on") == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("[it](https://e.org/a)", "\x1b]8;;https://e.org/a\x1b\\it\x1b]8;;\x1b\\"),
        ("[good.org](https://evil.org/a)", "\x1b]8;;https://evil.org/a\x1b\\good.org\x1b]8;;\x1b\\ (evil.org)"),
        ("[a.org](https://a.org@b.org)", "\x1b]8;;https://a.org@b.org\x1b\\a.org\x1b]8;;\x1b\\ (b.org)"),
        ("[it](javascript:alert)", "[it](javascript:alert)"),
        ("[it](file:///etc)", "[it](file:///etc)"),
        ("[it](https://еxample.org)", "[it](https://еxample.org)"),
        ("[it](https://e.org/\x07a)", "[it](https://e.org/␇a)"),
    ],
)
def test_links(source: str, shown: str) -> None:
    """Only addresses that are safe become hyperlinks, and the host is shown if the text looks like another."""
    assert show(source, hyperlinks=True) == shown


def test_a_link_without_hyperlinks() -> None:
    """It is the text and the address; `auto` shows it as it came."""
    assert show("[it](https://e.org/a)") == "it (https://e.org/a)"
    assert show("[it](https://e.org/a)", "auto", hyperlinks=True) == "[it](https://e.org/a)"


def test_a_table() -> None:
    """It is aligned by columns of the terminal; a wide one and `auto` stay as they came."""
    table = "| a | 漢字 |\n|--:|---|\n| 100 | **x** |"
    assert show(table, width=80) == "  a │ 漢字\n────┼─────\n100 │ x"
    assert show(table, width=10) == table
    assert show(table, "auto") == table


@pytest.mark.parametrize(
    ("env", "options", "rendered"),
    [
        (TERMINAL, {}, "on"),
        ({"TERM": "dumb"}, {}, "off"),
        ({"TERM": "dumb"}, {"color": "always"}, "off"),
        ({**TERMINAL, "NO_COLOR": "1"}, {}, "off"),
        (TERMINAL, {"is_tty": False}, "off"),
        (TERMINAL, {"is_tty": False, "color": "always"}, "off"),
        (TERMINAL, {"mode": "none"}, "off"),
    ],
)
def test_only_a_terminal_with_colours(env: dict[str, str], options: dict[str, Any], rendered: str) -> None:
    """Pipes and logs stay as they are, whatever is wanted."""
    assert look(env, **{"is_tty": True, "render": "on", **options}).render == rendered


@pytest.mark.parametrize(
    ("env", "known"),
    [
        (TERMINAL, False),
        ({"TERM": "xterm-kitty"}, True),
        ({**TERMINAL, "VTE_VERSION": "7600"}, True),
        ({**TERMINAL, "VTE_VERSION": "4600"}, False),
        ({**TERMINAL, "TERM_PROGRAM": "WezTerm", "TMUX": "/tmp/x"}, False),
    ],
)
def test_hyperlinks_are_for_terminals_that_are_known(env: dict[str, str], known: bool) -> None:
    """A multiplexer may not pass them on."""
    assert look(env, is_tty=True, render="on").hyperlinks == known
