"""The command line. What a program reads goes to stdout, what only people read goes to stderr.

Thin: it turns words into calls. Nothing slow is imported before it is needed, and `--version` imports nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` itself takes longer to import than `--version` takes to answer
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.cli.arguments import Parser
    from penstock.cli.read import Options, Reading, RunOptions
    from penstock.cli.sources import Chunk
    from penstock.config.settings import Config

OK, USAGE, NOT_EXECUTABLE, NOT_INSTALLED, INTERRUPTED, CLOSED_PIPE = 0, 2, 126, 127, 130, 141
"""Exit statuses; `docs/exit-status.md` says when. 126 and 127 are what a shell says of a program that it cannot start,
the last two what it shows for SIGINT and SIGPIPE."""

RUN_EXAMPLES = """\
examples:
  penstock run claude "fix the failing test" --model sonnet
  penstock run codex - < PROMPT.md --session 019a… --fork --record runs/
  answer=$(penstock run codex "summarise README.md" --to reply)
  git diff | penstock run claude,codex "review this"        side by side, both with what is piped in
  penstock run ccs/glm "…"                                  a profile of ccs
  penstock run acp:"PROGRAM --acp" "…"                      any program that speaks ACP
  penstock run claude -- "- a prompt that begins with a dash"

exit status:
  0 the run ended well · 1 the agent reported an error, or said nothing · 2 wrong usage · 3 cut off
  124 a time limit · 126 cannot be executed · 127 not installed · 130 interrupted · of several, the highest
"""

READ_EXAMPLES = """\
examples:
  penstock read run.ndjson                       show a run that was saved
  penstock read *.ndjson --to ndjson             the events of many runs, numbered by `run`
  penstock read a.ndjson b.ndjson --follow       two agents that are at work now, each line with its label
  ccs glm -p "…" --output-format stream-json --verbose | penstock --agent ccs --label ccs/glm

exit status:
  0 the run ended well · 1 the agent reported an error, or said nothing · 2 wrong usage
  3 the stream was cut off · 130 interrupted · of several inputs, the highest
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    args = sys.argv[1:] if argv is None else argv
    if args and args[0] in ("--version", "-V"):
        from penstock._version import __version__

        return _guarded(lambda: _say(f"penstock {__version__}\n"))
    return _guarded(lambda: _command(args))


def _help() -> str:
    from penstock.cli.help import text

    return text()


def _command(args: list[str]) -> int:
    first = args[0] if args else ""
    if first in ("help", "--help", "-h"):
        return _say(_help())
    if not args and os.isatty(0):
        return _say(_help())
    if first in _COMMANDS:
        return _COMMANDS[first](args[1:])
    if first and not first.startswith("-") and not os.path.exists(first):
        from penstock.errors import UsageError, nearest

        guess = nearest(first, _COMMANDS)
        raise UsageError(
            f"{first!r} is neither a command nor a file",
            expected="a command: " + ", ".join(_COMMANDS),
            way_out=f"did you mean {guess!r}?" if guess else "see penstock --help",
        )
    return _read(args)


def _guarded(work: Callable[[], int]) -> int:
    """Every way out of the program: no traceback but for a bug, nothing left to fail at the interpreter's end."""
    try:
        try:
            return work()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # argparse's help; everything else is written at once
    except BrokenPipeError:
        # As cat and grep end when nobody reads any more: without a word.
        _discard_stdout()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        from penstock.errors import AgentNotFound, PenstockError

        if not isinstance(error, PenstockError):
            raise
        _tell(f"penstock: {_one_line(str(error))}\n")
        if isinstance(error, AgentNotFound):
            return NOT_EXECUTABLE if error.executable is False else NOT_INSTALLED
        return USAGE


def _say(text: str) -> int:
    from penstock.cli.console import Output

    Output(1, _encoding()).write(text)
    return OK


def _tell(text: str) -> None:
    try:
        os.write(2, text.encode(errors="replace"))
    except OSError:
        pass  # nobody can be told


