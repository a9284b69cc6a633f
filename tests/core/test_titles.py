from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import tool_titles
from penstock.core.tool_titles import MAX_TITLE_CHARS, STRONG, WEAK, TitleReader, title, tool_kind
from penstock.events import ToolKind

TITLES = [
    ("Bash", {"command": "npm test", "description": "Run the tests"}, "npm test"),
    ("Bash", {"description": "Run the tests", "command": "npm test"}, "npm test"),
    ("Bash", {"command": "cat <<EOF\nhello\nEOF"}, "cat <<EOF …"),
    ("Bash", {"command": "\n  ls -l  \n"}, "ls -l"),
    ("shell", {"command": ["bash", "-lc", "echo hi"]}, "bash -lc echo hi"),
    ("shell", {"command": ["ls", 1, "x"]}, "ls"),
    ("run_commands", {"commands": ["echo hi", "ls"]}, "echo hi …"),
    ("run_commands", {"commands": [], "path": "a"}, "a"),
    ("odd", {"n": 1j}, "{'n': 1j}"),
    ("Write", {"file_path": "/tmp/notes.txt", "content": "x" * 9999}, "/tmp/notes.txt"),
    ("write", {"content": "x", "filePath": "/tmp/notes.txt"}, "/tmp/notes.txt"),
    ("Grep", {"pattern": "TODO", "path": "src"}, "TODO"),
    ("Read", {"path": "", "file_path": "/a"}, "/a"),
    ("Bash", {"command": None, "path": 3, "query": "q"}, "q"),
    ("editor", {"command": "str_replace", "path": "a.py"}, "a.py"),
    ("Task", {"subagent_type": "Explore", "description": "Look around"}, "Look around"),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n-x\n+y"}, "a.py"),
    ("apply_patch", "*** Begin Patch\n*** Add File: b.py\n+y", "b.py"),
    ("odd", {"n": 3, "deep": {"command": "no"}}, '{"n":3,"deep":{"command":"no"}}'),
    ("odd", [1, 2], "[1,2]"),
    ("odd", "just text\nmore", "just text …"),
    ("odd", {}, ""),
    ("odd", None, ""),
    ("Bash", {"command": "a" * 300}, "a" * MAX_TITLE_CHARS + "…"),
    ("Bash", {"command": "a\ud800b"}, "a\ufffdb"),
]


@pytest.mark.parametrize(("name", "value", "expected"), TITLES)
def test_title_is_the_telling_argument(name: str, value: Any, expected: str) -> None:
    """The strongest argument speaks, in one line."""
    assert title(name, value) == expected


@pytest.mark.parametrize(("name", "value", "expected"), TITLES)
def test_telling_begins_the_title(name: str, value: Any, expected: str) -> None:
    """What is told of streamed input begins the title, character by character."""
    telling = TitleReader(name)
    told = "".join(map(telling.feed, json.dumps(value, default=str)))
    assert expected.startswith(told)
    if isinstance(value, dict) and STRONG & value.keys() and expected[:1] != "{":
        assert told, "a strong key is told while it streams"


def test_an_input_nested_too_deep_has_a_title() -> None:
    """No input raises."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert title("odd", {"n": value}) == "…"


def test_telling_grows_with_the_input() -> None:
    """The line grows with each delta and is quiet after its argument."""
    telling = TitleReader("Bash")
    deltas = [
        '{"descr',
        'iption": "x", "com',
        'mand": "npm te',
        "st \\",
        "u00e",
        "9 \\ud83d",
        '\\ude00"',
        ', "path": "/a"}',
    ]
    assert [telling.feed(delta) for delta in deltas] == ["", "", "npm te", "st", "", " é", " 😀", ""]
    assert telling.done


def test_space_is_told_once_something_follows() -> None:
    """A space at the end may be the title's end, so it waits."""
    telling = TitleReader()
    assert [telling.feed(delta) for delta in ('{"command":"a ', " ", 'b "')] == ["a", "", "  b"]


def test_space_between_the_parts_of_the_input() -> None:
    """Space, wherever a delta ends, has no effect on the title."""
    reader = TitleReader()
    deltas = [" ", "{ ", '"command" ', ": ", "[ ", '"ls" ', " , ", ' "-l" ', " ", "] ", "} "]
    assert "".join(map(reader.feed, deltas)) == "ls -l"


