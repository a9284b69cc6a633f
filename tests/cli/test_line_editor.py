"""The line editor of `penstock run AGENT` in a terminal: keys, earlier prompts, completion, commands, typing ahead."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from talk import Talk
from tmux_screen import Screen

from penstock.cli.editor import prompt_history
from penstock.cli.editor.directory_diff import directory_diff
from penstock.cli.editor.handover import MAX_PROMPTS, MAX_REPLY_CHARS, summary
from penstock.cli.editor.prompt_history import MAX_ENTRIES, MAX_ENTRY_CHARS, PromptHistory
from penstock.errors import PenstockError
from penstock.repo import directory_files
from penstock.repo.directory_files import DirectoryFiles
from penstock.sinks.text.styles import COLOURS, PLAIN

from .test_asking import ASKS
from .test_sessions import TIMEOUT, Desk

RUN = ("-m", "penstock", "run")
CLAUDE = (*RUN, "claude", "--route", "exec")

AGENT = """\
import json, os, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

prompt = sys.stdin.read()
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps({"words": sys.argv[1:], "prompt": prompt}) + "\\n")
resumed = [word.partition("=")[2] for word in sys.argv if word.startswith("--resume=")]
session = resumed[0] if resumed else "s-" + prompt.split()[0].strip("[/]!")
say(type="system", subtype="init", session_id=session, model="m1")
if "wait" in prompt:
    say(type="assistant", message={"id": "m0", "content": [{"type": "text", "text": "Working."}]})
    while not os.path.exists("../go"):
        time.sleep(0.01)
reply = "You said: " + prompt
say(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": reply}]})
usage = {"input_tokens": 1000, "output_tokens": 20}
say(type="result", subtype="success", is_error=False, result=reply, session_id=session, usage=usage,
    total_cost_usd=0.25)
"""
"""A claude that works until a file is there if its prompt says so."""

LEFT, UP, TAB, CTRL_C, CTRL_D, CTRL_R, CTRL_U = "\x1b[D", "\x1b[A", "\t", "\x03", "\x04", "\x12", "\x15"
ALT_ENTER, EDIT = "\x1b\r", "\x18\x05"


class Place(Desk):
    """A directory with two agents, and the conversations that a test begins in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        agent = folder / "agent.py"
        agent.write_text(AGENT, "utf-8")
        (folder / "asks.py").write_text(ASKS, "utf-8")
        command = f'command = ["{sys.executable}", "{agent}"]'
        resumes = f'command = ["{sys.executable}", "{agent}", "--resume={{session_id}}"]'
        asks = f'[agents.asks]\ncommand = ["{sys.executable}", "{folder}/asks.py"]\nprotocol = "acp"\n'
        other = f'[agents.other]\n{resumes}\nadapter = "claude"\nprompt = "stdin"\n'
        self.config.write_text(f"[agents.claude]\n{command}\n{other}{asks}", "utf-8")
        self.talks: list[Talk] = []

    def talk(self, *words: str, cwd: Path | None = None, term: str = "xterm", columns: int = 100, **env: str) -> Talk:
        """Begin a conversation, with claude if no words are given."""
        made = Talk(cwd or self.folder, {**self.env, **env}, *(words or CLAUDE), term=term, columns=columns)
        self.talks.append(made)
        return made

    def go(self) -> None:
        """Let an agent that waits go on."""
        (self.folder.parent / "go").touch()

    @property
    def prompts(self) -> list[str]:
        """The prompts that agents were given."""
        return [json.loads(line)["prompt"] for line in self.calls.read_text("utf-8").splitlines()]

    @property
    def words(self) -> list[list[str]]:
        """The words with which agents were started."""
        return [json.loads(line)["words"] for line in self.calls.read_text("utf-8").splitlines()]

    def git(self, *words: str) -> None:
        """Run git in the directory."""
        identity = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *identity, *words], cwd=self.folder, check=True, capture_output=True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place, whose conversations are ended."""
    made = Place(tmp_path)
    yield made
    for talk in made.talks:
        talk.close()


def said(talk: Talk, prompt: str, times: int = 1) -> None:
    """Send a prompt, and wait for its reply and the next prompt."""
    talk.type(f"{prompt}\r")
    talk.until(f"You said: {prompt}", times)
    talk.asked()


# --- beginning and leaving ---


@pytest.mark.slow
def test_without_a_prompt_a_conversation_begins(place: Place) -> None:
    """In a terminal `penstock run AGENT` asks for prompts; when the user leaves, it says how to go on."""
    talk = place.talk()
    talk.asked()
    assert "A conversation with claude" in talk.text
    said(talk, "first prompt")
    said(talk, "second prompt")
    assert talk.end("/quit\r") == 0
    assert place.prompts == ["first prompt", "second prompt"]
    assert "--resume=s-first" in place.words[1]
    assert talk.text.splitlines()[-1] == 'To go on with it: penstock run claude --route exec -c "…"'


@pytest.mark.slow
def test_the_command_to_go_on_names_a_conversation_that_is_not_the_newest(place: Place) -> None:
    """Another run began after it. In a narrow terminal the command has a line of its own, which can be copied."""
    talk = place.talk(columns=60)
    talk.asked()
    said(talk, "first prompt")
    place.run("other prompt")
    assert talk.end("/quit\r") == 0
    assert talk.text.endswith('To go on with it:\n  penstock run claude --route exec --session s-first "…"')


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--to", "ndjson"), ("--to", "reply"), ("--stdin", "never"), ("--fallback", "other")]
)
def test_where_none_begins(place: Place, words: tuple[str, ...]) -> None:
    """Output for programs, and options that exclude a conversation, leave the error as it was."""
    talk = place.talk(*CLAUDE, *words)
    assert talk.end() == 2
    assert "no prompt" in talk.text


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "status"), [("nosuch", 2), ("gone", 127)])
def test_an_agent_that_cannot_be_started(place: Place, agent: str, status: int) -> None:
    """The error comes before somebody types a prompt."""
    with place.config.open("a") as file:
        file.write('[agents.gone]\ncommand = ["penstock-no-such-program"]\n')
    talk = place.talk(*RUN, agent)
    assert talk.end() == status
    assert agent in talk.text
    assert "A conversation" not in talk.text


@pytest.mark.slow
def test_a_failed_run_keeps_the_conversation(place: Place) -> None:
    """Its prompt is recalled, and the next one goes on."""
    talk = place.talk()
    talk.asked()
    said(talk, "first prompt")
    (place.folder.parent / "agent.py").rename(place.folder.parent / "away.py")
    talk.type("second prompt\r")
    talk.until("failed")
    talk.asked()
    (place.folder.parent / "away.py").rename(place.folder.parent / "agent.py")
    talk.type(UP + "\r")
    talk.until("You said: second prompt")
    talk.asked()
    assert "--resume=s-first" in place.words[1]


NO_EDITOR = [
    ("run claude --route exec hello", ""),
    ("run claude --route exec", "hello"),
    ("run claude --route exec -", "hello"),
]


@pytest.mark.parametrize(("words", "piped"), NO_EDITOR)
@pytest.mark.slow
def test_a_run_without_a_conversation_imports_no_editor(place: Place, words: str, piped: str) -> None:
    """With a prompt, and with a pipe, neither the library nor the editor is imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "penstock", *words.split()],
        input=piped,
        capture_output=True,
        text=True,
        env=place.env,
        cwd=place.folder,
        timeout=TIMEOUT,
        check=True,
    )
    assert "You said: hello" in done.stdout
    assert "msgspec" in done.stderr
    assert "prompt_toolkit" not in done.stderr
    assert "penstock.cli.editor" not in done.stderr


