"""What the model says in each scenario. A prompt names its scenario: `scenario=tools`.

The texts are those of `tests/recordings`, so that a new recording differs from an old one by its agent alone.

A scenario is a list of answers; the model gives the next one after each round of tool results.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Think(NamedTuple):
    """Thinking, in pieces of `size` characters."""

    text: str
    size: int = 9
    rest: float = 0
    """Seconds after each piece."""


class Say(NamedTuple):
    """Text, in pieces of `size` characters."""

    text: str
    size: int = 7
    rest: float = 0
    """Seconds after each piece."""


class Call(NamedTuple):
    """A tool call in nobody's dialect: the server looks for a tool that does it among those that are offered."""

    does: str
    """`shell`, `read`, `write`, `edit`, `plan`, `agent`, `ask` or `reply`."""
    text: str
    """The command, the content of the file, the status of the plan's only step, the sub-agent's prompt, the lines
    that an edit inserts, the question for the user, or the reply by a schema, as JSON."""
    path: str = ""
    old: str = ""
    """The lines that an edit replaces."""


class Try(Call):
    """A tool call in an answer that is left out if no such tool is offered."""


class Use(NamedTuple):
    """A call of one agent's tool by its own name, with its own input; `{folder}` in a text is the working directory."""

    tool: str
    input: dict[str, Any]


class Wait(NamedTuple):
    """Nothing more until the test opens the server's gate."""


class Break(NamedTuple):
    """An error event in the middle of the stream."""

    message: str


class Limit(NamedTuple):
    """The answer is over here: the model has written as much as it may."""


class Refuse(NamedTuple):
    """No stream at all: an HTTP status and an error."""

    status: int
    message: str


class History(NamedTuple):
    """Text that says which scenarios the prompts of this conversation have named."""


Piece = Think | Say | Call | Use | Wait | Break | Limit | Refuse | History
Answer = list[Piece]

MARKDOWN = """\
# Résumé — 你好，世界

Plain, **bold**, *italic*, `inline code`, and a [link](http://127.0.0.1/x).

- emoji: 👩\u200d👩\u200d👧\u200d👦 🇪🇺 👍🏽 🧑\u200d💻 ✅
- CJK: 日本語のテキスト、한국어, 繁體中文
- combining: é ñ ạ̊ Z͑ͫ̓ͪ
- RTL: שלום عالم — Devanagari: नमस्ते
- math: ∑ᵢ xᵢ² ≤ ∞

1. first
2. second
   - nested

| col A | col B |
|-------|------:|
| x     |     1 |
| 長い  |    22 |

```python
def greet(name: str) -> str:
    # a comment with ``two`` backticks
    return f"hello, {name}"  # 👋
```

> A quote, then the end.
"""
THOUGHT = """\
Let me think about this. First, I list the facts: 1) one; 2) two.

**Weighing options**

The user wants a short answer — 日本語 too. I will say forty-two."""
LONG = "".join(
    f"word{line:04} of a long reply, with text to reach seventy bytes or so: 長 ✓ {7 * line}\n" for line in range(3000)
)
NOTES = "line one\nline two — ünï\n"
STORY = "".join(f"line {number:02}\n" for number in range(1, 21))
"""Content of the file `story.txt` before it is edited; the test writes it."""
EDITED = "line 09\nline 10\n", "line nine — ünï\nline nine and a half\nline ten\n"
"""Lines of the story, and those that replace them."""
FIRST_HALF, SECOND_HALF = "This is the first half, ", "and this is the second. FINAL-REPLY."

MAKE = 'python3 -c \'open("made.txt", "w")\''
"""Command that no agent allows by itself."""
REMOVES = "rm -rf build", "rm -rf other"
"""Two commands of one program."""
HARM = 'python3 -c \'open("../precious.txt", "w")\''
"""Command that empties a file beside the working directory."""
COLOURS = ("Red", "Blue")
"""Options of the question for the user."""

COUNT = '{"penguins":7}'
"""A reply by a schema."""

