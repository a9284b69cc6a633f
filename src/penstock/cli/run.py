"""`penstock run`: runs agents side by side, and shows their work until they end or a signal stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.console import errors_output, notify_problem, sink_output
from penstock.cli.conversation import begins_by_itself, check_interactive, converse
from penstock.cli.live_runs import LiveRuns
from penstock.cli.options import RunOptions, display_flags, flag_values, run_flags, string
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.cli.run_factory import RunFactory
from penstock.cli.telemetry import telemetry_sent
from penstock.config.rules import VARIABLE
from penstock.errors import UsageError
from penstock.run.takeover import CAUSE_WORDS, CAUSES

if TYPE_CHECKING:
    from penstock.cli.editor.typed_ahead import TypedAhead
    from penstock.config.settings import Config

RUN_EXAMPLES = """\
examples:
  penstock run claude "fix the failing test" --model sonnet
  penstock run claude                                       a conversation: it asks for one prompt after the other
  penstock run claude --continue "now write the docs"       go on with the newest conversation here
  penstock run codex - < PROMPT.md --session 019a… --fork --record runs/
  answer=$(penstock run codex "summarise README.md" --to reply)
  git diff | penstock run claude,codex "review this"        side by side, both with what is piped in
  penstock run ccs/glm "…"                                  a profile of ccs
  penstock run claude,codex --worktree "fix the test"       each in its own clone; results are branches
  penstock run acp:"PROGRAM --acp" "…"                      any program that speaks ACP
  penstock run review "only the parser"                     a profile: [run.review] in the configuration
  penstock run claude --prompt-file review.md -e base=main  a prompt with variables: {{base}}
  penstock run claude -- "- a prompt that begins with a dash"

exit status:
  0 the run ended well · 1 the agent reported an error, or said nothing · 2 wrong usage · 3 cut off
  5 a limit of --max-… · 124 a time limit · 126 cannot be executed · 127 not installed · 130 interrupted
  of several, the highest
"""


def command(args: list[str]) -> int:
    """Run `penstock run` and return the exit status."""
    options = _options(args)
    if options.quiet_ok:
        from penstock.cli.quiet_ok import quiet_if_ok

        return quiet_if_ok(lambda: _start(options))
    return _start(options)


def _start(options: RunOptions) -> int:
    config = configured()
    if options.prompt_file is not None or options.variables or config.has_profiles:
        from penstock.cli.profiles import with_profile

        options = with_profile(options, config)
    if not options.interactive and begins_by_itself(options):
        options.interactive = True
    _check(options)
    with telemetry_sent(config, asked=options.otel):
        return _run(options, config)


def _run(options: RunOptions, config: Config) -> int:
    output = sink_output(options.to)
    errors = errors_output()
    said_before: set[str] | None = set() if options.interactive else None

    def run(options: RunOptions, *, title: str | None = None, typed_ahead: TypedAhead | None = None) -> LiveRuns:
        factory = RunFactory(options, config, notify_problem)
        return LiveRuns(
            factory, options, config, output, errors, title=title, typed_ahead=typed_ahead, said_before=said_before
        )

    return converse(options, config, run) if options.interactive else run(options).show()


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Start an agent, or several side by side, give it a prompt, and show what it does."
    made = Parser("run", text, examples=RUN_EXAMPLES, arguments="AGENT[,AGENT…] [PROMPT] [options]")
    add = made.add_argument
    add("agents", metavar="AGENT", help="see penstock agents; also AGENT/PROFILE and acp:COMMAND; or the name of a "
        "profile: [run.NAME] in the configuration")  # fmt: skip
    add("prompt", nargs="?", metavar="PROMPT", help="prompt, in quotes; without it, or with -, it is read from stdin; "
        "in a terminal a conversation begins")  # fmt: skip
    add("--prompt-file", metavar="FILE", help="file with a prompt, which may have variables: {{NAME}}; PROMPT takes "
        "the place of {{prompt}}, or follows it")  # fmt: skip
    add("-e", "--var", dest="variables", type=string(VARIABLE), action="append", default=[], metavar="NAME=VALUE",
        help="value of a variable in the prompt file or in the prompt of a profile; may be repeated")  # fmt: skip
    add("--stdin", choices=("auto", "never"), default="auto", help="auto: add piped input to the prompt (default) "
        "· never: do not read stdin, as in a loop over lines")  # fmt: skip
    add("--fallback", action="append", default=[], metavar="AGENT", help="agent that takes over if the first one is at "
        "its usage limit, not logged in or not installed, and has not begun to work; may be repeated")  # fmt: skip
    add("--fallback-on", type=string(CAUSE_WORDS), metavar="CAUSES", help="causes after which an agent of --fallback "
        f"takes over, with commas: {', '.join(CAUSES)}; by default those that another agent may not have")  # fmt: skip
    add(
        "--fail-on-refusal",
        dest="fails_if_denied",
        action="store_true",
        help="exit with 7 if the run ended well but an action was denied",
    )
    text = "write nothing if the run ends well, and everything if not, as for cron; questions are rejected"
    add("--quiet-ok", action="store_true", help=text)
    text = "write the results as a JUnit report: a test for each agent, which fails if its run did not end well"
    add("--junit", metavar="FILE", help=text)
    add("--otel", action="store_true", help="send spans and metrics of the runs to a collector of OpenTelemetry; also "
        "without it if the environment names a collector; needs the extra otel")  # fmt: skip
    add("--continue", "-c", dest="resumes_newest", action="store_true",
        help="resume the newest conversation of the agent in this directory; see penstock sessions")  # fmt: skip
    add(
        "--interactive", "-i", action="store_true", help="ask for the next prompt when the run has ended; in a terminal"
    )
    add("--worktree", action="store_true", help="each agent works in a directory of its own beside the repository, a "
        "clone of the last commit (not a linked worktree); its result is a branch; see penstock trees")  # fmt: skip
    run_flags(made)
    display_flags(made)
    return made


def _options(args: list[str]) -> RunOptions:
    made = parser()
    words = vars(made.parse(args))
    asked = flag_values(words)
    if words["resumes_newest"] and asked["session_id"] is not None:
        made.error("--continue and --session both name a conversation; leave one of them out")
    if asked["fork"] and asked["session_id"] is None and not words["resumes_newest"]:
        made.error("there is nothing to fork: --fork needs --continue or --session ID, the conversation to branch")
    words["variables"] = {name: value for name, _, value in (text.partition("=") for text in words["variables"])}
    if words["fallback_on"] is not None:
        words["fallback_on"] = [name.strip() for name in words["fallback_on"].split(",")]
    return RunOptions(**words, asked=asked)


def _check_quiet(options: RunOptions) -> None:
    if options.interactive:
        raise UsageError("--quiet-ok shows what has failed, and --interactive is a conversation", help="leave one out")
    if options.to != "text":
        what = f"--quiet-ok writes nothing if all ends well, and --to {options.to} is for a reader of the output"
        raise UsageError(what, help="leave one of them out")


def _check(options: RunOptions) -> None:
    if options.junit is not None:
        from penstock.cli.junit import check_place

        check_place(options.junit)
        if options.interactive:
            raise UsageError("--junit reports one prompt, and --interactive asks for several", help="leave one out")
    if options.quiet_ok:
        _check_quiet(options)
    if options.worktree:
        from penstock.cli.worktree import check_worktree

        check_worktree(options)
    if options.interactive:
        check_interactive(options)