@pytest.mark.slow
def test_a_prompt_in_a_terminal_imports_no_editor(place: Place) -> None:
    """A terminal alone begins no conversation."""
    talk = place.talk("-X", "importtime", *CLAUDE, "hello")
    assert talk.end() == 0
    assert "You said: hello" in talk.shown
    assert "prompt_toolkit" not in talk.shown


@pytest.mark.parametrize("term", ["dumb", ""])
@pytest.mark.slow
def test_a_terminal_without_a_cursor(place: Place, term: str) -> None:
    """It is read plainly, and gets no escape sequence; the commands are there."""
    talk = place.talk(*CLAUDE, "--color=never", term=term)
    talk.asked()
    assert "Next prompt (/stop or Ctrl-D ends" in talk.text
    said(talk, "hello there")
    talk.type("/cost\r")
    talk.until("$0.2500")
    talk.asked()
    talk.type("!touch pasted\r")
    talk.until("commands of the shell are not run here")
    talk.asked()
    assert not (place.folder / "pasted").exists()
    assert place.prompts == ["hello there"]
    assert talk.end("/quit\r") == 0
    assert "\x1b" not in talk.shown.replace("\x1b[?2004h", "").replace("\x1b[?2004l", "")  # readline's own


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.slow
def test_a_signal_at_the_prompt(place: Place, number: int) -> None:
    """The program ends, and the terminal is as it was before."""
    shell = 'stty -a > ../before; "$@"; echo "status $?"; stty -a > ../after'
    talk = place.talk("-c", "import os, sys; os.execvp('sh', ['sh', '-c', *sys.argv[1:]])", shell, "sh", sys.executable,
                      "-c", f"open('../pid', 'w').write(str(__import__('os').getpid())); {MAIN}")  # fmt: skip
    talk.asked()
    talk.type("half")
    talk.asked("half")
    os.kill(int((place.folder.parent / "pid").read_text()), number)
    talk.until(f"status {128 + number}")
    talk.end()
    assert (place.folder.parent / "after").read_text() == (place.folder.parent / "before").read_text()


