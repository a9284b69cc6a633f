"""The prompts of `docs/examples` with the commands of `docs/loop.md`: agents of a script do what they ask for."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from loop_desk import Desk

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
TIMEOUT = 120
"""Seconds after which a process hangs."""

WORKERS = {
    "red-test": """
if grep -q max prices.py; then sed -i "s/max(prices)/sum(prices)/" prices.py; echo "exit" > test_prices.py; reply "Sum"
elif ! grep -q "if prices" prices.py; then
  sed -i "s/len(prices)$/len(prices) if prices else 0/" prices.py; reply "Empty"
else reply "Both tests succeed."; fi
""",
    "tasks": """
add() { printf "\\n\\ndef $1(text: str):\\n    return $2\\n" >> texts.py; reply "Add $1"; }
if ! grep -q "def lines" texts.py; then add lines "len(text.splitlines())"
elif ! grep -q "def longest" texts.py; then add longest "max(text.split(), key=len, default=str())"
else reply "All is there."; fi
""",
    "rewrite": """
cat > notes.py <<END
from pathlib import Path


def names(folder):
    return sorted(it.name for it in Path(folder).glob("*.txt")) if Path(folder).is_dir() else []
END
reply "Use pathlib"
""",
}
"""Script of the worker of each example."""

SUBJECTS = {"red-test": ["Empty"], "tasks": ["Add lines", "Add longest"], "rewrite": ["Use pathlib"]}
"""Commits of each loop, the oldest first."""

JUDGE = """cat <<'END'
{"type":"result","subtype":"success","is_error":false,"result":"{\\"approved\\": true}","total_cost_usd":0.01}
END
"""


def command_of(example: str) -> list[str]:
    """Return the command that the page has for an example, with the agents of the test."""
    text = (DOCS / "loop.md").read_text("utf-8").partition(f"[examples/{example}]")[2]
    found = re.search(r"^\$ penstock (loop .*)$", text, re.MULTILINE)
    assert found is not None
    words = {"claude": "worker", "claude,codex": "worker,other", "codex": "judge"}
    return [words.get(word, word) for word in shlex.split(found[1])]


@pytest.mark.parametrize("example", WORKERS)
def test_an_example_runs(desk: Desk, example: str) -> None:
    """The prompt, the files and the command of the page lead to a loop that is done, with a commit for each part."""
    shutil.copytree(DOCS / "examples" / example, desk.user.root, dirs_exist_ok=True)
    desk.user.git("add", ".")
    desk.user.git("commit", "-qm", "Example")
    for name, script in (("worker", WORKERS[example]), ("other", 'reply "unused"'), ("judge", JUDGE)):
        desk.agent(name, script)
    argv = [sys.executable, "-m", "penstock", *command_of(example), "--name=l1"]
    env = {**desk.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=desk.user.root, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert desk.subjects() == SUBJECTS[example]
    changed = desk.user.git("diff", "--name-only", "main", "penstock/l1").splitlines()
    assert not [name for name in changed if name.startswith("test_")]


def test_every_example_has_a_test() -> None:
    """No example is left out."""
    assert {path.name for path in (DOCS / "examples").iterdir()} == set(WORKERS)
