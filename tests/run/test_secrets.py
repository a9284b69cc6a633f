"""Secrets are removed from what an agent writes to stderr, whatever is around them; other text stays as it is.

The keys of this file are made when it runs, so that no scanner finds one in it.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.run.secrets import MIN_SECRET_CHARS, is_secret_variable, redacted_output, secrets_of

if TYPE_CHECKING:
    from conftest import Recording

HEX = "0123456789abcdef"
LETTERS = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
SHAPES: tuple[tuple[str, str, int], ...] = (
    ("sk-ant-api03-", LETTERS + "-_", 90),
    ("sk-proj-", LETTERS + "-_", 120),
    ("sk-", LETTERS, 48),
    ("sk-test-1", LETTERS, 4),
    ("sk-or-v1-", HEX, 64),
    ("ghp_", LETTERS, 36),
    ("github_pat_", LETTERS + "_", 82),
    ("glpat-", LETTERS, 20),
    ("AKIA", UPPER, 16),
    ("AIza", LETTERS + "-_", 35),
    ("xoxb-", string.digits, 24),
    ("hf_", LETTERS, 34),
    ("npm_", LETTERS, 36),
    ("gsk_", LETTERS, 52),
    ("sk_live_", LETTERS, 24),
    ("Bearer 1", LETTERS, 30),
    ("password=a1", LETTERS, 10),
    ("OPENAI_API_KEY: b2", LETTERS, 20),
    ('"client_secret":"c3', LETTERS, 20),
)
"""Beginning of a key, its other characters, and how many of these it has."""

WORDS = st.text(st.characters(exclude_categories=["Cs", "Nd"], exclude_characters="=:-"), max_size=60)
"""Text of any characters without digits, in which nothing looks like a key."""

KEYS = st.sampled_from(SHAPES).flatmap(
    lambda shape: st.text(st.sampled_from(shape[1]), min_size=shape[2], max_size=shape[2]).map(shape[0].__add__)
)
BEFORE = st.sampled_from([" ", "\n", "\t", "'", "(", "\x1b[31m", "\x1b[1;31m", "key is ", "漢"])
BEHIND = st.sampled_from([" ", "\n", "'", ")", "\x1b[0m", ", ", "漢"])


@given(WORDS, BEFORE, KEYS, BEHIND, WORDS)
def test_a_key_is_removed_from_any_text(before: str, left: str, key: str, right: str, behind: str) -> None:
    """A key of a known shape is removed, and all around it stays, but for a quotation mark of its own."""
    shown = redacted_output(f"{before}{left}{key}{right}{behind}", {})
    assert shown.startswith(f"{before}{left}")
    note = shown[len(before) + len(left) : len(shown) - len(right) - len(behind)]
    assert re.fullmatch(r'"?\[removed: an? [^]]+\]', note)
    assert shown.endswith(f"{right}{behind}")


@given(
    st.sampled_from(["MY_TOKEN", "ACME_API_KEY", "PGPASSWORD", "npm_config_secret"]),
    st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=MIN_SECRET_CHARS, max_size=60),
    WORDS,
    WORDS,
)
def test_a_value_of_the_environment_is_removed(name: str, value: str, before: str, behind: str) -> None:
    """A secret that Penstock gives to the agent in a variable is removed, whatever it looks like."""
    secret = value.strip()
    if len(secret) < MIN_SECRET_CHARS:
        return
    shown = redacted_output(f"{before} {secret} {behind}", secrets_of({name: value}))
    assert secret not in shown.replace(f"[removed: the value of {name}]", "")
    assert "[removed: " in shown


@given(WORDS)
def test_a_text_without_a_secret_stays(text: str) -> None:
    """The same object is returned, so nothing was encoded and decoded on the way."""
    assert redacted_output(text, {"another secret": "x"}) is text


@pytest.mark.parametrize(
    "text",
    [
        "SyntaxError: Unexpected token: } in JSON at position 12345678",
        "KeyError: 'token'  TypeError: auth is not a function  author: Uma12345678",
        "Error: 401 invalid api key: please sign in again, or set ANTHROPIC_API_KEY",
        "max_output_tokens=32000000 token count: 12345678 password: (none) password=${PASSWORD12} key=value",
        "sk-learn sk-ssh-ed25519@openssh.com sk-ecdsa-sha2-nistp256@openssh.com task-12345678 disk-usage-2024",
        "Bearer authentication required  WWW-Authenticate: Bearer realm=x1234567890123",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709 3f2504e0-4f89-11d3-9a0c-0305e82c3301 node:internal/modules:1234",
        "at Object.<anonymous> (/home/uma/app/secrets.js:12:34)  http://localhost:8080/@vite/client",
    ],
)
def test_ordinary_errors_stay(text: str) -> None:
    """Errors that only speak of keys and tokens stay as they are, and so do hashes, paths and addresses."""
    assert redacted_output(text, {}) == text


def test_a_private_key_is_removed_whole() -> None:
    """Its lines are removed too, also if its end is lacking."""
    begin, end = "-----BEGIN RSA PRIVATE KEY" + "-----\n", "-----END RSA PRIVATE KEY" + "-----"
    body = "\x1b[33mMIIEowIBAAKCAQEA7\nabcdefgh1234+/==\n"
    assert redacted_output(f"x\n{begin}{body}{end}\ny\n", {}) == "x\n[removed: a private key]\ny\n"
    assert redacted_output(f"x\n{begin}{body}", {}) == "x\n[removed: a private key]"


def test_secrets_that_overlap_leave_no_part() -> None:
    """One secret may contain another one, or begin in it."""
    known = {"abcdefghij": "one", "ghijklmnop": "two", "defg": "three"}
    assert redacted_output("x abcdefghijklmnop y abcdefghij", known) == "x [removed: one] y [removed: one]"


def test_each_line_of_a_value_is_a_secret() -> None:
    """A program may print one line of a value that has several."""
    found = secrets_of({"DEPLOY_KEY": "first line\nsecond line\n\nend"})
    assert redacted_output("bad: second line", found) == "bad: [removed: the value of DEPLOY_KEY]"
    assert secrets_of({"DEPLOY_KEY": "short", "HOME": "/home/uma-long"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "PGPASSWORD", "MYSQL_PWD", "AWS_SECRET_ACCESS_KEY", "apiKey", "TOKEN2"),
        *("OPENAI_API_KEY_PROD", "DOCKER_AUTH_CONFIG", "SECRET_KEY_BASE", "GH_PAT", "npm_config__authToken"),
    ],
)
def test_names_of_secret_variables(name: str) -> None:
    """A variable with such a name has a secret."""
    assert is_secret_variable(name)


@pytest.mark.parametrize(
    "name",
    [
        *("PWD", "OLDPWD", "HOME", "PATH", "SSH_AUTH_SOCK", "XAUTHORITY", "GIT_AUTHOR_NAME", "MAX_OUTPUT_TOKENS"),
        *(
            "_",
            "",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD_LAYOUT",
            "GOOGLE_KEY_FILE",
            "PENSTOCK_RUN",
            "GIT_ASKPASS",
            "KEY",
        ),
    ],
)
def test_names_of_other_variables(name: str) -> None:
    """A variable that only says where a secret is, or whose name is only like that of one, has none."""
    assert not is_secret_variable(name)


@pytest.mark.slow
def test_no_recording_has_a_false_alarm(recordings: list[Recording]) -> None:
    """What the real agents printed has nothing that is taken for a secret."""
    found = {}
    for recording in recordings:
        text = recording.data.decode("utf-8", "replace")
        if (shown := redacted_output(text, {})) is not text:
            found[recording.name] = shown.count("[removed: ")
    assert found == {}


def test_a_long_word_is_read_once() -> None:
    """A word of many parts that each look like the beginning of a token is no reason to read it again for each."""
    assert redacted_output("eyJ-" * 40_000, {}) == "eyJ-" * 40_000
    token = ".".join(("eyJ" + "a1" * 6, "eyJ" + "b2" * 6, "c3" * 6))
    assert redacted_output(f"jwt={token}, \\n{token}", {}) == "jwt=[removed: a token], \\n[removed: a token]"
