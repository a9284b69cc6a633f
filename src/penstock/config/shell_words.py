"""Words of a shell command, read strictly to be certain what a line runs, or leniently to find what it might run.

`literal_commands` accepts only lines that every POSIX shell, bash and zsh read in the same way and do not change.
`possible_commands` never fails, and returns too much rather than too little. `quoted` writes a word for a line that
people copy.
"""

from __future__ import annotations

import re
import shlex

MAX_LINE_CHARS = 64 * 1024
"""Characters of the longest line that is read; people would not read a longer one."""

_PLAIN = re.compile(r"[A-Za-z0-9_\-./:,+@%=]+")
"""Characters that are literal outside of quotes in every shell."""
_QUOTED = re.compile(r"'([^'\0-\x08\x0b-\x1f\x7f]*)'|\"([^\"\\$`!\0-\x08\x0b-\x1f\x7f]*)\"")
_OPERATOR = re.compile(r"&&|\|\||[;|\n]")
_BLANK = re.compile(r"[ \t]+")

Words = tuple[str, ...]

SPECIAL = frozenset({
    "-", ".", ":", "[[", "alias", "autoload", "bg", "bind", "builtin", "case", "cd", "chdir", "command", "coproc",
    "declare", "disable", "disown", "do", "done", "elif", "else", "emulate", "enable", "esac", "eval", "exec",
    "export", "fc", "fg", "fi", "for", "foreach", "function", "hash", "if", "jobs", "let", "local", "nocorrect",
    "noglob", "popd", "pushd", "readonly", "repeat", "return", "select", "set", "setopt", "shift", "shopt", "source",
    "suspend", "then", "time", "times", "trap", "type", "typeset", "umask", "unalias", "unset", "unsetopt", "until",
    "wait", "while", "zmodload",
})  # fmt: skip
"""Words of a shell that begin a construct, or that change what a later command does."""


def literal_commands(line: str) -> list[Words] | None:
    """Split a line into its commands, each as its words; None if a shell would expand or redirect anything.

    Commands are separated by `&&`, `||`, `;`, `|` and line breaks. The words are plain or in quotes. Everything else
    is rejected: assignments, redirections, expansions, globs, comments, escapes, groups, `&`, and commands that begin
    with a word of the shell itself (`cd`, `if`).
    """
    if len(line) > MAX_LINE_CHARS:
        return None
    commands: list[Words] = []
    words: list[str] = []
    at, dangling = 0, False  # `dangling`: an operator still needs a command after it
    while at < len(line):
        if blank := _BLANK.match(line, at):
            at = blank.end()
        elif operator := _OPERATOR.match(line, at):
            at, sign = operator.end(), operator[0]
            if words:
                commands.append(tuple(words))
                words, dangling = [], sign not in (";", "\n")
            elif sign != "\n":
                return None
        else:
            word, at = _word(line, at)
            if word is None or not (words or _is_program(line, word, at)):
                return None
            words.append(word)
    if words:
        commands.append(tuple(words))
    elif dangling:
        return None
    return commands or None


def _word(line: str, at: int) -> tuple[str | None, int]:
    """Return the word that begins at `at`, and where it ends; None if the word is not literal."""
    parts: list[str] = []
    while at < len(line):
        if plain := _PLAIN.match(line, at):
            if plain[0][0] == "=" and not any(parts):  # zsh expands `=name`, and `""=name`, to the path of a program
                return None, at
            parts.append(plain[0])
            at = plain.end()
        elif quoted := _QUOTED.match(line, at):
            parts.append(quoted[1] if quoted[1] is not None else quoted[2])
            at = quoted.end()
        elif line[at] in " \t\n;|" or line.startswith("&&", at):
            break
        else:
            return None, at
    return "".join(parts), at


def _is_program(line: str, word: str, end: int) -> bool:
    """Return whether a command's first word names a program: not quoted, not an assignment, not a word of the shell."""
    return word not in SPECIAL and word != "" and line[end - len(word) : end] == word and "=" not in word


_LENIENT_END = re.compile(r"&&|\|\|?&?|[;&\n(){}`]|\$\(|<\(|>\(")
_CONTINUED = re.compile(r"\\\r?\n")
_LENIENT_QUOTES = re.compile(r"\$?[\"']|\\")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_BEFORE_A_COMMAND = frozenset({
    "if", "then", "elif", "else", "while", "until", "do", "time", "!", "sudo", "doas", "command", "builtin", "exec",
    "eval", "nohup", "setsid", "env", "xargs",
})  # fmt: skip
"""Words after which a command follows."""


def possible_commands(line: str) -> list[Words]:
    """Return the commands that a line might run: its words, without quotes, split at all signs that separate commands.

    The words after `sudo` and the like, or after assignments, are returned too, so that a program is found behind them.
    """
    found: list[Words] = []
    for part in _LENIENT_END.split(_CONTINUED.sub("", line[:MAX_LINE_CHARS])):
        words = _LENIENT_QUOTES.sub("", part).split()
        while words:
            found.append(tuple(words))
            if not (words[0] in _BEFORE_A_COMMAND or _ASSIGNMENT.match(words[0])):
                break
            del words[0]
    return found


def quoted(word: str) -> str:
    """Return a word as bash reads it, also when the line is pasted at its prompt: one line of printable characters.

    A word of plain characters stays as it is. Control characters, those that are not seen, and what the history
    expansion of bash would read are written by their bytes.
    """
    if _PLAIN.fullmatch(word):
        return word
    if word.isprintable() and not {"'", "!"} & {*word}:
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "'!\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
