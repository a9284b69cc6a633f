"""Breaks the code in one place at a time, and shows which breaks no fast test notices.

    python bench/mutants.py [--count N] [--seed N] [--only PATH] [--jobs N] [--limit SECONDS] [--json FILE] [--again]

A mutant is a copy of the package's source with one change: another comparison, `and` for `or`, a condition negated,
another constant, None returned, a statement deleted. The fast tests of its package run on the copy, which PYTHONPATH
puts before the checkout; the checkout stays as it is. A mutant is killed if a test fails or the time is over.

The tests that reach the changed line run first, the quickest before the others, and only for a mutant that outlives
them all the rest: these may reach it in a process of their own. Which tests reach a line is measured once by coverage
and kept in `build/mutants`, until the code or the tests change.

The same seed draws the same mutants, and what the JSON file already holds of them is not run again; with `--again`,
those that survived are.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import EllipsisType
from typing import NamedTuple

from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "mutants"
REPORT = ROOT / "build" / "mutants.json"

SUBJECTS = {
    "core/normalizer": "tests/core",
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

MEASURED = """[run]
source = {source}
data_file = {data}
"""
"""Settings of coverage: the subjects alone, so that the tests are hardly slower."""
SLACK_SECONDS, SLACK = 30, 10
"""Time limit of the tests that reach a line: so many seconds, and so often what they took without a mutant."""


class Mutant(NamedTuple):
    """One change of a module: its line and column, the lines of its statement, the source of the changed module."""

    module: str
    place: str
    what: str
    lines: range
    source: str

    @property
    def key(self) -> str:
        return f"{self.module}:{self.place} {self.what}"


class Reached(NamedTuple):
    """The tests of one folder: the seconds of each, and those that reach a line of a module."""

    seconds: dict[str, float]
    tests: dict[str, dict[str, list[str]]]

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant, the quickest first."""
        by_line = self.tests.get(mutant.module, {})
        found = {test for line in mutant.lines for test in by_line.get(str(line), ())}
        return sorted(found & self.seconds.keys(), key=self.seconds.__getitem__)


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


def lines_of(function: ast.AST, line: int) -> range:
    """Return the lines of the innermost statement at a line; of one with a body, those before the body."""
    found = range(line, line + 1)
    for node in ast.walk(function):  # outer ones first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            end = max(line, body[0].lineno - 1) if body else node.end_lineno or line
            found = range(node.lineno, end + 1)
    return found


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
                line = getattr(node, "lineno", 0)
                words = f"{name}: {ast.unparse(node).splitlines()[0][:90]}"
                place = f"{line}:{getattr(node, 'col_offset', 0)}"
                module = path.relative_to(SOURCE / "penstock").as_posix()
                yield Mutant(module, place, words, lines_of(function, line), source)


