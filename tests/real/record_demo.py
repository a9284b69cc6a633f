"""Record the run that `penstock demo` replays: `python tests/real/record_demo.py`.

A real claude works in a small project. The model server plays the model, at the pace of a person who reads along.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import record
import scenarios
from scenarios import Say, Think, Use
from setups import Target, bench

FOLDER = Path(__file__).parents[2] / "src" / "penstock" / "cli" / "demo"
PROJECT = Path("/tmp/shop")
"""Folder of the project, whose name is seen in the demo. It is made for the recording."""
MODEL = "claude-sonnet-4-5"
REST = 0.05
"""Seconds between two pieces of text: 120 characters a second, which is the pace of a fast model."""

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
            "**Fixed.** `total` returned `0.30000000000000004`: binary floats cannot hold a tenth.\n\n"
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


def main() -> int:
    """Record the demo anew."""
    scenarios.SCENARIOS |= {"demo": STORY, "callers": CALLERS}
    with tempfile.TemporaryDirectory() as root, bench(Target("claude", "exec"), Path(root)) as at:
        PROJECT.mkdir()
        try:
            for name, text in FILES.items():
                (PROJECT / name).write_text(text, "utf-8")
            at.server.folder = PROJECT
            at.env.update(ANTHROPIC_MODEL=MODEL, COLUMNS="68", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
            printed = record.run(at._replace(folder=PROJECT), record.Case("demo"), None)
        finally:
            shutil.rmtree(PROJECT)
    (FOLDER / "claude.ndjson").write_bytes(printed.data)
    first = printed.times[0]
    (FOLDER / "claude.times").write_text("".join(f"{time - first:.3f}\n" for time in printed.times), "utf-8")
    sys.stdout.write(f"{len(printed.times)} lines, {printed.times[-1] - first:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
