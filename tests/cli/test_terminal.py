from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyte
import pytest
from wcwidth import wcwidth

from penstock.events import BlockRevised, Delta, Event
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "recordings"
WIDTHS = (20, 80, 200)
LIMIT = 10
"""Seconds after which nothing comes any more. Only a test that fails waits for them."""

SGR = re.compile(r"\x1b\[[0-9;]*m")
ROWS = 2000
"""Rows of the screen: nothing scrolls out of sight."""

Open = Callable[..., "Terminal"]


class Terminal:
    """Penstock in a terminal of its own. The terminal adds nothing to what it is sent, not even carriage returns."""

    def __init__(self, width: int, env: dict[str, str], folder: Path, *options: str) -> None:
        self.width = width
        self.seen = b""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        tty.setcbreak(theirs)  # Ctrl-C stays a signal
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        # The shell opens the terminal, to read as well, as the leader of a new session: so Ctrl-C comes from there.
        shell = ["sh", "-c", 'exec "$@" 1<> "$0"', os.ttyname(theirs), sys.executable, "-m", "penstock", "read", "-"]
        shell += options
        self.process = subprocess.Popen(
            shell, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd=folder, start_new_session=True
        )
        self._theirs = theirs  # kept open: reading a terminal that nobody else has open is an error

    def feed(self, data: bytes) -> None:
        """Write to the pipe that Penstock reads, as it takes it."""
        assert self.process.stdin is not None
        pipe = self.process.stdin.fileno()
        for at in range(0, len(data), select.PIPE_BUF):
            assert select.select([], [pipe], [], LIMIT)[1], "nothing is read any more"
            os.write(pipe, data[at : at + select.PIPE_BUF])

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._ours, keys)

    def read_until(self, there: Callable[[bytes], bool]) -> None:
        """Take what comes until it is enough, or nothing comes any more."""
        while not there(self.seen) and select.select([self._ours], [], [], LIMIT)[0]:
            self.seen += os.read(self._ours, 65_536)

    def end(self) -> int:
        """End the pipe, take all that comes; the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        quiet = 0.0
        while self.process.poll() is None:
            quiet = 0.0 if self._take(0.01) else quiet + 0.01
            assert quiet < LIMIT, "it does not end"
        while self._take(0):
            pass
        return self.process.returncode

    def _take(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        self.seen += os.read(self._ours, 65_536)
        return True

    @property
    def text(self) -> str:
        """What came so far, without colours."""
        return SGR.sub("", self.seen.decode())

    def screen(self, before: str = "") -> pyte.Screen:
        """A screen of this width that has shown `before`, then what came."""
        screen = pyte.Screen(self.width, ROWS)
        screen.set_mode(pyte.modes.LNM)  # a line feed begins a line, as in a terminal that is not raw
        pyte.Stream(screen).feed(before + drawable(self.seen.decode()))
        return screen

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Open]:
    """Opens terminals in which nothing is configured and no CI service is at work."""
    ours = ("PENSTOCK_", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "GITLAB_CI", "PYTHONUNBUFFERED")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    env = {**clean, "XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": path, "PYTHONUTF8": "1", "TERM": "xterm-256color"}
    env["PENSTOCK_RENDER"] = "off"  # rendered text depends on the time, as held text is flushed
    opened: list[Terminal] = []

    def open_one(width: int = 80, *options: str) -> Terminal:
        opened.append(Terminal(width, env, tmp_path, *options))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


def drawable(text: str) -> str:
    """`text` without what takes no cell: joiners and marks, of which emulators think differently."""
    return "".join(char for char in text if wcwidth(char) != 0)


def squeezed(text: str) -> str:
    """`text` without its white space, which wrapping and hanging change."""
    return "".join(drawable(text).split())


def untimed(text: str) -> str:
    """`text` without how long the run took, which many agents leave to the clock."""
    return re.sub(r" (in|·) [\d.]+ (s|min|h)\b.*?(?= ·|$)", "", text, flags=re.MULTILINE)


def read(name: str) -> bytes:
    """The bytes of a recording."""
    return (FOLDER / name / "input.ndjson").read_bytes()


def cells(text: str) -> int:
    """How many cells of a row a text needs."""
    return sum(max(wcwidth(char), 0) for char in text)


# --- what is written ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_only_text_and_colours(recording: Recording, open_terminal: Open) -> None:
    """No carriage return and no escape but colours is sent; without them and line breaks a log has the same bytes."""
    width = WIDTHS[len(recording.name) % len(WIDTHS)]
    terminal = open_terminal(width, "--no-wrap")
    terminal.feed(recording.data)
    terminal.end()
    assert b"\r" not in terminal.seen
    assert "\x1b" not in terminal.text
    stream = Stream("auto")
    events = feeds.whole(stream, recording.data)
    if not any(type(event) is BlockRevised for event in events):
        sink = TextSink("none")
        assert untimed(terminal.text) == untimed(sink.render(events) + sink.close())


@pytest.mark.slow
def test_an_agent_never_waits_for_the_terminal(open_terminal: Open) -> None:
    """All that an agent prints is taken in while nobody reads the terminal, and then shown to the end."""
    data = read("gemini/long")
    assert len(data) > 4 * 65_536  # more than the pipe and the terminal hold
    terminal = open_terminal()
    terminal.feed(data)
    assert terminal.seen == b""
    assert terminal.end() == 0
    assert "word2999 of a long reply" in terminal.text


@pytest.mark.sample(24)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["claude/tools", "codex/thinktools", "gemini/text", "opencode/text", "qwen/tools"])
def test_a_screen_shows_it_all(name: str, width: int, open_terminal: Open) -> None:
    """At each width the rows, joined, have every text of the agent, and the cursor is where the last line ended."""
    terminal = open_terminal(width)
    terminal.feed(read(name))
    terminal.end()
    screen = terminal.screen()
    shown = squeezed("".join(screen.display))
    expected = json.loads((FOLDER / name / "expected.json").read_text("utf-8"))
    for _, text in expected["blocks"]:
        assert squeezed(text) in shown
    assert squeezed(expected["reply"]) in shown
    assert screen.cursor.x == 0
    assert not any(row.strip() for row in screen.display[screen.cursor.y :])


# --- when it is written -------------------------------------------------------------------------------


def at_least(size: int) -> Callable[[bytes], bool]:
    """Return whether so many bytes have come."""
    return lambda seen: len(seen) >= size


def follow(terminal: Terminal, data: bytes) -> list[tuple[bytes, list[Event], str]]:
    """Feed line after line, each only when all that the lines before it say has come to the terminal.

    Gives the line, its events and what had come after it, for each line.
    """
    stream, sink = Stream("auto"), TextSink("full", color=True, width=terminal.width)
    expected = b""
    steps = []
    for line in data.splitlines(keepends=True):
        events = stream.feed(line)
        terminal.feed(line)
        expected += sink.render(events).encode()
        terminal.read_until(at_least(len(expected)))
        steps.append((line, events, terminal.text))
        assert terminal.seen == expected
    return steps


LIVE = ["claude/text", "gemini/thinktools", "qwen/thinking", "copilot/thinktools", "ccs/tools", "ollama-synthetic/text"]


def claude_delta(text: str) -> bytes:
    """The line with which claude adds to its text."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return json.dumps({"type": "stream_event", "session_id": "s", "event": delta}).encode() + b"\n"


