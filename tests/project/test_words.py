"""The words of the code follow `docs/style.md`: no retired word in an identifier, and one name for one class.

What is not yet clean is listed in `words_remaining.json`. The list is exact, so it can only shrink:

    python tests/project/test_words.py           removes from it what is clean by now
    python tests/project/test_words.py --anew    writes it anew, after files have moved
"""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "penstock"
REMAINING = Path(__file__).with_name("words_remaining.json")

STYLE = (ROOT / "docs" / "style.md").read_text("utf-8")
RETIRED_ROWS = STYLE.split("| retired | write instead |\n|---|---|\n")[1].split("\n\n")[0]
RETIRED = frozenset(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.*?) \|", RETIRED_ROWS, re.MULTILINE))))
"""Words that no identifier contains, in singular or plural: the table of the style guide."""

RETIRED_PART = re.compile(rf"(?:^|_)(?=({'|'.join(sorted(RETIRED))})(?:s|es)?(?:_|$))")

EXCEPTED = frozenset({"classic.py"})
"""Modules that keep the names of another program on purpose."""

FOREIGN = frozenset({"floor", "get_type_hints"})
"""Identifiers of Python's and JavaScript's own libraries: `Math.floor`, `typing.get_type_hints`."""

JAVASCRIPT_WORDS = frozenset({"return", "typeof", "case", "in", "of", "void", "delete", "await", "yield", "else"})
"""Keywords of JavaScript after which a slash begins a regular expression, not a division."""