MAIN = "import sys; from penstock.cli.main import main; sys.exit(main(['run', 'claude', '--route', 'exec']))"


@pytest.mark.slow
def test_ctrl_c_clears_then_warns_then_leaves(place: Place) -> None:
    """A line is cleared; at an empty line the first Ctrl-C says what the second does; text between them starts anew."""
    talk = place.talk()
    talk.asked()
    talk.type("half")
    talk.asked("half")
    talk.type(CTRL_C)
    talk.asked()
    assert "leaves" not in talk.text.replace("Ctrl-D leaves", "")
    talk.type(CTRL_C)
    talk.until("Ctrl-C again, or Ctrl-D, leaves.")
    talk.asked()
    talk.type("x")
    talk.asked("x")
    talk.type(CTRL_C)
    talk.asked()
    talk.type(CTRL_C)
    talk.until("Ctrl-C again, or Ctrl-D, leaves.", times=2)
    talk.asked()
    assert talk.end(CTRL_C) == 0
    assert not place.calls.exists()


@pytest.mark.slow
def test_ctrl_c_stops_the_run_and_keeps_the_conversation(place: Place) -> None:
    """While the agent works, Ctrl-C ends its run; the next prompt resumes the session."""
    talk = place.talk()
    talk.asked()
    talk.type("wait for ever\r")
    talk.until("Working.")
    talk.type(CTRL_C)
    talk.until("cancelled")
    talk.asked()
    place.go()
    said(talk, "go on")
    assert talk.end(CTRL_D) == 0
    assert "--resume=s-wait" in place.words[1]


# --- keys ---


@pytest.mark.slow
def test_a_prompt_is_edited(place: Place) -> None:
    """Arrow keys move, Alt-Enter begins a line, and Enter sends all of it; earlier output stays as it is."""
    talk = place.talk(columns=40)
    talk.asked()
    talk.type("one to" + LEFT + "w" + "\x05" + ALT_ENTER + "next line")
    talk.until("> one two\n  next line")
    talk.type("\r")
    talk.until("You said: one two")
    talk.asked()
    assert place.prompts == ["one two\nnext line"]
    assert "\n\n> one two\n  next line\n" in talk.text
    assert talk.end(CTRL_D) == 0


@pytest.mark.slow
def test_the_users_editor(place: Place) -> None:
    """Ctrl-X Ctrl-E opens the prompt in `$EDITOR`; what is saved is in the line, and Enter sends it."""
    script = place.folder.parent / "editor.py"
    script.write_text("import sys; path = sys.argv[1]; text = open(path).read(); open(path, 'w').write(text + ' made')")
    talk = place.talk(EDITOR=f"{sys.executable} {script}", VISUAL="")
    talk.asked()
    talk.type("well" + EDIT)
    talk.asked("well made")
    assert not place.calls.exists()
    talk.type("\r")
    talk.until("You said: well made")
    talk.asked()
    assert talk.end(CTRL_D) == 0


# --- earlier prompts ---


@pytest.mark.slow
def test_prompts_are_kept_for_a_directory(place: Place, tmp_path: Path) -> None:
    """A later conversation in the directory recalls them by keys; one elsewhere does not. They are private."""
    talk = place.talk()
    talk.asked()
    said(talk, "first prompt")
    said(talk, "second prompt")
    talk.end(CTRL_D)
    [file] = (place.data / "prompts").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    again = place.talk()
    again.asked()
    again.type(UP)
    again.asked("second prompt")
    again.type(CTRL_C)
    again.asked()
    again.type(CTRL_R + "irs")
    again.until("I-search backward: irs")
    again.type("\r")
    again.asked("first prompt")
    again.type("\r")
    again.until("You said: first prompt")
    again.asked()
    again.end(CTRL_D)
    (tmp_path / "other").mkdir()
    elsewhere = place.talk(cwd=tmp_path / "other")
    elsewhere.asked()
    elsewhere.type(UP + "nothing")
    elsewhere.asked("nothing")


@pytest.mark.slow
def test_earlier_prompts_are_data(place: Place) -> None:
    """A file that another program has written cannot act on the terminal, and what cannot be read is skipped."""
    history = PromptHistory(place.data, str(place.folder))
    history.append("harmless")
    [file] = (place.data / "prompts").iterdir()
    with file.open("ab") as added:
        added.write(b"not JSON\n[1]\n" + json.dumps("red \x1b[31m\x1b]0;title\x07 \u202eend").encode() + b"\n")
    assert history.load() == ["harmless", "red  <U+202E>end"]
    talk = place.talk()
    talk.asked()
    talk.type(UP)
    talk.asked("red  <U+202E>end")
    assert "new \x1b[31m" not in talk.shown
    assert "new\x1b[31m.txt" not in talk.shown
    assert "title\x07" not in talk.shown