def _one_line(text: str) -> str:
    """A text of one line that moves no cursor: names of files and words of the user may have any character."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _discard_stdout() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _run_agents(args: list[str]) -> int:
    from penstock.cli.console import Output
    from penstock.cli.run import Shell, make_runs

    options = _run_options(args)
    config = _config()
    runs = make_runs(options, config, lambda text: _tell(f"penstock: {text}\n"))
    output = Output(1, _encoding() if options.to == "text" else "utf-8")
    return Shell(runs, options, config, output, Output(2, _encoding())).show()


def _run_options(args: list[str]) -> RunOptions:
    from penstock.adapter import MODEL, SESSION_ID
    from penstock.cli.arguments import Parser, display_flags, number, string
    from penstock.cli.read import RunOptions
    from penstock.config.rules import DIRECTORY, PATH, SECONDS, VARIABLE

    text = "Start an agent, or several side by side, give it a prompt, and show what it does."
    parser = Parser("run", text, examples=RUN_EXAMPLES, arguments="AGENT[,AGENT…] [PROMPT] [options]")
    add = parser.add_argument
    add("agents", metavar="AGENT", help="see penstock agents; also ccs/PROFILE and acp:COMMAND")
    add("prompt", nargs="?", metavar="PROMPT", help="what to ask, quoted; - or none: what stdin holds")
    add("--stdin", choices=("auto", "never"), default="auto", help="auto: what is piped in goes with the prompt "
        "(default) · never: it is left alone, as in a loop over lines")  # fmt: skip
    add("--model", type=string(MODEL), metavar="M", help="the model, by the agent's own name for it")
    add("--session", type=string(SESSION_ID), metavar="ID", help="go on with this conversation")
    add("--fork", action="store_true", help="branch that conversation; it stays as it is")
    text = "what the agent may do unasked: its own default · edits: change files · all: everything"
    add("--allow", default="default", choices=("default", "edits", "all"), help=text)
    add("--route", choices=("exec", "server", "acp"), help="how it is spoken with; by default its best way")
    add("--cwd", type=string(DIRECTORY), metavar="DIR", help="where the agent works")
    add("--timeout", type=number(SECONDS), metavar="S", help="seconds for the whole run")
    add("--idle-timeout", type=number(SECONDS), metavar="S", help="seconds without any output")
    add("--record", type=string(PATH), metavar="DIR", help="keep the raw bytes of the run in a folder there")
    text = "one more argument for the agent: --arg=--flag"
    add("--arg", dest="args", action="append", default=[], metavar="ARG", help=text)
    text = "set a variable for the agent"
    add("--env", type=string(VARIABLE), action="append", default=[], metavar="NAME=VALUE", help=text)
    add("--trust", action="store_true", help="start what the penstock.toml of this directory names")
    display_flags(parser)
    options = RunOptions(**vars(parser.parse(args)))
    if options.fork and options.session is None:
        parser.error("there is nothing to fork: --fork needs --session ID, the conversation that is branched")
    return options


def _read(args: list[str]) -> int:
    options = _read_options(args)
    from penstock.cli import sources as inputs

    config = _config()
    readings = _readings(options, config, inputs.labels(options.files))
    sources = inputs.open_sources(options.files, follow=options.follow)

    def replied(number: int) -> None:
        sources[number].replied = True

    return _run(options, readings, inputs.chunks(sources), replied)


def _read_options(args: list[str]) -> Options:
    if not args and not os.isatty(0):  # the usual way, `… | penstock`: no words to read
        from penstock.cli.read import Options

        return Options(files=["-"])
    from penstock.cli.arguments import Parser, agent_flag, display_flags

    text = "Read what agents print, from files or from stdin (-), and show it."
    parser = Parser("read", text, examples=READ_EXAMPLES, arguments="[FILE …] [options]")
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file with what an agent printed; - is stdin")
    agent_flag(parser)
    display_flags(parser)
    parser.add_argument("--follow", action="store_true", help="go on as the files grow, until their runs have replied")
    options = _parsed(parser, args)
    if not options.files and os.isatty(0):
        parser.error("there is nothing to read: pipe an agent in, or name a file (- for what you type)")
    options.files = options.files or ["-"]
    if len(options.files) > 1:
        if options.label:
            parser.error("--label names one input; several are called after their files")
        if options.to == "chunks":
            parser.error("--to chunks reads one input, as chunks do not say whose they are; --to ndjson does")
    return options


def _replay(args: list[str]) -> int:
    from pathlib import Path

    from penstock.cli.arguments import Parser, agent_flag, display_flags, speed_flag

    text = "Replay the record of a run, or a file with what an agent printed, at its pace where that is known."
    parser = Parser("replay", text, arguments="FILE [options]")
    parser.add_argument("files", nargs=1, metavar="FILE", help="a record's folder, a folder with one record, or a file")
    speed_flag(parser)
    agent_flag(parser)
    display_flags(parser)
    options = _parsed(parser, args)
    return _replay_file(options, Path(options.files[0]))


def _demo(args: list[str]) -> int:
    from pathlib import Path

    from penstock.cli.arguments import Parser, agent_flag, display_flags, speed_flag

    text = "Replay a real recording of an agent at its real pace."
    parser = Parser("demo", text)
    speed_flag(parser)
    agent_flag(parser)
    display_flags(parser)
    options = _parsed(parser, args)
    _tell(DEMO_INTRO)
    status = _replay_file(options, Path(__file__).parent / "demo" / "claude.ndjson")
    _tell(DEMO_OUTRO)
    return status


def _replay_file(options: Options, path: Path) -> int:
    from penstock.run.replay import find, replay

    found = find(path)
    if options.agent == "auto":
        options.agent, options.label = found.agent or "auto", options.label or found.label
    cut = ""

    def feed() -> Iterator[Chunk]:
        nonlocal cut
        at, lines = None, 0
        for data, at in replay(found.input, options.speed, whole=found.cut is not None):
            lines += 1
            yield 0, data, at
        if found.cut is not None:
            cut = f"penstock: the record was cut after {lines:,} line{'s' * (lines != 1)}: {found.cut}\n"
        yield 0, None, at

    readings = _readings(options, _config(), [None])
    readings[0].exit = found.exit
    status = _run(options, readings, feed(), lambda number: None)
    if cut:
        _tell(cut)  # after what it explains
    return status


def _parsed(parser: Parser, args: list[str]) -> Options:
    from penstock.cli.read import Options

    return Options(**vars(parser.parse(args)))


def _config() -> Config:
    from penstock.config import settings as config

    found = config.load()
    for problem in found.problems:
        _tell(f"penstock: warning: {problem}\n")
    return found


def _readings(options: Options, config: Config, labels: Sequence[str | None]) -> list[Reading]:
    from penstock.cli.read import make_readings

    return make_readings(options, config, labels)


def _run(options: Options, readings: list[Reading], feed: Iterator[Chunk], replied: Callable[[int], None]) -> int:
    from penstock.cli import read
    from penstock.cli.console import Output

    # Programs get UTF-8, as JSON asks; a person's terminal gets what it can show.
    output = Output(1, _encoding() if options.to == "text" else "utf-8")
    interrupted = read.run(readings, feed, output, replied)
    read.report(readings, options, output, Output(2, _encoding()))
    return read.status_of(readings, interrupted=interrupted)


def _agents(args: list[str]) -> int:
    from penstock.cli import agents
    from penstock.cli.arguments import Parser

    text = "Show the agents that are known, which are installed, what each can do."
    parser = Parser("agents", text, examples=agents.LEGEND)
    parser.add_argument("--json", action="store_true", help="as one JSON object a line")
    parser.add_argument("--check", action="store_true", help="ask each installed one for its version")
    options = parser.parse(args)
    rows = agents.rows(_config(), check=options.check)
    return _say(agents.as_json(rows) if options.json else agents.as_text(rows))


def _show_config(args: list[str]) -> int:
    from penstock.cli.arguments import Parser

    parser = Parser("config", "Show where the configuration is read from, and every setting in force.")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    as_json = parser.parse(args).json
    from penstock.cli import agents
    from penstock.config import settings as config

    return _say(agents.config_as_json(config.load()) if as_json else agents.config_as_text(config.load()))


def _serve(args: list[str]) -> int:
    from penstock.cli import serve

    return serve.serve(args, _config)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": _run_agents,
    "read": _read,
    "demo": _demo,
    "replay": _replay,
    "serve": _serve,
    "agents": _agents,
    "config": _show_config,
}

DEMO_INTRO = """\
A recording of a real agent, at its real pace:
  claude -p "…" --output-format stream-json --verbose --include-partial-messages | penstock

"""
DEMO_OUTRO = """
The same with an agent of yours: penstock run claude "…". See penstock --help, and penstock agents.
"""
