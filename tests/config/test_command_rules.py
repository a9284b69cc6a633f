"""Rules for commands: what is allowed without a question, what is denied, and what a person is asked."""

from __future__ import annotations

import pytest

from penstock.config.command_rules import Command, CommandRules, Verdict, mistake

RULES = CommandRules(
    allow=("npm test", "npm run build:*", "pytest *", "git status", "git log *", "git -C * *", "rm *"),
    deny=("git push*", "rm -rf", "curl"),
)


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("npm test", "allow"),
        ("npm  test\n", "allow"),
        ("npm test --watch", None),
        ("npm", None),
        ("npm run build:all", "allow"),
        ("npm run build", None),
        ("pytest", "allow"),
        ("pytest -k 'a or b' tests", "allow"),
        ("pytests", None),
        ("./pytest", None),
        ("/usr/bin/pytest", None),
        ("pytest && npm test", "allow"),
        ("pytest; ls", None),
        ("pytest | tee log", None),
        ("pytest && npm test\ngit status", "allow"),
        # What a shell would change is asked.
        ("pytest $(id)", None),
        ("pytest `id`", None),
        ('pytest "$HOME"', None),
        ("pytest > log", None),
        ("pytest < /etc/passwd", None),
        ("pytest *", None),
        ("pytest ~/x", None),
        ("pytest &", None),
        ("pytest # x", None),
        ("PATH=. pytest", None),
        ("pytest <<E\nE", None),
        ("pytest() { id; }; pytest", None),
        ("alias pytest=id; pytest", None),
        ("cd /tmp && pytest", None),
        ("eval pytest", None),
        ("exec pytest", None),
        ("command pytest", None),
        ("'pytest' -x", None),
        # Wrappers are removed, if it is certain what they run.
        ("bash -lc 'pytest -x'", "allow"),
        ("/bin/bash -c 'npm test && pytest'", "allow"),
        ("bash -l -c pytest", "allow"),
        ("bash -c 'pytest $(id)'", None),
        ("bash -c 'pytest' x", None),
        ("bash -c \"bash -c 'pytest'\"", "allow"),
        ("bash", None),
        ("bash pytest", None),
        ("./bash -c pytest", None),
        ("/tmp/bash -c pytest", None),
        ("bash -xc pytest", None),
        ("timeout 60 pytest", "allow"),
        ("timeout -s KILL 60 pytest", None),
        ("nice pytest", "allow"),
        ("nice -n 10 pytest", "allow"),
        ("env pytest", "allow"),
        ("env A=1 pytest", None),
        ("env -i pytest", None),
        ("timeout 60 nice env bash -lc 'timeout 5 pytest'", None),  # deeper than anyone writes
        ("timeout 60 id", None),
        ("git -C x status", "allow"),
        # What is denied is denied behind everything, and wins.
        ("git push", "deny"),
        ("git push origin main", "deny"),
        ("/usr/bin/git push", "deny"),
        ("git -C x push", "deny"),
        ("git -c a=b --no-pager push", "deny"),
        ("git log push", "allow"),
        ("git pushed", "deny"),
        ("git stash push", None),
        ("pytest && git push", "deny"),
        ("pytest; (git push)", "deny"),
        ("echo $(git push)", "deny"),
        ("bash -lc 'git push'", "deny"),
        ("bash -lc 'cd x && git push'", "deny"),
        ("sudo -u x git push", None),  # the word after an option is taken for a program: asked
        ("sudo git push", "deny"),
        ("timeout 60 git push", "deny"),
        ("A=1 git push", "deny"),
        ("xargs git push", "deny"),
        ("rm -rf x", "deny"),
        ("rm -v -rf x", "deny"),
        ("rm x", "allow"),
        ("curl https://example.com", "deny"),
        ("x | curl -d @- y", "deny"),
        ("", None),
        # Words of a program are not read as a line.
        (("npm", "test"), "allow"),
        (("npm test",), None),
        (("pytest", "$(id)"), "allow"),
        (("bash", "-lc", "pytest $(id)"), None),
        (("bash", "-lc", "npm test"), "allow"),
        (("bash", "-lc", "git push"), "deny"),
        (("git", "push"), "deny"),
        ((), None),
        (("",), None),
    ],
)
def test_verdicts(command: Command, verdict: Verdict | None) -> None:
    """A command is allowed, denied, or a person is asked."""
    assert RULES.verdict(command) == verdict


def test_another_directory_is_asked() -> None:
    """A rule is for the directory of the run; what is denied is denied everywhere."""
    assert RULES.verdict("npm test", "/w", "/w") == "allow"
    assert RULES.verdict("npm test", "/w/", "/w") == "allow"
    assert RULES.verdict("npm test", "/w/sub", "/w") is None
    assert RULES.verdict("npm test", "/w", None) is None
    assert RULES.verdict("git push", "/w/sub", "/w") == "deny"


def test_without_rules_a_person_is_asked() -> None:
    """Rules that say nothing allow nothing."""
    assert not CommandRules()
    assert CommandRules().verdict("npm test") is None
    assert CommandRules(deny=("x",)).verdict("npm test") is None


@pytest.mark.parametrize(
    ("rule", "verdict", "problem"),
    [
        ("npm test", "allow", None),
        ("*", "deny", None),
        ("", "allow", "has no words"),
        ("  ", "deny", "has no words"),
        ("*", "allow", "any program"),
        ("np* test", "allow", "any program"),
        ("cd *", "allow", "cd changes"),
        ("eval x", "allow", "eval changes"),
        ("cd *", "deny", None),
        ("a\x1bb", "deny", "printed"),
    ],
)
def test_rules_that_cannot_be_kept(rule: str, verdict: Verdict, problem: str | None) -> None:
    """A rule that would allow any program, or that no command fits, is a mistake."""
    found = mistake(rule, verdict)
    assert found is None if problem is None else problem in (found or "")
