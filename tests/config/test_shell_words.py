"""Lines that are read strictly, judged by the shells themselves: what is read is exactly what they run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from penstock.config.shell_words import literal_commands, possible_commands, quoted

HANDLERS = {"bash": "command_not_found_handle", "zsh": "command_not_found_handler"}
"""Functions by which a shell without a PATH tells the words of each program that it was to run."""

SPY = """
exec 3>&1
{handler}() {{
    local told=C word
    for word in "$@"; do told="$told"$'\\001'"$word"; done
    printf '%s\\002' "$told" >&3  # at once, as the two sides of a pipe run side by side
    return 0
}}
PATH=/nowhere
while IFS= read -r -d '' line; do
    eval "$line" 2>/dev/null </dev/null
    printf '\\003'
done
"""


def ran(shell: str, lines: list[str], folder: Path) -> list[list[tuple[str, ...]]]:
    """Return what a shell runs for each line: the words of each program."""
    script = SPY.format(handler=HANDLERS[shell])
    flags = ["--norc", "--noprofile"] if shell == "bash" else ["-f"]
    done = subprocess.run(
        [shell, *flags, "-c", script],
        input="\0".join([*lines, ""]).encode(),
        cwd=folder,
        capture_output=True,
        timeout=60,
    )
    found = done.stdout.decode().split("\3")[:-1]
    assert len(found) == len(lines), done.stderr
    return [[tuple(call.split("\1")[1:]) for call in line.split("\2")[:-1]] for line in found]


PIECES = [
    "prog", "npm", "test", "a", "b=c", "=ls", "x.y", "-k", "--o=1", "%1", "@", "+", ":", ",", "/bin/x", "../y", "~",
    "~/x",
    " ", " ", " ", "\t", "\n", ";", "&&", "||", "|", "&", "|&", ";;", "!", "(", ")", "{", "}", "{a,b}", "<", ">",
    ">>", "2>",
    "<<E", "$x", "${x}", "$(a)", "`a`", "$'a'", '$"a"', "*", "?", "[ab]", "#", "\\", "\\\n", "'a b'", '"a b"', "''",
    '""',
    "'", '"', "'$x'", '"$x"', '"`a`"', "'a\nb'", "^", "ü", "\u3000", "\u00a0", "if", "then", "fi", "time", "function",
    "[[", "]]", "!!", "x()", "-", "1", "\r", "\x0b",
]  # fmt: skip
LINES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)


@pytest.fixture(scope="module")
def shells() -> list[str]:
    """Return the shells that are installed."""
    return [shell for shell in HANDLERS if shutil.which(shell)]


# Without shrinking: each try runs two shells, and a line that fails is short.
@pytest.mark.slow
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(lines=st.lists(LINES, min_size=50, max_size=200))
def test_what_is_read_is_what_a_shell_runs(
    lines: list[str], shells: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No shell expands a line that is read into anything else."""
    read = [(line, commands) for line in lines if (commands := literal_commands(f"prog {line}")) is not None]
    folder = tmp_path_factory.getbasetemp()
    for shell in shells:
        for (line, commands), calls in zip(read, ran(shell, [f"prog {line}" for line, _ in read], folder), strict=True):
            known = [words for words in commands if _is_unknown(words[0])]
            if "||" not in line and len(known) == len(commands):
                assert sorted(calls) == sorted(commands), (shell, line)
            else:  # what follows `||` is not run after a success; a word of the shell itself is not reported
                assert set(calls) <= set(commands), (shell, line)


def _is_unknown(program: str) -> bool:
    return program in ("prog", "npm", "a", "x.y", "b=c")


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("npm test", [("npm", "test")]),
        ("a && b || c; d | e\nf", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
        ("a 'b c' \"d e\"f''", [("a", "b c", "d ef")]),
        ("a;\n\nb\n", [("a",), ("b",)]),
        ("make CC=gcc", [("make", "CC=gcc")]),
        ("git commit -m 'a\nb'", [("git", "commit", "-m", "a\nb")]),
    ],
)
def test_lines_that_stand_for_themselves(line: str, commands: list[tuple[str, ...]]) -> None:
    """Words and quotes without any expansion are read."""
    assert literal_commands(line) == commands


@pytest.mark.parametrize(
    "line",
    [
        "", " ", "\n", "a $(b)", "a `b`", "a $b", 'a "$b"', "a ${b}", "A=1 b", "a > b", "a < b", "a <<E\nx\nE",
        "a & b", "a &",
        "a *", "a ?", "a [b]", "a {b,c}", "a ~", "a ~/b", "a !b", "a # b", "a \\b", "a \\\nb", "(a)", "{ a; }",
        "a |& b", "a ;; b",
        "| a", "a |", "a &&", "a || ", "'a' b", '"a" b', "a'b' c", "'' a", "a 'b", 'a "b', "a =b", "=a", "a \"\"=b",
        "a ''\"\"=b", "a $'b'",
        "a\rb", "a\0b",
        "a 'b\x1bc'", "a\u3000b", "x() { a; }", "time a", "cd a", "a; if b", "a && exec b", ". a", "a " + "b" * 70_000,
    ],
)  # fmt: skip
def test_lines_that_are_not_read(line: str) -> None:
    """A line that a shell would expand, redirect or not understand is not read."""
    assert literal_commands(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "git push", "a; git push", "a && git push", "a | git push", "a & git push", "(git push)", "{ git push; }",
        "$(git push)",
        "`git push`", "a <(git push)", "if git push; then a; fi", "if a; then git push; fi", "X=1 git push",
        "sudo git push",
        "g'i't \"push\"", "git \\\npush", "git $'push'", "\\git push", "a\ngit push", "! git push",
        "for x in a; do git push; done",
    ],
)  # fmt: skip
def test_what_a_line_might_run_is_found(line: str) -> None:
    """A command is found behind all that a shell accepts before it."""
    assert any(words[:2] == ("git", "push") for words in possible_commands(line))


ODD = [
    "", "-x", "--", "~", "it's", "a b", "$(touch x)", "`id`", "!!", "!x'y", "a\nb", "\t", "\\", "*", "#a", "\x1b[31m",
    "\u202eabc", "\u00a0", "\r", "x\\", "{a,b}", "\udcff", "a=b", "\x03", "'!'", "é ü", "%s", "\x7f", ";", "&",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@given(
    st.lists(st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_characters="\0"))), min_size=1, max_size=30)
)
@settings(phases=(Phase.explicit, Phase.generate))
def test_bash_reads_a_quoted_word_as_it_was(words: list[str]) -> None:
    """Also with the history expansion that a line at its prompt gets; and the line has nothing that is not seen."""
    words = [word.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape") for word in [*words, *ODD]]
    line = " ".join(map(quoted, words))
    assert line.isprintable()
    shell = f"set -o history -o histexpand\nprintf '%s\\0' {line}\n"
    ran = subprocess.run(["bash", "--norc"], input=shell.encode(), capture_output=True, timeout=60)
    assert ran.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1] == words, ran.stderr