@pytest.mark.parametrize(
    "text", ["", "[", "nonsense", '"command"', '{"a" 1}', '{command: "x"}', "null", '{"command":"\\uZZZZ"}']
)
def test_what_is_no_object_is_harmless(text: str) -> None:
    """Broken JSON tells little or nothing, and never raises."""
    told = "".join(map(TitleReader("Bash").feed, text))
    assert told in ("", "\ufffd")


words = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["a\nb", " x ", "\r\n", '"', "\\", "😀", "\x85y", "long " * 60, "[", "}", ""]
)
keys = st.sampled_from(sorted(STRONG | WEAK)) | words
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(keys, values, max_size=5),
    st.sampled_from(["Bash", "Edit", "other"]),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_any_cut_of_any_object_begins_its_title(
    value: dict[str, Any], name: str, ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    """However the JSON is spelled and cut, what is told is the same beginning of the title."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    whole = TitleReader(name).feed(text)
    assert title(name, value).startswith(whole)
    assert "\n" not in title(name, value)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    telling = TitleReader(name)
    assert "".join(telling.feed(text[a:b]) for a, b in pairwise(edges)) == whole
    telling = TitleReader(name)
    assert "".join(map(telling.feed, text)) == whole


@given(words, st.sampled_from(sorted(STRONG - {"command", "cmd", "commands", "argv"})))
def test_a_strong_key_is_told_whole(value: str, key: str) -> None:
    """The whole first line is told while it streams; only the mark of what was left out is missing."""
    told = TitleReader("Read").feed(json.dumps({"n": 1, key: value, "z": 2}))
    if value.strip():
        assert title("Read", {"n": 1, key: value, "z": 2}) in (told, told + " …", told + "…")
    else:
        assert told == ""


KINDS = [
    ("Bash", "execute"), ("run_shell_command", "execute"), ("shell", "execute"), ("run_commands", "execute"),
    ("command_execution", "execute"), ("execute_command", "execute"), ("Read", "read"), ("read_file", "read"),
    ("view", "read"), ("Write", "edit"), ("write_file", "edit"), ("apply_patch", "edit"), ("replace", "edit"),
    ("str_replace_based_edit_tool", "edit"), ("create", "edit"), ("file_change", "edit"), ("Grep", "search"),
    ("Glob", "search"), ("LS", "search"), ("web_search", "search"), ("ToolSearch", "search"),
    ("google_web_search", "search"), ("WebFetch", "fetch"), ("web_fetch", "fetch"), ("TodoWrite", "think"),
    ("update_plan", "think"), ("Task", "think"), ("shellToolCall", "execute"), ("mcp__files__read_file", "read"),
    ("delete", "delete"), ("move_file", "move"), ("mcp__x__frobnicate", "other"), ("", "other"), ("__", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_kinds_of_well_known_tools(name: str, kind: str) -> None:
    """Tools of all agents are known by name, however it is written."""
    assert tool_kind(name) == kind


def test_the_kind_of_a_name_beyond_the_cache() -> None:
    """Names beyond those that are remembered have their kind as well."""
    assert {tool_kind(f"tool {number}") for number in range(1001)} == {"other"}
    assert tool_kind("bash") == "execute"
    assert tool_kind("bash") == "execute"


@pytest.mark.parametrize(
    ("input", "shown", "below"),
    [
        ({"command": "cat <<E\none\ntwo\nE\n"}, "cat <<E", ["one", "two", "E"]),
        ({"command": "bash -lc 'one\ntwo'"}, "one", ["two"]),
        ({"command": "one"}, "one", []),
        ({"command": "one\ntwo"}, "another", []),
        ({"command": "one and more\ntwo"}, "one", []),
        (None, "", []),
    ],
)
def test_lines_below_a_title(input: object, shown: str, below: list[str]) -> None:
    """The rest of a command of many lines, without the quote of a shell around it."""
    assert tool_titles.lines_below_title("Bash", input, shown) == below


@pytest.mark.parametrize(
    ("name", "kind", "verb"),
    [
        ("Bash", "other", "$"),
        ("LS", "other", "list"),
        ("read_file", "other", "read"),
        ("unheard_of", "fetch", "fetch"),
        ("unheard_of", "other", ""),
        ("Task", "think", ""),
        ("BashOutput", "execute", ""),
    ],
)
def test_verbs(name: str, kind: ToolKind, verb: str) -> None:
    """A call has the same word for all agents, from the name of its tool or else from its kind."""
    assert tool_titles.tool_verb(name, kind) == verb


def test_plan_tools() -> None:
    """Tools that only change the plan are known by their names."""
    assert tool_titles.is_plan_tool("TodoWrite")
    assert not tool_titles.is_plan_tool("Bash")