@pytest.mark.parametrize("render", ["auto", "on"])
def test_a_held_marker_is_written_after_100_ms(render: str, open_terminal: Open) -> None:
    """Though nothing follows it; a marker that is complete in time is not written at all."""
    terminal = open_terminal(80, "--agent", "claude", "--render", render)
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    message = {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}}
    for event in (message, begun):
        terminal.feed(json.dumps({"type": "stream_event", "session_id": "s", "event": event}).encode() + b"\n")
    terminal.feed(claude_delta("some **bold** text, `"))
    terminal.read_until(lambda seen: seen.endswith(b"text, "))
    assert terminal.text.endswith("some bold text, ")
    terminal.read_until(lambda seen: b"`" in seen)
    assert terminal.text.endswith("some bold text, `")


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", [*LIVE, "pi/thinking", "cline/thinking"])
def test_each_piece_comes_before_the_next(name: str, open_terminal: Open) -> None:
    """What a line of the agent adds to a text is on the terminal before the agent writes its next line."""
    terminal = open_terminal()
    grown = 0
    for _, events, text in follow(terminal, read(name)):
        deltas = [e.text for e in events if type(e) is Delta and e.kind in ("text", "thinking") and e.parent is None]
        piece = squeezed("".join(deltas))
        if piece:
            grown += 1
            assert squeezed(text).endswith(piece)
    assert grown > 5


@pytest.mark.sample(24)
@pytest.mark.parametrize(
    ("name", "piece_of"),
    [
        ("pi/thinking", lambda line: line.get("assistantMessageEvent", {}).get("delta", "")),
        ("cline/thinking", lambda line: _cline_piece(line.get("event", {}))),
    ],
)
def test_a_reply_streams_beside_open_thinking(
    name: str, piece_of: Callable[[dict[str, Any]], str], open_terminal: Open
) -> None:
    """Agents that end their thinking after their reply still have each piece of the reply shown at once."""
    terminal = open_terminal()
    pieces = 0
    for line, _, text in follow(terminal, read(name)):
        if piece := squeezed(piece_of(json.loads(line))):
            pieces += 1
            assert squeezed(text).endswith(piece)
    assert pieces > 20


def _cline_piece(event: dict[str, Any]) -> str:
    if event.get("type") != "content_start":
        return ""
    return event.get("text") or event.get("reasoning") or ""