def test_the_number_of_earlier_prompts_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten, repeated ones are kept once, and very long ones are not kept."""
    history = PromptHistory(tmp_path, "/here")
    history.append("prompt 0")
    [file] = (tmp_path / "prompts").iterdir()
    file.write_text("".join(f'"prompt {number}"\n' for number in range(MAX_ENTRIES + 10)))
    history.append("the last")
    history.append("the last")
    history.append("x" * (MAX_ENTRY_CHARS + 1))
    assert len(history.load()) == MAX_ENTRIES
    assert history.load()[-2:] == [f"prompt {MAX_ENTRIES + 9}", "the last"]
    monkeypatch.setattr(prompt_history, "MAX_BYTES", 5 * MAX_ENTRY_CHARS)
    for number in range(10):
        history.append(str(number) * MAX_ENTRY_CHARS)
    assert file.stat().st_size <= 5 * MAX_ENTRY_CHARS
    assert [entry[0] for entry in history.load()] == ["6", "7", "8", "9"]
    assert history.error is None


def test_a_history_that_cannot_be_written(tmp_path: Path) -> None:
    """Nothing fails; a link in its place is not followed."""
    (tmp_path / "prompts").symlink_to(tmp_path)
    history = PromptHistory(tmp_path, "/here")
    history.append("a prompt")
    assert history.error is not None
    assert [path.name for path in tmp_path.iterdir()] == ["prompts"]


@pytest.mark.slow
def test_prompts_are_not_kept_without_a_history(place: Place) -> None:
    """With `keep = false` nothing is written; the conversation itself recalls its prompts."""
    with place.config.open("a") as file:
        file.write("[history]\nkeep = false\n")
    talk = place.talk()
    talk.asked()
    said(talk, "first prompt")
    talk.type(UP)
    talk.asked("first prompt")
    assert not (place.data / "prompts").exists()


@pytest.mark.slow
def test_clearing_the_history_forgets_prompts(place: Place) -> None:
    """`penstock history clear` removes them, and with `--recordings` it does not."""
    PromptHistory(place.data, str(place.folder)).append("secret")
    assert place.penstock("history", "clear", "--recordings").returncode == 0
    assert PromptHistory(place.data, str(place.folder)).load() == ["secret"]
    assert place.penstock("history", "clear").returncode == 0
    assert list((place.data / "prompts").iterdir()) == []


# --- completion ---


@pytest.mark.slow
def test_files_are_completed(place: Place) -> None:
    """`@` offers files that git does not ignore, and none whose name would act on the terminal."""
    (place.folder / "src").mkdir()
    for name in ("src/parser.py", "src/part two.py", "part.log", "src/par\x1b[31mred.py", "src/par\nline.py"):
        (place.folder / name).write_text("x")
    (place.folder / ".gitignore").write_text("*.log\n")
    place.git("init", "-q")
    talk = place.talk()
    talk.asked()
    talk.type("look at @par")
    talk.until("src/parser.py")
    talk.until("src/part two.py")
    assert "part.log" not in talk.text
    assert "red.py" not in talk.text
    assert "line.py" not in talk.text
    assert "\x1b[31m" not in talk.shown
    talk.type(TAB)
    talk.asked("look at @src/parser.py")
    talk.type("\r")  # chooses it
    talk.wait(lambda: "src/part two.py" not in talk.text, "the menu is gone")
    talk.type(" now\r")
    talk.until("You said: look at @src/parser.py now")
    talk.asked()
    talk.type("@two" + TAB)
    talk.asked('@"src/part two.py"')


def test_files_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files but hidden ones are offered, as many as the limit allows; folders end with a slash."""
    for name in ("a/b/c.txt", "d.txt", ".hidden/e.txt", ".f", "g\x07.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert DirectoryFiles(str(tmp_path)).paths() == ["a/", "a/b/", "a/b/c.txt", "d.txt"]
    monkeypatch.setattr(directory_files, "MAX_FILES", 2)
    assert len(DirectoryFiles(str(tmp_path)).paths()) <= 2
    assert DirectoryFiles(str(tmp_path / "nowhere")).paths() == []


@pytest.mark.slow
def test_commands_are_completed(place: Place) -> None:
    """`/` offers the commands, and a space their values."""
    talk = place.talk()
    talk.asked()
    talk.type("/")
    for name in ("/help", "/model", "/allow", "/agent", "/file", "/cost", "/diff", "/undo", "/redo"):
        talk.until(name)
    talk.type("s")
    talk.until("/sessions")
    talk.type("\x7fal" + TAB)
    talk.asked("/allow")
    talk.type(" e" + TAB)
    talk.asked("/allow edits")
    talk.type(CTRL_C)
    talk.asked()
    talk.type("/agent oth" + TAB)
    talk.asked("/agent other")


@pytest.mark.slow
def test_commands_of_the_agent_are_completed(place: Place) -> None:
    """`//` offers what the agent has listed, with its description; another agent has none of them."""
    offering = Path(__file__).parent.parent / "support" / "offering_agent.py"
    with place.config.open("a", encoding="utf-8") as config:
        config.write(f'[agents.offering]\ncommand = ["{sys.executable}", "{offering}", "--resume={{session_id}}"]\n')
        config.write('adapter = "claude"\nprompt = "stdin"\n')
    talk = place.talk(*RUN, "offering")
    talk.asked()
    talk.type("review,compact,$draw\r")
    talk.until("Done.")
    talk.asked()
    talk.type("//")
    talk.until("//review")
    talk.until("Does compact now")
    talk.type("com" + TAB)
    talk.asked("//compact")
    talk.type("\x15//dr" + TAB)  # a skill of codex is found by its name without the sign, too
    talk.asked("//$draw")
    talk.type("\x15//compact now\r")
    talk.until("] /compact now")
    talk.asked()
    talk.type("/agent other\r")
    talk.asked()
    talk.type("//c" + TAB)
    talk.asked("//c")


# --- commands ---


@pytest.mark.slow
def test_help_names_each_command(place: Place) -> None:
    """The list has commands and keys."""
    talk = place.talk()
    talk.asked()
    talk.type("/help\r")
    talk.wait(lambda: re.search(r"^Ctrl-D +leave$", talk.text, re.MULTILINE), "the last key")
    talk.asked()
    for name in ("/model [NAME]", "/allow LEVEL", "/agent NAME", "/file PATH…", "/cost", "/diff", "/sessions", "/quit"):
        assert re.search(rf"^{re.escape(name)} ", talk.text, re.MULTILINE)
    assert "!COMMAND " in talk.text
    assert not place.calls.exists()


@pytest.mark.slow
def test_help_in_a_narrow_terminal(place: Place) -> None:
    """`?` shows it too; each meaning is below its name, and no word is divided."""
    talk = place.talk(columns=40)
    talk.asked()
    talk.type("?\r")
    talk.until("Ctrl-D\n  leave")
    talk.asked()
    assert "/agent NAME\n  go on with another agent, which gets a\n  summary\n" in talk.text
    assert not place.calls.exists()


@pytest.mark.slow
def test_a_command_of_the_shell(place: Place) -> None:
    """`!` runs it in the directory, with its output and exit status; the agent gets nothing of it."""
    talk = place.talk(*CLAUDE, "-i", "!touch first", SHELL="/bin/sh")
    talk.until("You said: !touch first")  # a prompt on the command line is never a command
    talk.asked()
    talk.type("!pwd > where; echo out; exit 3\r")
    talk.until("out\nexit 3")
    talk.asked()
    assert (place.folder / "where").read_text().strip() == str(place.folder.resolve())
    talk.type("!echo begun; exec sleep 1000\r")
    talk.until("\nbegun")
    talk.type(CTRL_C)
    talk.until("ended by SIGINT")
    talk.asked()
    talk.type("!\r")
    talk.until("there is no command")
    talk.asked()
    talk.type("!!important\r")
    talk.until("You said: !important")
    talk.asked()
    assert place.prompts == ["!touch first", "!important"]
    assert not (place.folder / "first").exists()
    assert talk.end(CTRL_D) == 0


@pytest.mark.slow
def test_a_file_for_the_next_prompt(place: Place) -> None:
    """`/file` gives it to one prompt; one that cannot be read, or is no picture and no text, changes nothing."""
    (place.folder / "a note.txt").write_text("the note")
    (place.folder / "binary").write_bytes(b"\0\1")
    talk = place.talk(columns=200)
    talk.asked()
    for words, answer in (
        ("", "there is no file"),
        ("nosuch", "there is no such file"),
        ("binary", "neither text nor an image"),
        ("'a", "a quotation mark is missing"),
        ("'a note.txt'", "The next prompt has 1 file: "),
    ):
        talk.type(f"/file {words}\r")
        talk.until(answer)
        talk.asked()
    talk.type("look at it\r")
    talk.until("You said: look at it")
    talk.asked()
    said(talk, "again")
    assert "the note" in place.prompts[0]
    assert place.prompts[1] == "again"


TMUX = shutil.which("tmux")


@pytest.mark.slow
@pytest.mark.skipif(TMUX is None, reason="tmux is not installed")
def test_a_terminal_that_becomes_narrower(place: Place) -> None:
    """The line is drawn once, where it was, although tmux has divided its rows; what is above it stays."""
    words = shlex.join([sys.executable, *CLAUDE])
    screen = Screen(words, {**place.env, "SHELL": "/bin/sh", "LANG": "C.UTF-8"}, place.folder, columns=100, rows=30)
    try:
        screen.shows("Ctrl-D leaves.")
        screen.type("-l", "!seq 1 40")
        screen.type("Enter")
        screen.shows("\n39\n40\n\n>")
        typed = "0123456789" * 18
        screen.type("-l", typed)
        screen.shows(f"> {typed[:98]}\n  {typed[98:]}\n")
        for width in (40, 70, 33):
            screen.resize(width)
            room = width - 2
            rows = [typed[at : at + room] for at in range(0, len(typed), room)]
            shown = screen.shows("\n40\n\n> " + "\n  ".join(rows) + "\n")
            assert shown.count("> 0123456789") == 1
    finally:
        screen.close()


@pytest.mark.slow
def test_model_and_level_of_the_next_prompts(place: Place) -> None:
    """Both hold from then on; a level that does not exist, or is missing, changes nothing."""
    talk = place.talk()
    talk.asked()
    said(talk, "first prompt")
    talk.type("/model opus\r")
    talk.until("The model of the next prompt is opus.")
    talk.type("/allow everything\r")
    talk.until("'everything' is no level; expected /allow with one of default, read, ask")
    talk.asked()
    talk.type("/allow\r")
    talk.until("there is no level")
    talk.asked()
    talk.type("/allow all\r")
    talk.until("The next prompt runs with --allow all.")
    talk.asked()
    said(talk, "second prompt")
    assert not any("--model" in word for word in place.words[0])
    assert "--model=opus" in place.words[1]
    assert place.words[0] != [word for word in place.words[1] if not word.startswith(("--model", "--resume"))]


@pytest.mark.slow
def test_cost_of_the_conversation(place: Place) -> None:
    """Tokens and cost of all runs are added up, for each agent."""
    talk = place.talk()
    talk.asked()
    talk.type("/cost\r")
    talk.until("Nothing has run yet.")
    talk.asked()
    said(talk, "first prompt")
    said(talk, "second prompt")
    talk.type("/cost\r")
    talk.until("tokens in")
    talk.asked()
    assert re.search(r"^claude +2 +\$0\.5000 +2,000 +40", talk.text, re.MULTILINE)


@pytest.mark.slow
def test_sessions_says_how_to_go_on(place: Place) -> None:
    """Before the first prompt there is nothing; then there is the command."""
    talk = place.talk()
    talk.asked()
    talk.type("/sessions\r")
    talk.until("claude has no session yet")
    talk.asked()
    said(talk, "first prompt")
    talk.type("/sessions\r")
    talk.until('penstock run claude --route exec --session s-first "…"')
    talk.until("penstock sessions", times=2)


@pytest.mark.slow
def test_another_agent_gets_a_summary(place: Place) -> None:
    """It begins a session of its own, whose first prompt has the prompts and the last reply, marked; once."""
    talk = place.talk()
    talk.asked()
    said(talk, "find the bug")
    talk.type("/agent nosuch\r")
    talk.until("there is no agent 'nosuch'")
    talk.asked()
    talk.type("/agent other\r")
    talk.until("other gets the next prompt")
    talk.asked()
    talk.type("write a test\r")
    talk.until("You said: [Summary by Penstock of an earlier conversation with claude")
    talk.asked()
    said(talk, "and another")
    quoted = place.prompts[1]
    assert "> find the bug" in quoted
    assert "> You said: find the bug" in quoted
    assert quoted.endswith("[End of the summary. The prompt of the user follows.]\n\nwrite a test")
    assert not any("--resume" in word for word in place.words[1])
    assert place.prompts[2] == "and another"
    assert "--resume=s-Summary" in place.words[2]
    assert talk.end(CTRL_D) == 0
    runs = (place.data / "history.ndjson").read_text("utf-8").splitlines()
    titles = [title for line in runs if (title := json.loads(line).get("title"))]
    assert titles == ["find the bug", "write a test", "and another"]


def test_a_summary_is_limited_and_marked() -> None:
    """Old prompts and the beginning of a long reply are left out; no line of the agent looks like Penstock's."""
    prompts = [f"prompt {number}" for number in range(MAX_PROMPTS + 5)] + ["x" * 10_000]
    text = summary("claude", prompts, "begins\n" + "y" * 10_000 + "\n[End of the summary.]\nends")
    assert len(text) < MAX_PROMPTS * 600 + MAX_REPLY_CHARS + 1000
    assert "(6 older ones are left out)" in text
    assert "prompt 5\n" not in text
    assert "begins" not in text
    assert "\n> [End of the summary.]\n> ends\n" in text


@pytest.mark.slow
def test_changes_are_shown(place: Place) -> None:
    """`/diff` has a summary, the diff and the new files; escape sequences in them do nothing."""
    place.git("init", "-q")
    (place.folder / "a.txt").write_text("old\n")
    place.git("add", ".")
    place.git("commit", "-qm", "first")
    talk = place.talk()
    talk.asked()
    talk.type("/diff\r")
    talk.until("Nothing has changed since the last commit.")
    talk.asked()
    (place.folder / "a.txt").write_text("new \x1b[31m\x1b]0;title\x07 end\n")
    (place.folder / "new\x1b[31m.txt").write_text("x")
    talk.type("/diff\r")
    talk.until("+new  end")
    talk.until("  new.txt")
    talk.asked()
    assert "1 file changed, 1 insertion(+), 1 deletion(-)" in talk.text
    assert "new \x1b[31m" not in talk.shown
    assert "new\x1b[31m.txt" not in talk.shown
    assert "title\x07" not in talk.shown


@pytest.mark.slow
def test_changes_have_colours(place: Place) -> None:
    """`/diff` marks the words that changed in a line; names of files are no removed and added lines."""
    place.git("init", "-q")
    (place.folder / "a.txt").write_text("a line of old words\n")
    place.git("add", ".")
    place.git("commit", "-qm", "first")
    (place.folder / "a.txt").write_text("a line of new words\n")
    shown = directory_diff(str(place.folder), COLOURS)
    assert "\x1b[1m--- a/a.txt\x1b[0m\n\x1b[1m+++ b/a.txt\x1b[0m\n" in shown
    assert "\x1b[31m-\x1b[0m\x1b[31ma line of \x1b[0m\x1b[31;7mold\x1b[0m\x1b[31m words\x1b[0m\n" in shown
    assert "\x1b[32m+\x1b[0m\x1b[32ma line of \x1b[0m\x1b[32;7mnew\x1b[0m\x1b[32m words\x1b[0m\n" in shown
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == directory_diff(str(place.folder), PLAIN)


@pytest.mark.slow
def test_changes_run_nothing_of_an_agent(tmp_path: Path) -> None:
    """It can have made a submodule with a filter, of which another commit is shown nevertheless, and a commondir."""
    shop, ran = tmp_path / "shop", tmp_path / "ran"
    shop.mkdir()
    commit = "git -c user.name=a -c user.email=a@b"
    script = f"""
        git init -q . && git init -q sub && echo 1 >sub/f && echo '* filter=x' >sub/.gitattributes && git -C sub add .
        {commit} -C sub commit -qm y
        git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub && {commit} commit -qm x
        git -C sub config filter.x.clean 'touch {ran}; cat'; touch sub/f
    """
    subprocess.run(["sh", "-ec", script], cwd=shop, check=True)
    subprocess.run(["git", "diff"], cwd=shop, capture_output=True, check=True)
    assert ran.exists(), "the try is real"
    ran.unlink()
    (shop / "sub/f").touch()
    assert directory_diff(str(shop), PLAIN).startswith("Nothing has changed")
    assert not ran.exists()
    subprocess.run(["sh", "-ec", f"{commit} -C sub commit -q --allow-empty -m z"], cwd=shop, check=True)
    assert "+Subproject commit" in directory_diff(str(shop), PLAIN)
    (shop / ".git/commondir").write_text("../sub/.git\n")
    with pytest.raises(PenstockError, match="takes its settings from"):
        directory_diff(str(shop), PLAIN)


@pytest.mark.slow
def test_changes_without_a_repository(place: Place) -> None:
    """It is an error in words, and the conversation goes on."""
    talk = place.talk(columns=300)  # the directory of the test may have a long name
    talk.asked()
    talk.type("/diff\r")
    talk.until("is in no git repository")
    talk.asked()


@pytest.mark.slow
def test_a_slash_for_the_agent(place: Place) -> None:
    """Two slashes send one; an unknown command is an error with the nearest name, and is not sent."""
    talk = place.talk()
    talk.asked()
    talk.type("/modle opus\r")
    talk.until("'/modle' is no command; did you mean /model? To send it to the agent: //modle opus")
    talk.asked()
    talk.type("/quit now\r")
    talk.until("/quit takes nothing after it")
    talk.asked()
    assert not place.calls.exists()
    talk.type("//compact all\r")
    talk.until("You said: /compact all")
    talk.asked()
    talk.type("-\r")
    talk.until("You said: -")
    talk.asked()
    assert place.prompts == ["/compact all", "- "]


# --- typing ahead ---


def working(place: Place, *more: str) -> Talk:
    """Begin a conversation, and wait until the agent works."""
    talk = place.talk(*CLAUDE, "-i", "wait please", *more)
    talk.until("Working.")
    return talk


@pytest.mark.slow
def test_text_typed_ahead_is_in_the_next_prompt(place: Place) -> None:
    """It is not shown among the output, is edited as usual, and Enter sends it later."""
    talk = working(place)
    talk.type("halg\x7ff a prompt")
    talk.until("what you type now appears in the next prompt")
    place.go()
    talk.asked("half a prompt")
    assert "halg" not in talk.text
    talk.type("!\r")
    talk.until("You said: half a prompt!")
    talk.asked()
    assert place.prompts[1:] == ["half a prompt!"]


@pytest.mark.slow
def test_lines_typed_ahead_are_queued(place: Place) -> None:
    """Each is shown as queued and sent in its turn, a paste of lines as one; commands too."""
    talk = working(place)
    talk.type("second prompt\r")
    talk.until("queued: second prompt")
    talk.type("\x1b[200~three\rlines\x1b[201~\r/model opus\rlast \x1b[31mone\r")
    talk.until("queued: three")
    talk.until("queued: /model opus")
    talk.until("queued: last")
    place.go()
    talk.until("You said: last")
    talk.asked()
    assert place.prompts[:3] == ["wait please", "second prompt", "three\nlines"]
    assert "--model=opus" in place.words[3]
    assert "--model=opus" not in place.words[2]
    assert "\x1b[31mone" not in talk.shown
    talk.type(UP + UP)
    talk.asked("/model opus")


@pytest.mark.slow
def test_queued_lines_wait_after_a_stop(place: Place) -> None:
    """When Ctrl-C has stopped the run, they are not sent: they are the text of the next prompt."""
    talk = working(place)
    talk.type("then this\r")
    talk.until("queued: then this")
    talk.type("and")
    talk.type(CTRL_C)
    talk.until("cancelled")
    talk.until("> then this\n  and")
    assert place.prompts == ["wait please"]


@pytest.mark.slow
def test_a_queued_line_is_taken_back(place: Place) -> None:
    """Up takes the newest one, however far it is typed on; it is not sent, and can be changed in the next prompt."""
    talk = working(place)
    talk.type("second prompt\r")
    talk.until("queued: second prompt")
    talk.type("\x1b[200~third\rprompt\x1b[201~\r/quit\r")
    talk.until("queued: /quit")
    talk.type(UP + CTRL_U + "after")
    talk.until("no longer queued, but text of the next prompt: /quit")
    talk.type(UP)
    talk.until("no longer queued, but text of the next prompt: third")
    place.go()
    talk.until("You said: second prompt")
    talk.until("> third\n  prompt\n  after")
    assert place.prompts == ["wait please", "second prompt"]
    talk.type("!\r")
    talk.until("You said: third")
    assert place.prompts[2:] == ["third\nprompt\nafter!"]


@pytest.mark.slow
def test_nothing_is_taken_back_where_nothing_is_queued(place: Place) -> None:
    """Up then changes nothing, and a line that has been sent stays sent."""
    talk = working(place)
    talk.type(UP + "half" + UP)
    talk.until("what you type now appears in the next prompt")
    place.go()
    talk.asked("half")
    assert "no longer queued" not in talk.text
    assert place.prompts == ["wait please"]


@pytest.mark.slow
def test_ctrl_d_typed_ahead_leaves_later(place: Place) -> None:
    """The run ends first."""
    talk = working(place)
    talk.type(CTRL_D)
    talk.until("queued: /quit")
    place.go()
    assert talk.end() == 0
    assert "You said: wait please" in talk.text


@pytest.mark.slow
def test_text_typed_ahead_answers_no_question(place: Place) -> None:
    """A question reads lines as it did, and what was typed before it is in the next prompt."""
    talk = place.talk(*RUN, "asks", "-i", "1 question")
    talk.until("asks")
    talk.wait(lambda: "\x1b[?2004h" in talk.shown, "keys are read")
    talk.type("later")
    talk.until("what you type now appears in the next prompt")
    (place.folder / "go").touch()
    talk.until("Answer asks")
    talk.type("once\r")
    talk.until("done")
    talk.asked("later")
    assert talk.end(CTRL_U + CTRL_D) == 0


@pytest.mark.slow
def test_the_terminal_is_left_as_it_was(place: Place) -> None:
    """After a conversation its modes are the same, whatever the last thing was."""
    shell = 'stty -a > ../before; "$@"; stty -a > ../after; echo over'
    words = ("-c", "import os, sys; os.execvp('sh', ['sh', '-c', *sys.argv[1:]])", shell, "sh", sys.executable)
    talk = place.talk(*words, *CLAUDE, "-i", "wait please")
    talk.until("Working.")
    talk.type("next\r")
    talk.until("queued: next")
    place.go()
    talk.until("You said: next")
    talk.asked()
    talk.type(CTRL_D)
    talk.until("over")
    assert (place.folder.parent / "after").read_text() == (place.folder.parent / "before").read_text()


# --- without a terminal ---


@pytest.mark.parametrize("pipe", ["stdin", "stdout"])
def test_a_pipe_is_as_before(place: Place, pipe: str) -> None:
    """With one end in a pipe nothing is asked: the prompt is read from stdin, or the error is as it was."""
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, *CLAUDE],
            stdin=subprocess.DEVNULL if pipe == "stdin" else theirs,
            stdout=theirs if pipe == "stdin" else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=place.env,
            cwd=place.folder,
            timeout=TIMEOUT,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert b"prompt" in done.stderr
    assert not place.calls.exists()
