"""Measures what the start of a confined run costs: plain and confined runs of the same agent take turns."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from markdown_table import row, section
from penstock.agents.registry import AGENTS
from penstock.run.confine import machine_problem

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "real"))

from install import NotInstalled  # noqa: E402 - the harness of the real agents
from setups import TARGETS, Target, bench  # noqa: E402

RECORDING = ROOT / "tests" / "recordings" / "claude" / "tools" / "input.ndjson"
AGENTS_MEASURED = ("claude", "codex", "gemini", "opencode", "pi")
ROUTES = {f"{name}-{AGENTS[name].default_name(can_answer=False)}" for name in AGENTS_MEASURED}
"""Routes that a run uses by default if nobody can answer the agent, as in these runs."""
PLAIN, CONFINED, RESTRICTED = ["--sandbox=off"], ["--sandbox=on"], ["--network=agent"]
WAYS = (PLAIN, CONFINED, RESTRICTED)


class Took(NamedTuple):
    """What one run took, in seconds."""

    first_text: float
    cpu: float


def report(quick: bool) -> Iterator[str]:
    yield from section(
        "Confined runs",
        "From the start of `penstock run` until the first text can be read: the least of runs that take turns. The "
        "first agent is a stand-in that prints a recording at once. The others are real agents on the route that such "
        "a run uses by default, which answer by a model server of the tests, if `tests/real/install.py` has installed "
        "them. Wanted for the stand-in: confined at most 10 ms later, and 40 ms with `--network agent`. The CPU time "
        "is that of all processes, plain = 1, which a busy machine changes less.",
        ["agent", "runs", "plain", "confined", "CPU", "`--network agent`", "CPU", "load"],
    )
    if problem := machine_problem():
        yield row(f"(not here: {problem})", *[""] * 7)
        return
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as place:  # `/tmp` is empty in a confined run
        yield _stand_in(Path(place), 5 if quick else 30)
        for target in TARGETS:
            if str(target) in ROUTES:
                root = Path(place) / str(target)
                root.mkdir()
                yield from _real(target, root, 2 if quick else 7)


def _stand_in(place: Path, count: int) -> str:
    (place / "work").mkdir()
    (place / "home").mkdir()
    config = place / "config.toml"
    agent = ["sh", "-c", f"cat >/dev/null; cat {RECORDING}"]
    config.write_text(f'[agents.stand-in]\ncommand = {json.dumps(agent)}\nadapter = "claude"\n')
    env = {**os.environ, "HOME": str(place / "home"), "PENSTOCK_CONFIG": str(config)}
    return _row("a stand-in", _measured("stand-in", place, env, "hello", count, ["--file", str(RECORDING)]), count)


def _real(target: Target, root: Path, count: int) -> Iterator[str]:
    try:
        with bench(target, root) as at:
            host = at.server.url.partition("//")[2]
            options = ["--route", target.route, "--allow=all"]
            took = _measured(target.name, root, at.env, "scenario=text please", count, options, host)
            yield _row(str(target), took, count)
    except NotInstalled:
        yield row(f"{target} (not installed)", *[""] * 7)


def _measured(
    agent: str, root: Path, env: dict[str, str], prompt: str, count: int, options: Sequence[str], host: str = ""
) -> list[list[Took]]:
    """Return what runs in each way took, without those of a first round, which fills the caches."""
    env = {**env, "PENSTOCK_DATA": str(root / "data"), "PYTHONPYCACHEPREFIX": str(root / "cache")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    took: list[list[Took]] = [[] for _ in WAYS]
    for _ in range(count + 1):
        for times, way in zip(took, WAYS, strict=True):
            more = [f"--network-host={host}"] if host and way is RESTRICTED else []
            argv = [sys.executable, "-m", "penstock", "run", agent, prompt, "--to=ndjson", *options, *way, *more]
            times.append(_run(argv, root / "work", env))
    return [times[1:] for times in took]


def _run(argv: list[str], cwd: Path, env: dict[str, str]) -> Took:
    start, before = time.perf_counter(), _cpu_of_children()
    with subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        seen, first = b"", 0.0
        while piece := process.stdout.read(65536):
            seen += piece
            if not first and b'"kind":"text","text"' in seen:
                first = time.perf_counter() - start
        if not first:
            raise SystemExit(f"{argv} printed no text: {seen.decode()[-2000:]}")
    return Took(first, _cpu_of_children() - before)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _row(name: str, took: list[list[Took]], count: int) -> str:
    plain, *others = (min(it.first_text for it in runs) for runs in took)
    plain_cpu, *others_cpu = (min(it.cpu for it in runs) for runs in took)
    cells = [f"{plain * 1e3:.0f} ms"]
    for first_text, cpu in zip(others, others_cpu, strict=True):
        cells += [f"{(first_text - plain) * 1e3:+.0f} ms", f"{cpu / plain_cpu:.2f}"]
    return row(name, str(count), *cells, f"{os.getloadavg()[0]:.0f}")
