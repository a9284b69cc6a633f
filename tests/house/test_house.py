from __future__ import annotations

import ast
import importlib
import re
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

FLOORS = {
    "errors": 0,
    "values": 1,
    "titles": 1,
    "tags": 1,
    "events": 1,
    "updates": 1,
    "commands": 1,
    "questions": 1,
    "framing": 2,
    "decoding": 2,
    "classifier": 2,
    "contract": 2,
    "agents": 3,
    "registry": 4,
    "detection": 4,
    "formats": 4,
    "stream": 4,
    "turns": 5,
    "sinks": 5,
    "testing": 5,
    "config": 6,
    "inputs": 6,
    "piped": 6,
    "arguments": 6,
    "reading": 6,
    "replay": 6,
    "output": 6,
    "writing": 6,
    "guard": 6,
    "process": 6,
    "bridge": 6,
    "journal": 6,
    "launching": 6,
    "crossing": 6,
    "speaking": 6,
    "runner": 6,
    "runs": 6,
    "asking": 6,
    "api": 6,
    "running": 6,
    "serving": 6,
    "listing": 6,
    "classic": 6,
    "chat": 6,
    "cli": 7,
    "__main__": 7,
}
"""The floor of each module, or of all modules of a folder. A module imports from its own floor and from below."""

SHELLS = 6
"""The first floor that may do input and output."""

COMMAND_LINE = 7
OUTSIDE_WORLD = {"asyncio", "subprocess", "socket", "threading", "time", "random", "http"}

MAX_LINES = 400
LONGER = {
    "agents/_stream_json.py": "one wire of many small events that three agents share; halves would not be read apart",
    "classic.py": "names for compatibility, none of which knows another: it is looked up in, never read through",
    "runner.py": "one supervision over one run; what can be told apart from it is in files of its own",
    "core/normalizer/normalizer.py": "one state machine over one state; parts of it would only pass that state around",
}
"""Source files of more than `MAX_LINES` lines, and why."""


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


def floor(module: str) -> int:
    """The floor that a module is on."""
    return FLOORS[module.split(".")[1]]


INSIDE = [name for name in MODULES if name != "penstock"]
"""All modules but the package itself, which only names what the others hold."""

IMPORTS = [(found, target) for name in INSIDE for found in imports(name) if (target := ours(found))]


def test_every_module_has_a_floor() -> None:
    """A new module is put on a floor, and no floor is kept for a module that is gone."""
    assert {name.split(".")[1] for name in INSIDE} == set(FLOORS)


def test_imports_go_down() -> None:
    """A module imports from its own floor and from below; the package itself gives only its version."""
    upward = [
        str(found)
        for found, target in IMPORTS
        if found.target != "penstock.__version__" and (target == "penstock" or floor(target) > floor(found.module))
    ]
    assert upward == []


def test_imports_never_go_in_a_circle() -> None:
    """Also modules of one floor have an order, in which each can be read after those that it imports."""
    graph: dict[str, set[str]] = {name: set() for name in INSIDE}
    for found, target in IMPORTS:
        if target not in ("penstock", found.module):
            graph[found.module].add(target)
    TopologicalSorter(graph).prepare()


def test_agents_never_import_each_other() -> None:
    """What two agents share is a helper, whose name begins with an underscore, or the base."""

    def agent(module: str) -> str | None:
        parts = module.split(".")
        return parts[2] if parts[1:2] == ["agents"] and len(parts) > 2 else None

    crossing = [
        str(found)
        for found, target in IMPORTS
        if agent(found.module) is not None
        and (other := agent(target)) not in (None, "base", agent(found.module))
        and not str(other).startswith("_")
    ]
    assert crossing == []


def test_sinks_know_events_alone() -> None:
    """A sink imports the events, the words of questions and of tools, rules for its options, and parts of sinks."""
    allowed = (
        "penstock.events",
        "penstock.core.questions",
        "penstock.core.tool_titles",
        "penstock.config.rules",
        "penstock.sinks",
    )
    more = [
        str(found)
        for found, target in IMPORTS
        if found.module.startswith("penstock.sinks.") and not target.startswith(allowed)
    ]
    assert more == []


def test_the_judge_knows_no_session() -> None:
    """`verify` is written from the contract; what it judges is no part of it."""
    known = {target for found, target in IMPORTS if found.module == "penstock.testing.verify"}
    assert known == {"penstock.events"}


@pytest.mark.parametrize("module", [name for name in INSIDE if floor(name) < SHELLS])
def test_the_core_has_no_outside_world(module: str) -> None:
    """Below the shells there is no process, no network, no thread, no clock and no chance."""
    found = {found.target.split(".")[0] for found in imports(module)}
    # What tests adapters may roll dice, as long as it says which seed it had.
    allowed = {"random"} if module == "penstock.testing.conformance" else set()
    assert found & OUTSIDE_WORLD == allowed


def test_only_the_command_line_prints() -> None:
    """What a library prints, its user cannot put elsewhere."""
    printing = [
        f"{name}:{node.lineno}"
        for name in INSIDE
        if floor(name) < COMMAND_LINE
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def test_exported_names() -> None:
    """`__all__` is sorted, names nothing twice, and each name is there and known to type checkers."""
    names = penstock.__all__
    assert names == sorted(set(names))
    assert [name for name in names if not hasattr(penstock, name)] == []
    assert set(penstock.__dir__()) == set(names)
    typed = {
        alias.asname or alias.name
        for node in ast.walk(TREES["penstock"])
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock.")
        for alias in node.names
    }
    assert set(names) - {"__version__"} == typed


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
    assert list((ROOT / "tests" / "recordings").glob(f"{agent}/*/input.ndjson"))


@pytest.mark.parametrize("path", MODULES.values(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_files_fit_into_one_read(path: Path) -> None:
    """No source file is longer than `MAX_LINES`, but those with a reason that is written down and still needed."""
    lines = path.read_text("utf-8").count("\n")
    assert (lines > MAX_LINES) == (path.relative_to(PACKAGE).as_posix() in LONGER), f"{lines} lines"


# Written in pieces, or this file would be the one that has them.
_MACHINE = re.compile(r"(?<![\w.~$}])/" + r"(?:work|root)\b")
_REGISTRY = re.compile("py" + r"pi\.org|npm" + r"js|files\.python" + "hosted", re.IGNORECASE)


def _texts() -> Iterator[tuple[str, str]]:
    """The files of the repository, recordings among them."""
    for folder in ("src", "tests", "docs", "bench", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8", "replace")
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in ("", ".md", ".toml"):
            yield path.name, path.read_text("utf-8")


@pytest.mark.parametrize("pattern", [_MACHINE, _REGISTRY], ids=["paths of a machine", "hosts of registries"])
def test_nothing_of_one_machine(pattern: re.Pattern[str]) -> None:
    """No file names a folder of the machine that it was written on, or the host of a package registry."""
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in _texts()
        for number, line in enumerate(text.split("\n"), 1)
        if pattern.search(line)
    ]
    assert found == []
