"""Rules for commands: which ones an agent may run without a question, and which ones it may not run at all.

A rule is written like a command: `npm test`, `pytest *`, `git push*`. `*` in a word matches any characters of that
word. `*` as the last word matches any further words, or none.

`allow` has to be certain: it matches word by word, and only commands that no shell would change. `deny` matches
anything that looks like a denied command. It is a convenience and not a security boundary: an agent that may run a
script can do everything that the script does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from penstock.config.shell_words import SPECIAL, Words, literal_commands, possible_commands

Verdict = Literal["allow", "deny"]
Command = str | Words
"""Line for a shell, or a program and its arguments as words."""

MAX_UNWRAPPED = 4
"""Maximum levels of nested wrappers that are removed: `bash -lc 'timeout 60 nice pytest'` has three."""

_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")
"""Directories with the shells and wrappers of the system."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_NICENESS = re.compile(r"-n|-n-?\d{1,2}|-?\d{1,2}|--adjustment=-?\d{1,2}")


class CommandRules(msgspec.Struct, frozen=True):
    """Commands that are allowed without a question, and commands that are denied. `deny` overrides `allow`."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def verdict(self, command: Command, cwd: str | None = None, run_cwd: str | None = None) -> Verdict | None:
        """Return the verdict of the rules about a command; None if a person has to be asked.

        `cwd` is the directory in which the command would run, if the agent names one. If it differs from the directory
        of the run, nothing is allowed.
        """
        denied = [_words(rule) for rule in self.deny]
        if denied and any(_is_denied(words, rule) for words in _all_commands(command) for rule in denied):
            return "deny"
        if not self.allow or (cwd is not None and cwd.rstrip("/") != (run_cwd or "").rstrip("/")):
            return None
        allowed = [_words(rule) for rule in self.allow]
        commands = _certain_commands(command)
        if commands and all(any(_fits(words, rule) for rule in allowed) for words in commands):
            return "allow"
        return None

    def __bool__(self) -> bool:
        return bool(self.allow or self.deny)


def mistake(rule: str, verdict: Verdict) -> str | None:
    """Return the mistake in a rule, as the end of a sentence about it; None if it has none."""
    words = _words(rule)
    if not words:
        return "has no words"
    if any(not char.isprintable() for char in rule):
        return "has characters that cannot be printed"
    if verdict == "deny":
        return None
    if "*" in words[0]:
        return "would allow any program; its first word has to be a program's name"
    if words[0] in SPECIAL:
        return f"cannot be kept: {words[0]} changes what later commands do, so it is always asked for"
    return None


def _words(rule: str) -> Words:
    return tuple(rule.split())


# --- commands that are certain --------------------------------------------------------------------------


def _certain_commands(command: Command, depth: int = 0) -> list[Words] | None:
    """Return all commands of a line or list of words, without their wrappers; None if one of them is not certain."""
    commands = literal_commands(command) if isinstance(command, str) else [command]
    if commands is None or depth > MAX_UNWRAPPED:
        return None
    found: list[Words] = []
    for words in commands:
        inner = _unwrapped(words)
        if inner is None:
            found.append(words)
            continue
        below = _certain_commands(inner, depth + 1)
        if below is None:
            return None
        found += below
    return found if all(words and words[0] for words in found) else None


def _unwrapped(words: Words) -> Command | None:
    """Return the command that a wrapper runs; None if these words are not a wrapper, or its command is not certain."""
    program = _program(words[0]) if words else ""
    match (program, words[1:]):
        case (shell, ("-c" | "-lc" | "-cl", str(line))) if shell in _SHELLS:
            return line
        case (shell, ("-l", "-c", str(line))) if shell in _SHELLS:
            return line
        case ("env" | "nice", (str(first), *rest)) if not first.startswith("-") and "=" not in first:
            return (first, *rest)
        case ("nice", ("-n", str(number), str(first), *rest)) if _NICENESS.fullmatch(number):
            return (first, *rest)
        case ("timeout", (str(duration), str(first), *rest)) if _NUMBER.fullmatch(duration):
            return (first, *rest)
    return None


def _program(word: str) -> str:
    """Return the name of a system program; "" if the word names a file somewhere else."""
    for directory in _SYSTEM:
        if word.startswith(directory):
            word = word.removeprefix(directory)
    return "" if "/" in word else word


def _fits(words: Words, rule: Words) -> bool:
    """Return whether a rule allows exactly these words."""
    if rule[-1] == "*" and len(rule) > 1:
        rule = rule[:-1]
        words = words[: len(rule)]
    return len(words) == len(rule) and all(map(_alike, words, rule))


def _alike(word: str, pattern: str) -> bool:
    if "*" not in pattern:
        return word == pattern
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), word, re.DOTALL) is not None


# --- commands that are denied ---------------------------------------------------------------------------


def _all_commands(command: Command, depth: int = 0) -> Iterator[Words]:
    """Yield everything that a command might run, including commands in the words of wrappers."""
    if isinstance(command, str):
        yield from possible_commands(command)
        return
    yield command
    if depth <= MAX_UNWRAPPED:
        for word in command:
            if " " in word or "\n" in word or ";" in word:
                yield from possible_commands(word)
    yield from possible_commands(" ".join(command))


def _is_denied(words: Words, rule: Words) -> bool:
    """Return whether a rule denies a command: it has the same program, and then the other words of the rule in order.

    Options with their values may be between the program and its subcommand: `git -C x push` counts as `git push`.
    """
    for start, word in enumerate(words):
        if _alike(word.rpartition("/")[2], rule[0].rpartition("/")[2]) and _follows(words[start + 1 :], rule[1:]):
            return True
        if not _may_precede(word):
            return False
    return False


def _may_precede(word: str) -> bool:
    """Return whether a word may precede the program: an option, a number or the name of a wrapper."""
    return word.startswith("-") or word.rpartition("/")[2] in _WRAPPERS or _NUMBER.fullmatch(word) is not None


_WRAPPERS = _SHELLS | {"env", "nice", "timeout", "time", "sudo", "doas", "nohup", "setsid", "stdbuf", "ionice", "xargs"}


def _follows(words: Sequence[str], rule: Words) -> bool:
    rest = rule[:-1] if rule and rule[-1] == "*" else rule
    if not rest:
        return True
    is_option, after_option = rest[0].startswith("-"), False
    for at, word in enumerate(words):
        if _alike(word, rest[0]) and _in_order(words[at + 1 :], rest[1:]):
            return True
        if not (is_option or word.startswith("-") or after_option):
            return False
        after_option = word.startswith("-")
    return False


def _in_order(words: Sequence[str], rule: Words) -> bool:
    left = iter(words)
    return all(any(_alike(word, pattern) for word in left) for pattern in rule)