SCENARIOS: dict[str, list[Answer]] = {
    "text": [[Say(MARKDOWN)]],
    "thinking": [[Think(THOUGHT), Say("The answer is **42**. (This is the visible reply.)")]],
    "count": [[Call("reply", COUNT)], [Say("Counted.")]],
    "thinktools": [
        [Think("I need to look first."), Say("Looking."), Call("shell", "echo hi && ls")],
        [Think("Now I know enough."), Say("Finished thinking and tools. FINAL-REPLY.")],
    ],
    "tools": [
        [Say("I will look around first."), Call("shell", "echo hi && ls")],
        [Say("Now I write the file."), Call("write", NOTES, "notes.txt")],
        [Say("All done: `notes.txt` has two lines. FINAL-REPLY.")],
    ],
    "gated": [
        [Say("I will look around first."), Call("shell", "echo hi && ls")],
        [Wait(), Say("Now I write the file."), Call("write", NOTES, "notes.txt")],
        [Say("All done: `notes.txt` has two lines. FINAL-REPLY.")],
    ],
    "here": [
        [Say("I write where I am."), Call("shell", "echo here > here.txt && git add . && git commit -qm mine")],
        [Say("It is written. FINAL-REPLY.")],
    ],
    "edit": [
        [Say("I read the story first."), Call("read", "", "story.txt")],
        [Say("Now I edit it."), Call("edit", EDITED[1], "story.txt", EDITED[0])],
        [Say("The story is edited. FINAL-REPLY.")],
    ],
    "edits": [
        [Say("I read it first."), Call("read", "", "README.md")],
        [Say("Two edits."), Call("edit", "line ten\nline eleven — ünï\nextra\n", "README.md", "line 10\nline 11\n")],
        [Call("edit", "", "README.md", "line 25\n")],
        [Say("One that fails."), Call("edit", "nothing\n", "README.md", "this is not in it\n")],
        [Say("And now anew."), Call("write", NOTES, "README.md")],
        [Say("All is edited. FINAL-REPLY.")],
    ],
    "overwrite": [
        [Say("I read the story first."), Call("read", "", "story.txt")],
        [Say("Now I write it anew."), Call("write", NOTES, "story.txt")],
        [Say("The story is new. FINAL-REPLY.")],
    ],
    "parallel": [
        [Say("Two at once."), Call("shell", "sleep 0.3; echo first"), Call("shell", "echo second")],
        [Say("Both have finished. FINAL-REPLY.")],
    ],
    "toolerror": [
        [Say("Running a failing command."), Call("shell", "echo out; echo err >&2; exit 3")],
        [Say("The command failed with status 3. FINAL-REPLY.")],
    ],
    "todo": [
        [Say("A plan first."), Call("plan", "in_progress")],
        [Call("plan", "completed")],
        [Say("The plan is done. FINAL-REPLY.")],
    ],
    "subagent": [
        [Say("I will ask a helper."), Call("agent", "scenario=helper please")],
        [Say("The helper is back. FINAL-REPLY.")],
    ],
    "helper": [
        [Say("The helper looks first."), Call("shell", "echo helping")],
        [Say("The helper reports one file.")],
    ],
    "removes": [
        [Say("I clean up."), Call("shell", REMOVES[0])],
        [Say("Once more."), Call("shell", REMOVES[0])],
        [Say("And the rest."), Call("shell", REMOVES[1])],
        [Say("Cleaned up. FINAL-REPLY.")],
    ],
    "twice": [
        [Say("I run it."), Call("shell", MAKE)],
        [Say("I run it again."), Call("shell", MAKE)],
        [Say("It has run twice. FINAL-REPLY.")],
    ],
    "choice": [
        [Say("I ask first."), Call("ask", "Which colour?")],
        [Say("Now I know. FINAL-REPLY.")],
    ],
    "levelfiles": [
        [Say("A file here."), Try("write", NOTES, "notes.txt")],
        [Say("One elsewhere."), Try("write", NOTES, "../outside.txt")],
        [Say("Both are tried. FINAL-REPLY.")],
    ],
    "levelcommands": [
        [Say("A command that harms."), Try("shell", HARM)],
        [Say("One that writes here."), Try("shell", MAKE)],
        [Say("One that looks."), Try("shell", "ls")],
        [Say("All are tried. FINAL-REPLY.")],
    ],
    "maxtok": [[Say("This reply is cut off at the limit, in the mid"), Limit()]],
    "goeson": [
        [Say('Here is the code:\n\n```python\nprint("hel'), Limit()],
        [Say('lo, world")\n```\n\nThat is all. FINAL-REPLY.')],
    ],
    "cutcalls": [
        [Say("I look first."), Call("shell", "echo hi && ls"), Limit()],
        [Say("I look around."), Call("shell", "echo hi && ls")],
        [Say("All is seen. FINAL-REPLY.")],
    ],
    "long": [[Say(LONG, 75)]],
    "slow": [[Say(FIRST_HALF), Wait(), Say(SECOND_HALF)]],
    "history": [[History()]],
    "err401": [[Refuse(401, "This key is not good enough.")]],
    "err400": [[Refuse(400, "prompt is too long: 210000 tokens > 200000 maximum")]],
    "err500": [[Refuse(500, "The model server is broken.")]],
    "errstream": [[Say("This reply breaks off in the mid"), Break("The model server is overloaded.")]],
}
TITLE = "A short title"
"""The answer to all that is asked without any tool: agents name their conversations so."""

NAMED = re.compile(r"scenario=([a-z0-9]+)")


def texts(scenario: str) -> list[str]:
    """What the model says as text, message by message."""
    said = ["".join(piece.text for piece in answer if isinstance(piece, Say)) for answer in SCENARIOS[scenario]]
    return [text for text in said if text]


def thoughts(scenario: str) -> list[str]:
    """What the model thinks, message by message."""
    said = ["".join(piece.text for piece in answer if isinstance(piece, Think)) for answer in SCENARIOS[scenario]]
    return [text for text in said if text]


def calls(scenario: str) -> list[Call]:
    """The tools that the model calls."""
    return [piece for answer in SCENARIOS[scenario] for piece in answer if isinstance(piece, Call)]


def history(scenarios: list[str]) -> str:
    """What `History` says."""
    return f"The prompts of this conversation: {', '.join(scenarios)}. FINAL-REPLY."