def parts_of(name: str) -> list[str]:
    """Split an identifier or a path at underscores, other signs and changes of case, in lower case."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


@functools.cache
def retired_in(name: str) -> set[str]:
    """Return the retired words that an identifier contains."""
    return {*RETIRED_PART.findall("_".join(parts_of(name)))}


@functools.cache
def nodes_of(source: str) -> list[ast.AST]:
    """Return all nodes of a Python module."""
    return [*ast.walk(ast.parse(source))]


def python_names(source: str) -> Iterator[str]:
    """Yield every identifier of a Python module."""
    for node in nodes_of(source):
        for field in ("id", "name", "attr", "arg", "asname", "rest", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        if isinstance(node, ast.MatchClass):
            yield from node.kwd_attrs


SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/")
NAME = re.compile(r"[A-Za-z_$][\w$]*")
TEXT = re.compile(r"(?:\\.|\$(?!\{)|[^`$\\])*", re.DOTALL)


def javascript_names(source: str) -> Iterator[str]:
    """Yield every identifier of a JavaScript module: of its code and of the code in template literals."""
    at, last = 0, ""
    depths: list[int] = []  # braces that are open in each template expression
    while at < len(source):
        if found := SKIPPED.match(source, at):
            at, last = found.end(), last if found[0].startswith(("//", "/*")) else '"'
        elif source[at] == "/" and (not last or last in "(,=:[!&|?{};+-*%<>~^" or last in JAVASCRIPT_WORDS):
            found = REGEX.match(source, at)
            assert found, f"no regular expression at {source[at : at + 40]!r}"
            at, last = found.end(), '"'
        elif found := NAME.match(source, at):
            yield found[0]
            at, last = found.end(), found[0]
        elif source[at] == "`" or (source[at] == "}" and depths and depths[-1] == 0):
            if source[at] == "}":
                depths.pop()
            text = TEXT.match(source, at + 1)
            assert text
            at, last = text.end() + 1, '"'
            if source[text.end()] == "$":
                depths.append(0)
                at, last = at + 1, "{"
        else:
            if depths and source[at] in "{}":
                depths[-1] += 1 if source[at] == "{" else -1
            last = last if source[at].isspace() else source[at]
            at += 1


def modules() -> dict[str, Path]:
    """Return the Python and JavaScript files of the package by path, without what is vendored or excepted."""
    files = (path for suffix in ("py", "js") for path in PACKAGE.rglob(f"*.{suffix}") if "vendor" not in path.parts)
    named = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(files)}
    return {name: path for name, path in named.items() if name not in EXCEPTED}


def retired_words() -> dict[str, list[str]]:
    """Return the retired words of each module that has any, its path included."""
    found: dict[str, list[str]] = {}
    for name, path in modules().items():
        names = python_names if path.suffix == ".py" else javascript_names
        identifiers = {*names(path.read_text("utf-8"))} - FOREIGN
        if words := set().union(*map(retired_in, [*identifiers, name])):
            found[name] = sorted(words)
    return found


def shared_class_names() -> dict[str, list[str]]:
    """Return the names that several classes share, with their modules; wire types of agents are left out."""
    sources = {name: path.read_text("utf-8") for name, path in modules().items() if path.suffix == ".py"}
    homes: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        wire = {"Struct"}
        for node in nodes_of(source):
            if not isinstance(node, ast.ClassDef):
                continue
            if module.startswith("agents/") and wire & {ast.unparse(base).rpartition(".")[2] for base in node.bases}:
                wire.add(node.name)
            else:
                homes[node.name].append(module)
    # What an adapter states and what is promised of it have one name in both vocabularies.
    pairs = (["events.py", "updates.py"], ["run/result.py", "updates.py"])
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1 and sorted(where) not in pairs}


def allowed(kind: str) -> dict[str, list[str]]:
    """Return what `words_remaining.json` allows: the "words" of modules, or the modules of "classes"."""
    remaining: dict[str, dict[str, list[str]]] = json.loads(REMAINING.read_text("utf-8"))
    return remaining[kind]


def test_no_module_gains_a_retired_word() -> None:
    """No identifier and no file name has a retired word, and no word is allowed that is gone by now."""
    assert retired_words() == allowed("words")


def test_class_names_are_unique() -> None:
    """Two classes do not share a name, and none is allowed to that is alone by now."""
    assert shared_class_names() == allowed("classes")


def test_a_name_is_split_into_words() -> None:
    """Underscores, capitals and dots divide an identifier, and a word inside a longer one is not found."""
    assert parts_of("_HTTPServer.wayOut_2") == ["http", "server", "way", "out"]
    assert retired_in("_tell_all") == {"tell"}
    assert retired_in("HintsView") == {"hint"}
    assert retired_in("wayOut") == {"way_out"}
    assert retired_in("discard_wildcard_telltale") == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a.b(c) // d", ["a", "b", "c"]),
        ("x = 'a' + `b ${c.map((d) => `e ${f}`)} g` + h /* i */", ["x", "c", "map", "d", "f", "h"]),
        ('k = l / m / n; return /`o"[/]/.test(p)', ["k", "l", "m", "n", "return", "test", "p"]),
        ("`${{ q: {} }}${r}`; s", ["q", "r", "s"]),
    ],
)
def test_javascript_names(source: str, names: list[str]) -> None:
    """Names are found in code and in template expressions, not in comments, strings or regular expressions."""
    assert [*javascript_names(source)] == names


def test_python_names() -> None:
    """Names are found wherever Python binds or uses one."""
    source = "from a import b as c\ndef d(e, *f, **g):\n    global h\n    i.j(k=l)\nclass M(N): o: P = 1\n"
    assert {*python_names(source)} == set("abcdefghijkl") | set("MNoP")


def write(anew: bool) -> None:
    """Write `words_remaining.json`: what is found, and without `anew` only as far as it is allowed already."""
    found = {"words": retired_words(), "classes": shared_class_names()}
    if not anew:
        for kind, entries in found.items():
            known = allowed(kind)
            kept = {name: [one for one in listed if one in known.get(name, ())] for name, listed in entries.items()}
            found[kind] = {name: listed for name, listed in kept.items() if listed}
    sections = [
        json.dumps(kind)
        + ": {\n"
        + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())
        + "\n}"
        for kind, entries in found.items()
    ]
    REMAINING.write_text("{\n" + ",\n".join(sections) + "\n}\n", "utf-8")


if __name__ == "__main__":
    write(anew="--anew" in sys.argv[1:])