# --- hostile text -------------------------------------------------------------------------------------

HOSTILE = {
    "clear screen": "\x1b[2J\x1b[3J\x1b[H",
    "home and overwrite": "\x1b[1;1HOVERWRITTEN\x1b[5A\x1b[2K",
    "c1 controls": "\x9b2J\x9b1;1H\x8d\x85",
    "title": "\x1b]0;owned\x07\x1b]2;owned\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "hyperlink": "\x1b]8;;http://evil.example/\x1b\\click\x1b]8;;\x1b\\",
    "other screen": "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[5;10r",
    "reset and saved cursor": "\x1b7\x1bc\x1b8\x1b(0",
    "colours": "\x1b[31;7;5m",
    "backspaces": "visible\b\b\b\b\b\b\bhidden!\x7f\a\0",
    "progress bar": "10%\r20%\r\n30%\r\n\r\n100%\r",
    "direction": "\u202egnp.exe\u2066\u200f\u061c",
    "unfinished": "\x1b[",
    "unfinished title": "\x1b]0;owned",
    "ci commands": "\n::set-env name=PATH::evil\n##vso[task.setvariable]x\n::error::no\n",
    "a long line": "0123456789" * 2000,
}


def claude(text: str, size: int) -> bytes:
    """Claude's wire, which says and runs `text`, in pieces of `size` characters."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    block: dict[str, Any] = {"type": "text", "text": ""}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": text}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": False}
    api: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(_delta({"type": "text_delta", "text": piece}, 0) for piece in pieces),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {**call, "input": {}}},
        _delta({"type": "input_json_delta", "partial_json": json.dumps({"command": text})}, 1),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    lines = [
        json.loads(read("claude/text").partition(b"\n")[0]),
        *({"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": None} for event in api),
        {"type": "user", "message": {"role": "user", "content": [result]}, "parent_tool_use_id": None},
        {"type": "result", "subtype": "success", "is_error": False, "result": "", "session_id": "s", "duration_ms": 9},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _delta(delta: dict[str, Any], index: int) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


@pytest.mark.sample(24)
@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.slow
def test_text_is_only_text(attack: str, open_terminal: Open) -> None:
    """Whatever an agent says, calls or gets back, a terminal shows text below what stood there, and no more."""
    before = "earlier one\nearlier two\n"
    terminal = open_terminal(80)
    size = 1 if len(HOSTILE[attack]) < 1000 else 997
    terminal.feed(claude(f"BEGIN {HOSTILE[attack]}\nEND", size))
    terminal.end()

    assert "\x1b" not in terminal.text
    assert b"\r" not in terminal.seen
    assert not re.search(r"(?m)^::|##\w*\[", terminal.text)
    screen, blank = terminal.screen(before), pyte.Screen(80, ROWS)
    blank.set_mode(pyte.modes.LNM)
    assert (screen.title, screen.icon_name) == ("", "")
    assert screen.mode == blank.mode
    assert (screen.margins, screen.charset, screen.savepoints) == (blank.margins, blank.charset, blank.savepoints)
    assert [row.rstrip() for row in screen.display[:2]] == ["earlier one", "earlier two"]

    lines = terminal.text.split("\n")
    assert lines.pop() == ""
    wrapped = [line[at : at + 80].rstrip() for line in lines for at in range(0, len(line) or 1, 80)]
    assert [row.rstrip() for row in screen.display[2 : 2 + len(wrapped)]] == wrapped
    assert (screen.cursor.y, screen.cursor.x) == (2 + len(wrapped), 0)
    attributes = screen.cursor.attrs
    assert (attributes.fg, attributes.bg, attributes.reverse) == ("default", "default", False)
    assert not any(cell.reverse or cell.bg != "default" for row in screen.buffer.values() for cell in row.values())
    assert terminal.text.startswith("[claude] · claude ")
    assert "\n[claude] BEGIN " in terminal.text
    assert "\n         END\n" in terminal.text


# --- Ctrl-C -------------------------------------------------------------------------------------------


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", ["claude/text", "gemini/text"])
def test_ctrl_c(name: str, open_terminal: Open) -> None:
    """Ctrl-C ends the open line, says that it was cut off and how the run ended, and gives the status 130."""
    terminal = open_terminal()
    follow(terminal, b"".join(read(name).splitlines(keepends=True)[:40]))
    assert not terminal.text.endswith("\n")
    shown = terminal.text
    terminal.type(b"\x03")
    terminal.process.wait(LIMIT)
    assert terminal.end() == 128 + signal.SIGINT
    assert terminal.text.startswith(shown)
    ending = terminal.text[len(shown) :]
    assert ending.split("\n")[0].endswith(" (cut off)")  # the last delta may still have been on its way
    assert "■ cancelled" in ending
    assert ending.endswith("\n")
    assert terminal.screen().cursor.x == 0
