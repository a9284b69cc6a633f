"""`penstock acp --setup`: which agents are logged in, and the login of one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tmux_screen import Screen
from waiting import until

from penstock.cli.main import main

CLAUDE = """\
#!/bin/sh
case "$*" in
  "auth status") [ -e "$HOME/logged-in" ] ;;
  "auth login") read -r code && echo "welcome, $code" && touch "$HOME/logged-in" ;;
  *) exit 2 ;;
esac
"""
CODEX = '#!/bin/sh\n[ "$*" = "login status" ] && exit 1\nexit 2\n'
ODD = "#!/bin/sh\nexit 7\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with no agent installed, and nothing configured."""
    (tmp_path / "bin").mkdir()
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def install(home: Path, **programs: str) -> None:
    """Install programs."""
    for name, text in programs.items():
        (home / "bin" / name).write_text(text)
        (home / "bin" / name).chmod(0o755)


def test_no_agent_is_installed(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The login has failed, and the command that lists the agents is named."""
    assert main(["acp", "--setup"]) == 1
    assert "penstock agents" in capfd.readouterr().out


def test_which_are_logged_in(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each with its login, unless somebody is; a state that cannot be found out is unknown."""
    install(home, claude=CLAUDE, codex=CODEX)
    assert main(["acp", "--setup"]) == 1, "nobody is logged in"
    assert capfd.readouterr().out.splitlines() == [
        "claude  not logged in  log in: claude auth login",
        "codex   not logged in  log in: codex login",
    ]
    (home / "logged-in").touch()
    install(home, gemini=ODD, codex=ODD)
    assert main(["acp", "--setup"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "claude  logged in",
        "codex   unknown        log in: codex login",
        "gemini  unknown        log in: gemini",
    ]


@pytest.mark.slow
def test_a_person_logs_in(home: Path) -> None:
    """In a terminal the agent's own login is run there, and afterwards it is logged in. Ctrl-C ends the login alone."""
    install(home, claude=CLAUDE, codex=CODEX, gemini="#!/bin/sh\necho waits\nexec sleep 3600\n")
    install(home, qwen="no program")
    env = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME", "PYTHONPATH") if name in os.environ}
    command = f"{sys.executable} -m penstock acp --setup; echo status $?; exec cat"
    screen = Screen(command, {**env, "LANG": "C.UTF-8"}, home, rows=60)
    try:
        screen.shows("Log in with which agent?")
        screen.type("nobody", "Enter")
        screen.shows("there is no agent 'nobody' here")
        screen.type("gemini", "Enter")
        screen.shows("waits")
        screen.type("C-c")
        until(lambda: screen.text.count("Log in with which agent?") == 3)
        screen.type("qwen", "Enter")
        screen.shows("qwen cannot be started: ")
        screen.type("claude", "Enter")
        screen.type("abc", "Enter")
        screen.shows("welcome, abc")
        until(lambda: "claude  logged in" in screen.text)
        screen.type("Enter")
        screen.shows("status 0")
    finally:
        screen.close()
