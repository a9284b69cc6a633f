"""Breaks the code in one place at a time, and shows which breaks no fast test notices.

    python bench/mutants.py [--count N] [--seed N] [--only PATH] [--limit SECONDS] [--json FILE]

A mutant is a copy of the package's source with one change: another comparison, `and` for `or`, a condition negated,
another constant, None returned, a statement deleted. The fast tests of its package run on the copy, which PYTHONPATH
puts before the checkout; the checkout stays as it is. A mutant is killed if a test fails or the time is over.
The same seed draws the same mutants, and what the JSON file already holds of them is not run again.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import EllipsisType

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
REPORT = ROOT / "build" / "mutants.json"

SUBJECTS = {
    "repo": "tests/repo",
    "loop/next.py": "tests/loop",
    "doc/merge.py": "tests/doc",
    "doc/publish.py": "tests/doc",
    "chat/service": "tests/chat/service",
    "run/supervisor.py": "tests/run",
}
"""Modules that are broken, and the tests that have to notice."""

OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}

Mutant = tuple[str, str, str, str]
"""Module, line and column, what is changed, source of the broken module."""


Constant = str | bytes | bool | int | float | complex | EllipsisType | None


def other_constant(value: Constant) -> Constant:
    """Return another constant of the same type; the same one for a text with spaces, which is a message, and others."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if " " not in value:
            return "" if value else "mutant"
    return value


def breaks(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what can stand in place of a node, each with its name."""
    match node:
        case ast.Compare(ops=[operator, *rest]) if type(operator) in OTHER:
            changed = copy.deepcopy(node)
            changed.ops = [OTHER[type(operator)](), *rest]
            yield "comparison", changed
        case ast.BoolOp(op=operator, values=values):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            changed_test = copy.deepcopy(node)
            changed_test.test = ast.UnaryOp(ast.Not(), test)
            yield "condition", changed_test
        case ast.Constant(value=value) if other_constant(value) != value:
            yield "constant", ast.Constant(other_constant(value))
        case ast.Return(value=value) if value is not None and not (isinstance(value, ast.Constant) and not value.value):
            yield "return value", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield "deleted", ast.Pass()


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield (parent, field, index, node) of what runs in a function: no annotation, default or docstring."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            yield node, field, index, child
            yield from places(child)


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(one) for each in functions for one in ast.walk(each) if one is not each}
    for function in functions:
        if id(function) in inner:
            continue
        for parent, field, index, node in places(function):
            for name, changed in breaks(node):
                replace(parent, field, index, ast.copy_location(changed, node))
                source = ast.unparse(ast.fix_missing_locations(tree))
                replace(parent, field, index, node)
                place = f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
                words = f"{name}: {ast.unparse(node).splitlines()[0][:90]}"
                yield str(path.relative_to(SOURCE / "penstock")), place, words, source


def replace(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    """Put a node into the place of another."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def run(tests: str, module: str, source: str | None, limit: float) -> str:
    """Return "survived" if the tests pass on a copy whose module has this source, else "killed" or "time is over"."""
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # some tests act as another user
        shutil.copytree(SOURCE, Path(folder, "src"), ignore=shutil.ignore_patterns("__pycache__"))
        if source is not None:
            Path(folder, "src", "penstock", module).write_text(source, "utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", tests]
        env = os.environ | {"PYTHONPATH": str(Path(folder, "src")), "TMPDIR": folder}
        done = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            return "killed" if done.wait(limit) else "survived"
        except subprocess.TimeoutExpired:
            return "time is over"
        finally:
            if done.poll() is None:  # pytest ends what its tests have started
                os.killpg(done.pid, signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    done.wait(10)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(done.pid, signal.SIGKILL)
                done.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Breaks the code, and shows which breaks no fast test notices.")
    parser.add_argument("--count", type=int, default=200, help="mutants to draw (200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (1)")
    parser.add_argument("--only", default="", help="modules whose path begins so, as repo/ or loop/next.py")
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of a mutant (300)")
    parser.add_argument("--json", type=Path, default=REPORT, help="results, to which each mutant is added")
    args = parser.parse_args()

    drawn: list[tuple[str, Mutant]] = []
    for subject, tests in SUBJECTS.items():
        path = SOURCE / "penstock" / subject
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if str(module.relative_to(SOURCE / "penstock")).startswith(args.only):
                drawn += [(tests, mutant) for mutant in mutants(module)]
    print(f"{len(drawn)} mutants, of which {min(args.count, len(drawn))} run", flush=True)
    drawn = random.Random(args.seed).sample(drawn, min(args.count, len(drawn)))

    args.json.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, str] = json.loads(args.json.read_text("utf-8")) if args.json.exists() else {}
    for tests in sorted({tests for tests, _ in drawn}):
        if run(tests, "", None, args.limit) != "survived":
            sys.exit(f"{tests} fails without a mutant, or needs more than {args.limit:g} s")
    results: dict[str, str] = {}
    for tests, (name, place, words, source) in drawn:
        key = f"{name}:{place} {words}"
        results[key] = known[key] if key in known else run(tests, name, source, args.limit)
        known[key] = results[key]
        args.json.write_text(json.dumps(known, indent=1, ensure_ascii=False), "utf-8")
        if results[key] == "survived":
            print(f"survived  src/penstock/{key}", flush=True)
    killed = sum(one != "survived" for one in results.values())
    print(f"killed {killed} of {len(results)}: {killed / max(1, len(results)):.0%}")


if __name__ == "__main__":
    main()
