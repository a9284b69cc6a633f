from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import pytest

import penstock
from penstock.agents.registry import AGENTS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "penstock"

DECODES = re.compile(r"\bmsgspec\.(json\.decode|convert)\(|\b_?decoder(\(\))?\.decode\(")
"""Calls that raise errors of msgspec."""


class Import(NamedTuple):
    """One import, wherever in its module it stands. `target` is a module, or a name in one."""

    module: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in MODULES.items()}


def imports(module: str) -> Iterator[Import]:
    """Everything that a module imports, in functions and for types too."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (Import(module, name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports are written out, none is relative"
            for name in node.names:
                yield Import(module, f"{node.module}.{name.name}", node.lineno)


def ours(found: Import) -> str | None:
    """The module of Penstock that is imported; None for other people's."""
    if found.target.split(".")[0] != "penstock":
        return None
    if found.target in MODULES:
        return found.target
    module = found.target.rpartition(".")[0]
    assert module in MODULES, f"{found}: there is no such module"
    return module


INSIDE = [name for name in MODULES if name != "penstock"]
"""All modules but the package itself, which only names what the others hold."""

IMPORTS = [(found, target) for name in INSIDE for found in imports(name) if (target := ours(found))]


def test_the_layers_hold() -> None:
    """The contracts of `pyproject.toml` are kept: layers, no input or output in the core, no agent imports another."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_top_level_is_public() -> None:
    """At most ten modules are at the top level: what a user or an adapter's author imports."""
    modules = [path.stem for path in PACKAGE.glob("*.py") if path.stem not in ("__init__", "__main__", "_version")]
    assert len(modules) <= 10
    assert [name for name in modules if name.startswith("_")] == []


@pytest.mark.parametrize("package", [path for path in MODULES.values() if path.name == "__init__.py"])
def test_a_package_says_what_it_is(package: Path) -> None:
    """The docstring of each package says what belongs there."""
    assert ast.get_docstring(ast.parse(package.read_text("utf-8")))


def test_imports_never_go_in_a_circle() -> None:
    """Also modules of one floor have an order, in which each can be read after those that it imports."""
    graph: dict[str, set[str]] = {name: set() for name in INSIDE}
    for found, target in IMPORTS:
        if target not in ("penstock", found.module):
            graph[found.module].add(target)
    TopologicalSorter(graph).prepare()