def replace(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    """Put a node into the place of another."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def digest(tests: str) -> str:
    """Return a hash of the code and of the tests of one folder."""
    made = hashlib.sha256()
    for folder in (SOURCE, ROOT / tests, ROOT / "tests" / "support"):
        for path in sorted(folder.rglob("*.py")):
            made.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return made.hexdigest()


def pytest_words(*words: str) -> list[str]:
    """Return a command that runs fast tests."""
    return [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "chosen_tests",
        "-m",
        "not slow",
        *words,
    ]


def environment(source: Path, **more: str) -> dict[str, str]:
    """Return the environment of tests that run on a copy of the source."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return own | {"PYTHONPATH": os.pathsep.join([str(source), str(ROOT / "bench")])} | more


def measure(tests: str, jobs: int) -> Reached:
    """Run the tests of a folder without a mutant; return which of them reach each line of the subjects.

    Raises:
        SystemExit: they fail.
    """
    kept = BUILD / f"{tests.replace('/', '-')}.json"
    wanted = digest(tests)
    if kept.exists() and (found := json.loads(kept.read_text("utf-8")))["digest"] == wanted:
        return Reached(found["seconds"], found["tests"])
    BUILD.mkdir(parents=True, exist_ok=True)
    data, config, seconds = (kept.with_suffix(suffix) for suffix in (".coverage", ".ini", ".seconds"))
    packages = {f"penstock.{subject.split('/')[0]}" for subject, folder in SUBJECTS.items() if folder == tests}
    config.write_text(MEASURED.format(source=",".join(sorted(packages)), data=data), "utf-8")
    words = [tests, "--cov", f"--cov-config={config}", "--cov-context=test", "--cov-report="]
    words += ["-n", str(jobs)] if jobs > 1 else []
    env = environment(SOURCE, PENSTOCK_TEST_SECONDS=str(seconds))
    done = subprocess.run(pytest_words(*words), cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{tests} fails without a mutant:\n{done.stdout[-3000:]}")
    measured = CoverageData(str(data))
    measured.read()
    reached: dict[str, dict[str, list[str]]] = {}
    for file in measured.measured_files():
        module = Path(file).relative_to(SOURCE / "penstock").as_posix()
        contexts = measured.contexts_by_lineno(file).items()
        reached[module] = {
            str(line): sorted({name.rpartition("|")[0] for name in names if name}) for line, names in contexts
        }
    result = Reached(json.loads(seconds.read_text("utf-8")), reached)
    kept.write_text(json.dumps({"digest": wanted, **result._asdict()}), "utf-8")
    return result


def run(tests: str, mutant: Mutant, reached: Reached, limit: float) -> str:
    """Return "survived" if the tests pass on a copy that is changed so, else "killed" or "time is over"."""
    first = reached.of(mutant)
    rest = [test for test in sorted(reached.seconds, key=reached.seconds.__getitem__) if test not in set(first)]
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # some tests act as another user
        source = Path(folder, "src")
        shutil.copytree(SOURCE, source)  # with the compiled modules, which are valid for the copies
        Path(source, "penstock", mutant.module).write_text(mutant.source, "utf-8")
        soon = min(limit, SLACK_SECONDS + SLACK * sum(reached.seconds[test] for test in first))
        for chosen, seconds in ((first, soon), (rest, limit)):
            result = run_chosen(chosen, source, seconds) if chosen else "survived"
            if result != "survived":
                return result
    return "survived"


def run_chosen(chosen: Sequence[str], source: Path, limit: float) -> str:
    """Run tests on a copy of the source until one fails."""
    names = source.with_name("tests.json")
    names.write_text(json.dumps(chosen), "utf-8")
    files = sorted({test.partition("::")[0] for test in chosen})
    env = environment(source, TMPDIR=str(source.parent), PENSTOCK_CHOSEN_TESTS=str(names))
    done = subprocess.Popen(
        pytest_words("-x", *files),
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
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
    parser.add_argument("-j", "--jobs", type=int, default=1, help="mutants that run at once (1)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of a mutant (300)")
    parser.add_argument("--json", type=Path, default=REPORT, help="results, to which each mutant is added")
    parser.add_argument("--again", action="store_true", help="run again what survived")
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
    waiting = [
        (tests, mutant)
        for tests, mutant in drawn
        if mutant.key not in known or (args.again and known[mutant.key] == "survived")
    ]
    reached = {tests: measure(tests, args.jobs) for tests in sorted({tests for tests, _ in waiting})}
    with ThreadPoolExecutor(args.jobs) as threads:
        found = threads.map(lambda one: run(one[0], one[1], reached[one[0]], args.limit), waiting)
        for (_, mutant), result in zip(waiting, found, strict=True):
            known[mutant.key] = result
            args.json.write_text(json.dumps(known, indent=1, ensure_ascii=False), "utf-8")
            if result == "survived":
                print(f"survived  src/penstock/{mutant.key}", flush=True)
    results = [known[mutant.key] for _, mutant in drawn]
    killed = sum(one != "survived" for one in results)
    print(f"killed {killed} of {len(results)}: {killed / max(1, len(results)):.0%}")


if __name__ == "__main__":
    main()
