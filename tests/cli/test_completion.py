"""`penstock completion` in real shells: commands, options, values and names of agents."""

from __future__ import annotations

import functools
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest

PROGRAM = Path(sys.executable).parent / "penstock"
TIMEOUT = 60
"""Seconds after which a shell hangs."""

CASES = [
    ("penstock ses", {"sessions"}),
    ("penstock mod", {"models"}),
    ("penstock run cop", {"copilot"}),
    ("penstock run --allo", {"--allow"}),
    ("penstock run --allow e", {"edits"}),
    ("penstock read --agent gem", {"gemini"}),
    ("penstock read no", {"notes.txt"}),
    ("penstock doc wat", {"watch"}),
    ("penstock doc no", {"notes.txt"}),
    ("penstock doc init --templ", {"--template"}),
    ("penstock doc watch no", {"notes.txt"}),
    ("penstock doc notes.txt --queu", {"--queue"}),
    ("penstock loop sta", {"status"}),
    ("penstock loop no", {"notes.txt"}),
    ("penstock loop land --squ", {"--squash"}),
    ("penstock loop notes.txt --revie", {"--review"}),
    ("penstock trees cle", {"clean"}),
]
"""Beginnings of command lines, each with what completes its last word."""


@functools.cache
def script(shell: str) -> str:
    """Return the script for a shell."""
    done = subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert done.stderr == ""
    return done.stdout


def run(program: list[str], code: str, folder: Path) -> str:
    """Run code in a shell without settings of the user."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "XDG_CONFIG_HOME": str(folder)}
    done = subprocess.run([*program, code], cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_bash(line: str, folder: Path) -> set[str]:
    """Return what bash completes, by its own table of completions."""
    (folder / "script").write_text(script("bash"), "utf-8")
    code = f"""\
source {folder}/script
COMP_LINE={line!r}; COMP_WORDS=({line}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMP_POINT=${{#COMP_LINE}}
function=$(complete -p penstock | sed -n 's/.*-F \\([^ ]*\\).*/\\1/p')
$function penstock "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}" 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return set(run(["bash", "--norc", "-c"], code, folder).split())


def in_fish(line: str, folder: Path) -> set[str]:
    """Return what fish completes, without the descriptions."""
    (folder / "script").write_text(script("fish"), "utf-8")
    code = f"source {folder}/script; complete -C {line!r}"
    return {found.partition("\t")[0] for found in run(["fish", "--no-config", "-c"], code, folder).splitlines()}


def in_zsh(line: str, folder: Path) -> set[str]:
    """Return the words on the screen of zsh after the tabulator key, in a terminal of its own."""
    (folder / "_penstock").write_text(script("zsh"), "utf-8")
    (folder / ".zshrc").write_text(
        f"PS1='> '; fpath=({folder} $fpath); autoload -U compinit; compinit -u; cd {folder}; print rea''dy\n", "utf-8"
    )
    process, terminal = pty.fork()
    if process == 0:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "ZDOTDIR": str(folder), "TERM": "vt100"}
        os.execvpe("zsh", ["zsh", "-i", "-d"], env)
    screen = pyte.Screen(120, 40)
    stream = pyte.ByteStream(screen)
    try:
        show_until(terminal, stream, lambda: any(text.startswith(">") for text in screen.display))
        os.write(terminal, line.encode() + b"\t")
        show_until(terminal, stream, lambda: line in "".join(screen.display))
        show_until(terminal, stream, lambda: False, seconds=1)
        return set(" ".join(screen.display).split())
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def show_until(terminal: int, stream: pyte.ByteStream, seen: Callable[[], bool], seconds: float = TIMEOUT) -> None:
    """Show the output of a terminal until something is seen, or nothing has come for so long."""
    while not seen() and select.select([terminal], [], [], seconds)[0]:
        stream.feed(os.read(terminal, 65536))


SHELLS = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.mark.sample(30)
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "wanted"), CASES, ids=[line for line, _ in CASES])
@pytest.mark.slow
def test_completed_by_the_shell(shell: str, line: str, wanted: set[str], tmp_path: Path) -> None:
    """The shell completes the last word of a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "notes.txt").touch()
    assert wanted <= SHELLS[shell](line, tmp_path)


def test_other_shells_are_named() -> None:
    """A shell that is not known is an error that names those that are."""
    done = subprocess.run([PROGRAM, "completion", "csh"], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 2
    assert "bash" in done.stderr
    assert "fish" in done.stderr