def test_only_the_command_line_prints() -> None:
    """What a library prints, its user cannot put elsewhere."""
    printing = [
        f"{name}:{node.lineno}"
        for name in INSIDE
        if not name.startswith("penstock.cli.")
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def test_exported_names() -> None:
    """Each exported name is there, once, and listed."""
    names = penstock.__all__
    assert names == sorted(set(names))
    assert [name for name in names if not hasattr(penstock, name)] == []
    assert dir(penstock) == names


def test_every_exported_name_is_at_home() -> None:
    """A name comes from the module that defines it, so that its place in tracebacks and docs is the real one."""
    for name in penstock.__all__:
        found = getattr(penstock, name)
        if isinstance(found, type | FunctionType):
            assert found.__module__.startswith("penstock."), name
            assert getattr(importlib.import_module(found.__module__), name) is found


@pytest.mark.parametrize("agent", [name for name, entry in AGENTS.items() if entry.proven])
def test_every_proven_agent_has_recordings(agent: str) -> None:
    """An agent is proven by recordings of the real one."""
    folder = ROOT / "tests" / "recordings"
    assert [*folder.glob(f"{agent}/*/input.ndjson"), *folder.glob(f"acp/{agent}-*/input.ndjson")]


NAMED_ELSEWHERE = {
    "claude": {
        "agents/_claude_code.py",
        "agents/_stream_json.py",
        "agents/_stream_json_wire.py",
        "agents/qwen/",
        "agents/ccs/",
        "agents/_project_files.py",
    }
    | {"classic.py", "config/keys.py", "run/lifecycle.py", "run/supervisor.py"},
    "opencode": {"agents/kilo/"},
    "ccs": {"chat/service/agents/offered.py", "run/launch.py"},
    "cursor": {"agents/_project_files.py", "chat/web/", "cli/acp/", "cli/console.py", "cli/editor/", "run/replay.py"},
    "ollama": {"chat/service/agents/"},
    "acp": {""},
    "generic": {""},
}
"""Modules that name an agent besides its own: a wire that agents share, examples, a server that is asked for its
models, files that several agents obey, an ordinary word, and the two that stand for any program."""
EXAMPLES = re.compile(
    r"^.*(?:\| penstock\b|\bpenstock (?:run|serve|read|drift|models|trees) ).*$|`[^`\n]*`"
    r"|\b(?:agent|Stream)\(\"\w+\"\)",
    re.MULTILINE,
)
"""Commands and calls in help texts and docstrings: these may name an agent."""


@functools.cache
def without_examples(path: Path) -> str:
    """Return the text of a module without the places that may name an agent."""
    return EXAMPLES.sub("", path.read_text("utf-8"))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_is_named_in_its_own_folder(agent: str) -> None:
    """All that is known of an agent is in its folder; else only the registry has its name."""
    own = {f"agents/{agent}/", "agents/registry.py", *NAMED_ELSEWHERE.get(agent, ())}
    naming = [
        name
        for name, path in ((path.relative_to(PACKAGE).as_posix(), path) for path in MODULES.values())
        if not name.startswith(tuple(own)) and re.search(rf"\b{agent}\b", without_examples(path))
    ]
    assert naming == []


# Written in pieces, or this file would be the one that has them.
_MACHINE = re.compile(r"(?<![\w.~$}])/" + r"(?:work|root)\b")
_REGISTRY = re.compile("py" + r"pi\.org|npm" + r"js|files\.python" + "hosted", re.IGNORECASE)


def test_errors_of_msgspec_are_named() -> None:
    """A handler of what msgspec raises names its class: before msgspec 0.21 it is no `ValueError`."""
    found = []
    for module, tree in TREES.items():
        for part in ast.walk(tree):
            if isinstance(part, ast.Try) and DECODES.search("\n".join(map(ast.unparse, part.body))):
                caught = " ".join(ast.unparse(handler.type) for handler in part.handlers if handler.type)
                if "ValueError" in caught and "msgspec." not in caught:
                    found.append(f"{module}:{part.lineno} catches {caught}")
    assert found == []


OUTSIDE = ("Protocol", "NamedTuple", "Struct", "Enum", "Base")
"""Bases that add no member which a text names."""


def members() -> dict[str, tuple[set[str], list[str]]]:
    """The members of each class of the package, also those that it sets on `self`, and its bases."""
    found: dict[str, tuple[set[str], list[str]]] = {}
    for tree in TREES.values():
        for part in ast.walk(tree):
            if isinstance(part, ast.ClassDef):
                names, bases = found.setdefault(part.name, (set(), []))
                bases += [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in part.bases]
                for inner in ast.walk(part):
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        names.add(inner.name)
                    elif isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
                        names.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
    return found


def test_members_that_texts_name_exist() -> None:
    """`Class.member` in a docstring, a comment or a document is one that the class has."""
    classes = members()

    def has(name: str, member: str) -> bool:
        names, bases = classes.get(name, (set(), []))
        return member in names or any(has(base, member) or not (base in classes or base in OUTSIDE) for base in bases)

    gone = [
        f"{file}: {match[0]}"
        for file, text in _sentences()
        for match in re.finditer(r"`([A-Z]\w+)\.([a-z_]\w*)(?:\([^`]*\))?`", text)
        if match[1] in classes and match[2] != "md" and not has(match[1], match[2])
    ]
    assert gone == []


def test_tests_that_texts_name_exist() -> None:
    """A test that a document or a comment names is one, or a module of tests."""
    texts = dict(_sentences())
    modules = {Path(file).stem for file in texts} | {path.stem for path in (ROOT / "tests").rglob("test_*")}
    known = modules | {name for file, text in texts.items() for name in re.findall(r"def (test_\w+)", text)}
    named = {(file, name) for file, text in texts.items() for name in re.findall(r"`(test_\w*[a-z0-9])`", text)}
    assert {(file, name) for file, name in named if name not in known} == set()


def _sentences() -> Iterator[tuple[str, str]]:
    """The files with sentences about the code."""
    for file in ("src/**/*.py", "tests/**/*.py", "docs/**/*.md", "*.md"):
        for path in ROOT.glob(file):
            yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def _texts() -> Iterator[tuple[str, str]]:
    """The files of the repository, recordings among them."""
    for folder in ("src", "tests", "docs", "bench", ".ci", ".github"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8", "replace")
    for path in ROOT.iterdir():
        written_by_tools = path.name in (".git", ".coverage")
        if path.is_file() and path.suffix in ("", ".md", ".toml", ".yml", ".yaml") and not written_by_tools:
            yield path.name, path.read_text("utf-8")


@pytest.mark.parametrize("pattern", [_MACHINE, _REGISTRY], ids=["paths of a machine", "hosts of registries"])
def test_nothing_of_one_machine(pattern: re.Pattern[str]) -> None:
    """No file names a folder of the machine that it was written on, or the host of a package registry."""
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in _texts()
        for match in pattern.finditer(text)
    ]
    assert found == []
