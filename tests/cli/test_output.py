"""The look of the output: one decision, as a truth table."""

from __future__ import annotations

import os
from itertools import product

import pytest

from penstock.cli.console import Output
from penstock.errors import TransportError
from penstock.sinks.text.display_mode import Look, look


@pytest.mark.parametrize("is_tty", [False, True])
@pytest.mark.parametrize("color", ["auto", "always", "never"])
def test_colour(color: str, is_tty: bool) -> None:
    """The flag is over NO_COLOR, that over FORCE_COLOR, that over the terminal; the mode follows."""
    for term, no_color, forced in product([None, "dumb", "xterm"], [None, "", "1"], [None, "", "0", "1"]):
        given = {"TERM": term, "NO_COLOR": no_color, "FORCE_COLOR": forced}
        env = {name: value for name, value in given.items() if value is not None}
        if color != "auto":
            colored = color == "always"
        elif no_color == "1":
            colored = False
        elif forced == "1":
            colored = True
        else:
            colored = is_tty and term != "dumb"
        mode = "full" if is_tty else "basic" if colored else "none"
        assert look(env, is_tty=is_tty, color=color) == Look(mode, colored), env  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "is_tty", "color", "several", "chosen"),
    [
        ("auto", True, "auto", False, "full"),
        ("auto", True, "auto", True, "basic"),
        ("auto", True, "never", True, "none"),
        ("auto", False, "auto", True, "none"),
        ("full", False, "auto", False, "full"),
        ("full", False, "auto", True, "none"),
        ("full", True, "always", True, "basic"),
        ("none", True, "always", False, "none"),
        ("basic", True, "never", False, "basic"),
    ],
)
def test_mode(mode: str, is_tty: bool, color: str, several: bool, chosen: str) -> None:
    """What was asked for, else what fits the place; several runs never share a growing line."""
    found = look({}, is_tty=is_tty, mode=mode, color=color, several=several)  # type: ignore[arg-type]
    assert found.mode == chosen


@pytest.mark.parametrize(
    ("env", "ci"),
    [
        ({}, None),
        ({"CI": "true"}, None),
        ({"GITHUB_ACTIONS": "true"}, "github"),
        ({"GITHUB_ACTIONS": "false"}, None),
        ({"GITLAB_CI": "true"}, "gitlab"),
    ],
)
def test_ci_service(env: dict[str, str], ci: str | None) -> None:
    """The services whose log lines can be commands are known by what they promise to set."""
    assert look(env, is_tty=False).ci == ci


def test_a_full_pipe_of_another_programs_making() -> None:
    """Output that was made non-blocking by another program is waited for, and arrives whole."""
    import threading

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    text = "x" * 300_000

    def write() -> None:
        Output(writer).write(text)
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    found = b""
    while data := os.read(reader, 65536):
        found += data
    thread.join()
    os.close(reader)
    assert found == text.encode()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_output_that_cannot_be_written() -> None:
    """A full disk is told in words; characters that an encoding lacks are replaced."""
    with open("/dev/full", "wb") as full, pytest.raises(TransportError, match="cannot be written: No space left"):
        Output(full.fileno()).write("x")
    reader, writer = os.pipe()
    Output(writer, "ascii").write("✓")
    os.close(writer)
    assert os.read(reader, 10) == b"?"
    os.close(reader)
