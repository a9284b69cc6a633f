"""Measures Penstock beside other readers, as ratios taken in one run. Prints a markdown report.

    python bench/run.py [--quick] [--write] [--json FILE]

The figures are put into build/bench.json as well, `--write` puts the report into docs/performance.md. Nothing here
fails for being slow.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec

import chat
import confined
import documents
import scale
import synthetic
import trees
from compare import cpu_of
from contenders import HAS_SDK, Work, core, loads, measured, penstock, sdk, typed
from figures import tables
from markdown_table import row, section
from penstock.agents import registry
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "tests" / "recordings"
PAGE = ROOT / "docs" / "performance.md"
FIGURES = ROOT / "build" / "bench.json"
CONTEST = ["lines", "`json.loads`", "typed decoding", "core", "**core + plain text**", "claude-agent-sdk"]
LONG_LINES = 1000
"""Lines of a recording that was streamed; those with fewer have whole messages."""
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


# --- what is measured -------------------------------------------------------------------------------


def recordings(quick: bool) -> Iterator[str]:
    found = {path: path.read_bytes().split(b"\n")[:-1] for path in sorted(RECORDINGS.glob("*/long/input.ndjson"))}
    streamed = {path: lines for path, lines in found.items() if len(lines) >= LONG_LINES}
    whole = {path: lines for path, lines in found.items() if len(lines) < LONG_LINES}
    short = {path: path.read_bytes().split(b"\n")[:-1] for path in sorted(RECORDINGS.glob("*/tools/input.ndjson"))}
    for title, wanted, paths in (
        ("Real recordings: a long reply", "Wanted: at most 0.55 (copilot 0.7).", streamed),
        (
            "Real recordings: a long reply in whole messages",
            "A few lines of hundreds of kilobytes: the cost is that of showing them. Wanted: at most 6.",
            whole,
        ),
        (
            "Real recordings: short runs with tools",
            "Of a run of some ten lines most is its start and its end; all of them take a few milliseconds.",
            short,
        ),
    ):
        about = "Cost per line, `json.loads` alone on the same lines = 1."
        yield from section(title, f"{about} {wanted}", ["recording", *CONTEST])
        for path, lines in paths.items():
            agent = agent_of(path)
            if agent is not None:
                chunks = partial(synthetic.chunked, path.read_bytes())
                yield contest(path.parts[-3], agent, chunks, partial(iter, lines), quick)
        if not paths:
            yield row("(no recordings here)", *[""] * 6)


def contest(
    title: str,
    agent: str,
    chunks: Callable[[], Iterable[bytes]],
    lines: Callable[[], Iterable[bytes]],
    quick: bool,
    rounds: int = 25,
) -> str:
    count = sum(1 for _ in lines())
    works: dict[str, Work] = {
        "loads": lambda: loads(lines()),
        "typed": lambda: typed(agent, lines()),
        "core": lambda: core(agent, chunks()),
        "penstock": lambda: penstock(agent, chunks()),
    }
    if HAS_SDK and agent == "claude":
        works["sdk"] = lambda: sdk(lines())
    best = measured(works, max(1, rounds // 5) if quick else rounds)
    ratio = {name: f"{took / best['loads']:.2f}" for name, took in best.items()}
    return row(
        title,
        f"{count:,}",
        f"1 ({best['loads'] / count * 1e6:.1f} µs)",
        ratio["typed"],
        ratio["core"],
        f"**{ratio['penstock']}**",
        ratio.get("sdk", "–"),
    )


def growth(quick: bool) -> Iterator[str]:
    sizes = [10**3, 10**4, 10**5] + ([] if quick else [10**6])
    streams = {size: synthetic.ClaudeDeltas(size) for size in sizes}
    yield from section(
        "Synthetic claude streams: one block of ever more deltas",
        "As above; the last column is the cost per event of core + plain text beside that of the shortest stream "
        "(wanted: at most 1.2). The whole text comes twice more at the end, as claude sends it.",
        ["deltas", *CONTEST, "growth"],
    )
    # Growth compares runs that took turns too: the short stream many times, the long one once.
    reading: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(2 if quick else 3):
        for size, stream in streams.items():
            repeats = max(1, 10**5 // size)
            gc.collect()
            took = []
            for _ in range(repeats):
                start = time.perf_counter()
                penstock("claude", stream.chunks())
                took.append(time.perf_counter() - start)
            reading[size].append(min(took) / stream.lines)
    first = min(reading[sizes[0]])
    for size, stream in streams.items():
        rounds = {10**3: 50, 10**4: 15, 10**5: 5, 10**6: 2}[size]
        line = contest(f"{size:,}", "claude", stream.chunks, stream.split, quick, rounds)
        yield f"{line} {min(reading[size]) / first:.2f} |"


def command(quick: bool) -> Iterator[str]:
    yield from section(
        "The whole command",
        "`penstock --agent claude` reads a file and writes the text of a log; `json.loads` of each line in a program "
        "of its own = 1. CPU time of the processes, their starts included. Wanted: at most 0.33.",
        ["deltas", "`json.loads`", "**penstock**"],
    )
    loads = "import json, sys\nfor line in sys.stdin.buffer:\n    json.loads(line)"
    for count in (10**5,) if quick else (10**5, 10**6):
        stream = synthetic.ClaudeDeltas(count)
        with tempfile.NamedTemporaryFile() as file:
            file.writelines(stream.chunks())
            file.flush()
            runs = ([sys.executable, "-c", loads], [sys.executable, "-m", "penstock", "--agent", "claude"])
            took = [
                [cpu_of(argv, Path(file.name), dict(os.environ)) for argv in runs] for _ in range(3 if quick else 5)
            ]
        unit, ours = (min(column) for column in zip(*took, strict=True))
        yield row(f"{count:,}", f"1 ({unit / stream.lines * 1e6:.1f} µs a line)", f"**{ours / unit:.2f}**")


def calls(quick: bool) -> Iterator[str]:
    sizes = (500, 2_000) if quick else (500, 2_000, 8_000, 20_000)
    yield from section(
        "Ever more tool calls",
        "Microseconds of core + plain text for a call with its result, and for a result whose call never came; then "
        "the first beside that of the shortest stream (wanted: at most 1.2).",
        ["calls", "a call with its result", "a result alone", "growth"],
    )
    works: dict[str, Work] = {}
    for size in sizes:
        for with_calls in (True, False):
            data = synthetic.chunked(synthetic.claude_calls(size, with_calls=with_calls))
            works[f"{size} {with_calls}"] = partial(penstock, "claude", data)
    best = measured(works, 3 if quick else 7)
    first = best[f"{sizes[0]} True"] / sizes[0]
    for size in sizes:
        call, result = (best[f"{size} {with_calls}"] / size for with_calls in (True, False))
        yield row(f"{size:,}", f"{call * 1e6:.1f}", f"{result * 1e6:.1f}", f"{call / first:.2f}")


def long_lines(quick: bool) -> Iterator[str]:
    total = (5 if quick else 50) * 10**6
    sizes = [size for size in (10**3, 10**5, 10**6, 10**7, 5 * 10**7) if size <= total]
    yield from section(
        "From short lines to one of 50 MB",
        f"Tool results, {total // 10**6} MB in each stream. Cost per byte, `json.loads` on the same bytes = 1.",
        ["bytes in a line", "core + plain text", "cost per byte beside 1 kB lines"],
    )
    yield from per_byte({f"{size:,}": ("claude", synthetic.claude_tool_results(size, total)) for size in sizes}, quick)


def snapshots(quick: bool) -> Iterator[str]:
    sizes = (100, 200, 400) if quick else (200, 400, 800, 1600)
    for title, agent, make in (
        ("Snapshot streams: Pi", "pi", synthetic.pi_snapshots),
        ("Snapshot streams: a proxy that sends snapshots for deltas (`ccs`)", "ccs", synthetic.ccs_snapshots),
    ):
        yield from section(
            title,
            "Every update carries all text so far, so the bytes grow with the square of the updates. Cost per byte, "
            "`json.loads` on the same bytes = 1; it should not grow.",
            ["updates (bytes)", "core + plain text", "cost per byte beside the shortest"],
        )
        made = {size: make(size) for size in sizes}
        yield from per_byte({f"{n:,} ({synthetic.size(data):,})": (agent, data) for n, data in made.items()}, quick)


def per_byte(streams: dict[str, tuple[str, list[bytes]]], quick: bool) -> Iterator[str]:
    works: dict[str, Work] = {}
    for title, (agent, chunks) in streams.items():
        lines = b"".join(chunks).split(b"\n")[:-1]
        works[title] = partial(penstock, agent, chunks)
        works[f"loads {title}"] = partial(loads, lines)
    best = measured(works, 2 if quick else 3)
    first = None
    for title, (_, chunks) in streams.items():
        cost = best[title] / synthetic.size(chunks)
        first = first or cost
        yield row(title, f"{best[title] / best[f'loads {title}']:.2f}", f"{cost / first:.2f}")


def memory(quick: bool) -> Iterator[str]:
    yield from section(
        "Memory",
        "Python's own count of live bytes (`tracemalloc`, each in a process of its own), beside the UTF-8 text of the "
        "stream. At the end of a block its text is joined, repeated whole by the agent, and rendered in one piece: "
        "that is the peak.",
        ["stream", "text", "while it streams", "of that without the sink", "at the peak"],
    )
    for count in (10**4, 10**5) if quick else (10**4, 10**5, 10**6):
        text = synthetic.ClaudeDeltas(count).text_bytes
        whole, bare = worker("deltas", count, "sink"), worker("deltas", count, "bare")
        times = [f"{bytes_ / text:.1f} ×" for bytes_ in (whole["streaming"], bare["streaming"], whole["peak"])]
        yield row(f"one block of {count:,} deltas", megabytes(text), *times)
        text = synthetic.ClaudeDeltas(count, ascii_only=True).text_bytes
        whole, bare = worker("ascii", count, "sink"), worker("ascii", count, "bare")
        times = [f"{bytes_ / text:.1f} ×" for bytes_ in (whole["streaming"], bare["streaming"], whole["peak"])]
        yield row("the same, ASCII alone", megabytes(text), *times)
    for count in (100, 1000) if quick else (100, 1000, 10000):
        whole, bare = worker("rounds", count, "sink"), worker("rounds", count, "bare")
        sizes = [megabytes(bytes_) for bytes_ in (whole["streaming"], bare["streaming"], whole["peak"])]
        yield row(f"{count:,} rounds of 100 deltas and a tool call", megabytes(count * 950), *sizes)


def worker(shape: str, count: int, sink: str) -> dict[str, int]:
    command = [sys.executable, __file__, "--worker", shape, str(count), sink]
    done = subprocess.run(command, check=True, capture_output=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def work(shape: str, count: int, with_sink: bool) -> None:
    """What a worker process does: live bytes after the last delta, and the highest of all."""
    source = None if shape == "rounds" else synthetic.ClaudeDeltas(count, ascii_only=shape == "ascii")
    # The million's bytes are not the reader's: they are there before counting begins.
    chunks = source.chunks() if source is not None else synthetic.claude_rounds(count)
    last_delta = source.delta_chunks if source is not None else sys.maxsize
    stream, sink = Stream("claude"), TextSink("none")
    tracemalloc.start()
    before = streaming = tracemalloc.get_traced_memory()[0]
    for number, chunk in enumerate(chunks):
        events = stream.feed(chunk)
        if with_sink:
            sink.render(events)
        del events
        if number <= last_delta:
            streaming = tracemalloc.get_traced_memory()[0]
    sink.render(stream.close())
    peak = tracemalloc.get_traced_memory()[1]
    print(json.dumps({"streaming": streaming - before, "peak": peak - before}))


def start_up(quick: bool) -> Iterator[str]:
    yield from section(
        "Start-up",
        "Medians of many runs of whole processes: the same interpreter, all modules compiled, as installing does it.",
        ["what", "takes", "beside", "ratio", "wanted"],
    )
    script = Path(sys.executable).parent / "penstock"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "penstock"]
    one = synthetic.line({"type": "result", "subtype": "success", "is_error": False, "result": "hi", "session_id": "s"})
    runs = {
        "`penstock --version`": ([*command, "--version"], b""),
        "`python -c pass`": ([sys.executable, "-c", "pass"], b""),
        "a pipe of one line": (command, one),
        "`python -c 'import msgspec, argparse'`": ([sys.executable, "-c", "import msgspec, argparse"], b""),
    }
    took: dict[str, list[float]] = {name: [] for name in runs}
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(10 if quick else 40):
            for name, (argv, data) in runs.items():
                start = time.perf_counter()
                subprocess.run(argv, input=data, capture_output=True, check=True, env=env)
                took[name].append(time.perf_counter() - start)
    median = {name: statistics.median(times) for name, times in took.items()}
    names = list(runs)
    for ours, theirs, wanted in ((names[0], names[1], "2.5"), (names[2], names[3], "1.6")):
        ratio = median[ours] / median[theirs]
        beside = f"{theirs} ({milliseconds(median[theirs])})"
        yield row(ours, milliseconds(median[ours]), beside, f"{ratio:.2f}", wanted)


def first_text(quick: bool) -> Iterator[str]:
    yield from section(
        "`penstock run`: the first text",
        "From the start of the command until the first text can be read, and until it has ended; medians. The agent is "
        "a stand-in that reads its prompt and prints a recording at once, so all of the difference is Penstock's: its "
        "own start, the guard's, and the way through both. Wanted: the first text at most 150 ms later.",
        ["what", "bare", "`penstock run`", "later by"],
    )
    recording = RECORDINGS / "claude" / "tools" / "input.ndjson"
    with tempfile.TemporaryDirectory() as folder:
        agent = ["sh", "-c", f"cat >/dev/null; cat {recording}"]
        config = Path(folder) / "config.toml"
        config.write_text(f'[agents.stand-in]\ncommand = {json.dumps(agent)}\nadapter = "claude"\n')
        env = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PENSTOCK_CONFIG": str(config)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        run = [sys.executable, "-m", "penstock", "run", "stand-in", "--to", "ndjson"]
        took = [(timed(agent, env, b"text_delta"), timed(run, env, b'"delta"')) for _ in range(10 if quick else 40)]
    for at, what in enumerate(("first text", "end")):
        bare, ours = (statistics.median(pair[which][at] for pair in took[1:]) for which in (0, 1))
        yield row(what, milliseconds(bare), milliseconds(ours), milliseconds(ours - bare))


def timed(argv: list[str], env: dict[str, str], needle: bytes) -> tuple[float, float]:
    """Seconds until a command has printed the needle, and until it has ended."""
    start = time.perf_counter()
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello")
        process.stdin.close()
        seen = b""
        while needle not in seen:
            piece = process.stdout.read(65536)
            if not piece:
                raise SystemExit(f"{argv[0]} never printed {needle!r}")
            seen += piece
        first = time.perf_counter() - start
        while process.stdout.read(65536):
            pass
    return first, time.perf_counter() - start


def lenient(_: bool) -> Iterator[str]:
    yield from section(
        "Lines that the typed decoder does not take",
        "Over all recordings in the repository. Read leniently: no clean JSON (wanted: 0). Read twice: clean JSON that "
        "fits no type of the wire model, such as kinds that are passed over, and what is no JSON at all.",
        ["recordings", "lines", "read leniently", "read twice"],
    )
    files = lines = leniently = twice = 0
    for path in sorted(RECORDINGS.glob("*/*/input.ndjson")):
        agent = agent_of(path)
        if agent is None:
            continue
        data = path.read_bytes()
        decode = msgspec.json.Decoder(registry.make(agent).wire).decode
        for text in data.split(b"\n")[:-1]:
            try:
                decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                twice += 1
        health = penstock(agent, synthetic.chunked(data)).health
        files, lines, leniently = files + 1, lines + health.lines, leniently + health.lenient_lines
    yield row(f"{files}", f"{lines:,}", share(leniently, lines), share(twice, lines))


# --- the report -------------------------------------------------------------------------------------


def agent_of(path: Path) -> str | None:
    """The agent of a recording, as its expectations name it; None where Penstock has no such agent."""
    expected = path.with_name("expected.json")
    name = json.loads(expected.read_bytes()).get("agent") if expected.exists() else path.parts[-3]
    return name if name in registry.AGENTS else None


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.2%})" if whole else "0"


def write(report: str) -> None:
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{report}\n\n{END}{tail}")


SECTIONS = {
    "recordings": recordings,
    "growth": growth,
    "command": command,
    "calls": calls,
    "lines": long_lines,
    "snapshots": snapshots,
    "memory": memory,
    "start": start_up,
    "run": first_text,
    "confined": confined.report,
    "lenient": lenient,
    "chat": chat.report,
    "documents": documents.report,
    "trees": trees.report,
    "scale": scale.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure Penstock beside other readers.")
    parser.add_argument("--quick", action="store_true", help="smaller streams, fewer rounds")
    parser.add_argument("--write", action="store_true", help="put the report into docs/performance.md")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="only this section (may be repeated)")
    parser.add_argument("--json", type=Path, default=FIGURES, metavar="FILE", help="the figures (default %(default)s)")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker[0], int(args.worker[1]), args.worker[2] == "sink")
        return
    if args.write and (args.only or args.quick):
        parser.error("--write is for the whole report")
    report = [f"Python {sys.version.split()[0]}, msgspec {msgspec.__version__}."]
    print(report[0], flush=True)
    for name, measure in SECTIONS.items():
        if not args.only or name in args.only:
            for text in measure(args.quick):
                report.append(text)
                print(text, flush=True)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"made_with": report[0], "tables": tables(report)}, indent=1) + "\n")
    if args.write:
        write("\n".join(report))


if __name__ == "__main__":
    main()
