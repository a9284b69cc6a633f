"""Record the run that `penstock demo` replays, and a first run in a terminal: `python tests/real/record_demo.py`.

A real claude works in a small project. The model server plays the model, at the pace of a person who reads along. In
the first run it asks before it changes a file, and a person answers; `docs/picture.py` draws what the terminal shows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import record
import scenarios
from scenarios import Say, Think, Use
from setups import Bench, Target, bench

FOLDER = Path(__file__).parents[2] / "src" / "penstock" / "cli" / "demo"
PROJECT = Path("/tmp/shop")
"""Folder of the project, whose name is seen in the demo. It is made for the recording."""
MODEL = "claude-sonnet-4-5"
REST = 0.06
"""Seconds between two pieces of text: 100 characters a second, which is the pace of a fast model."""

FILES = {
    "prices.py": "def total(prices):\n    return sum(prices)\n",
    "test_prices.py": """\
from prices import total


def test_whole():
    assert total([4, 5]) == 9


def test_cents():
    assert total([0.1, 0.2]) == 0.3
""",
    "cart.py": "from prices import total\n\nprint(total([4.5, 0.3]))\n",
    "invoice.py": "from prices import total\n\nprint(total([9.9]))\n",
}

STEPS = ("Run the tests", "Check who uses total()", "Fix and run again")


def _step(number: int, status: str) -> Use:
    return Use("TaskUpdate", {"taskId": str(number), "status": status})


def _say(text: str) -> Say:
    return Say(text, 6, REST)


def _command(command: str, description: str) -> Use:
    return Use("Bash", {"command": command, "description": description})


STORY: list[scenarios.Answer] = [
    [
        Think("A total that is wrong by a tiny amount: these are floats. First I see it fail.", 6, REST),
        *(Use("TaskCreate", {"subject": step, "description": step, "activeForm": step}) for step in STEPS),
    ],
    [
        _say("I run the tests and read the code."),
        Use("Read", {"file_path": "{folder}/prices.py"}),
        _command("pytest -q --tb=line", "Run the tests"),
    ],
    [
        _say("`total` adds floats and never rounds. Who depends on that?"),
        Use(
            "Task",
            {
                "description": "Find callers of total()",
                "prompt": "Find callers of total(). scenario=callers",
                "subagent_type": "Explore",
            },
        ),
    ],
    [
        _say("Both only print it, so it is safe to round to cents."),
        Use(
            "Edit",
            {
                "file_path": "{folder}/prices.py",
                "old_string": "    return sum(prices)",
                "new_string": '    """Return the sum in whole cents."""\n    return round(sum(prices), 2)',
            },
        ),
        _step(1, "completed"),
        _step(2, "completed"),
        _step(3, "in_progress"),
    ],
    [_command("pytest -q --tb=line", "Run the tests again")],
    [_step(3, "completed")],
    [
        _say(
            "**Fixed.** `total` returned `0.30000000000000004`: floats cannot hold a tenth.\n\n"
            "- `prices.py`: the sum is rounded to cents\n"
            "- `cart.py` and `invoice.py` call it and need no change\n\n"
            "```python\n"
            ">>> total([0.1, 0.2])\n"
            "0.3\n"
            "```\n"
        )
    ],
]
CALLERS: list[scenarios.Answer] = [
    [_command("grep -n 'total(' *.py", "Find the calls")],
    [_say("Two: `cart.py` and `invoice.py`. Both print it.")],
]


FIRST_RUN = FOLDER.parents[3] / "docs" / "first-run.ansi"
"""Output of the first run, with its codes, under the command."""
FIRST_PROMPT = "Note in README.md what total() returns."
FIRST_STORY: list[scenarios.Answer] = [
    [_say("I look at the code first."), Use("Read", {"file_path": "{folder}/prices.py"})],
    [
        _say("There is no README.md yet, so I write one."),
        Use(
            "Write",
            {"file_path": "{folder}/README.md", "content": "# Shop\n\n`total` returns the sum of the prices.\n"},
        ),
    ],
    [_say("Done. `README.md` says that **`total` returns the sum of the prices**.")],
]
COLUMNS, ROWS = 100, 50
QUESTION = b"): "
"""End of the line at which Penstock waits for an answer."""


@contextmanager
def project(at: Bench) -> Iterator[Bench]:
    """Make the project, in which the agent of the bench works then."""
    PROJECT.mkdir()
    try:
        for name, text in FILES.items():
            (PROJECT / name).write_text(text, "utf-8")
        at.server.folder = PROJECT
        at.env.update(ANTHROPIC_MODEL=MODEL, COLUMNS="70", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        yield at._replace(folder=PROJECT)
    finally:
        shutil.rmtree(PROJECT)


def record_demo(root: Path) -> None:
    """Record the demo anew."""
    with bench(Target("claude", "exec"), root) as made, project(made) as at:
        printed = record.run(at, record.Case("demo"), None)
    (FOLDER / "claude.ndjson").write_bytes(printed.data)
    first = printed.times[0]
    (FOLDER / "claude.times").write_text("".join(f"{time - first:.3f}\n" for time in printed.times), "utf-8")
    sys.stdout.write(f"{len(printed.times)} lines, {printed.times[-1] - first:.1f} s\n")


def record_first_run(root: Path) -> None:
    """Record what a terminal shows of `penstock run claude`, with an answer that is typed."""
    with bench(Target("claude", "server"), root) as made, project(made) as at:
        own = {"PENSTOCK_CONFIG": os.devnull, "PENSTOCK_DATA": str(root / "data"), "TERM": "xterm-256color"}
        shown = typed([sys.executable, "-m", "penstock", "run", "claude", f"{FIRST_PROMPT} scenario=first"], at, own)
    FIRST_RUN.write_text(f'\x1b[2m$ \x1b[0mpenstock run claude "{FIRST_PROMPT}"\n{shown}', "utf-8")


def typed(command: list[str], at: Bench, own: dict[str, str]) -> str:
    """Run a command in a terminal, answer its question with `y`, and return what the terminal got."""
    outer, inner = os.openpty()
    termios.tcsetwinsize(inner, (ROWS, COLUMNS))
    env = {name: value for name, value in at.env.items() if name != "COLUMNS"} | own
    shown = b""
    with subprocess.Popen(
        command, env=env, cwd=at.folder, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
    ):
        os.close(inner)
        while piece := _piece(outer):
            shown += piece
            if shown.endswith(QUESTION):
                os.write(outer, b"y\n")
    os.close(outer)
    return shown.decode().replace("\r\n", "\n")


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has ended
        return b""


def main() -> int:
    """Record both runs anew."""
    scenarios.SCENARIOS |= {"demo": STORY, "callers": CALLERS, "first": FIRST_STORY}
    for make in (record_demo, record_first_run):
        with tempfile.TemporaryDirectory() as root:
            make(Path(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
