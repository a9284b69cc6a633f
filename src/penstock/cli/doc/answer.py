"""`penstock doc FILE.md`: asks an agent what is new in a document, shows its work, and publishes the reply there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.cli.console import errors_output, notify_problem, sink_output
from penstock.cli.exit_status import FAILED, OK, PROPOSED
from penstock.cli.live_runs import LiveRuns
from penstock.cli.options import RunOptions, display_flags, flag_values, run_flags
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.cli.run_factory import RunFactory, split_names
from penstock.cli.telemetry import telemetry_sent
from penstock.doc.answers import DocumentAnswer, DocumentPrompt, Steps, Wanted, steps
from penstock.doc.committing import Commits
from penstock.doc.queue import queue_steps
from penstock.errors import PenstockError, UsageError
from penstock.run.sandbox import Surroundings

if TYPE_CHECKING:
    from penstock.config.settings import Config
    from penstock.run.run import Run

EXAMPLES = """\
examples:
  penstock doc init notes.md                begin a document
  penstock doc notes.md                     ask what you wrote; the reply is written into the file
  penstock doc notes.md --allow edits       the agent may change files as well
  penstock doc notes.md --dry-run           show what would be asked

commands:
  init FILE         begin a document, or make one of a Markdown file
  diff FILE         show what is new since the last reply
  patch FILE NAME   replace or extend a component by the text on stdin
  recover FILE      publish a reply that was not published, or was overwritten by an editor
  reset FILE        forget the replies and the conversation: all of the document is new
  status [FILE…]    list documents: what is new, what waits
  watch FILE…       answer whenever you end the text with a line /send
  A file with such a name is written ./status

exit status:
  as in penstock run · 0 also if there is nothing new · 4 published, with a proposal for you to look at
"""


class DocOptions(RunOptions, kw_only=True):
    """Options of `penstock doc FILE.md`."""

    file: str
    agent: str | None = None
    partial: bool = False
    queue: bool = False
    commit: bool = False
    dry_run: bool = False


def command(args: list[str]) -> int:
    """Run `penstock doc FILE.md` and return the exit status."""
    options = _options(args)
    config = configured()
    with telemetry_sent(config):
        return DocCommand(options, config).answer()


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Ask an agent what is new in a document. The reply is written into the file."
    made = Parser("doc", text, examples=EXAMPLES, arguments="FILE.md [options]\n       penstock doc COMMAND …")
    made.add_argument("file", metavar="FILE.md", help="Markdown file; see penstock doc init")
    made.add_argument("--queue", action="store_true", help="do the items of the component queue, one after the other")
    answer_flags(made)
    return made


def answer_flags(made: Parser) -> None:
    """Add the options of the commands that run agents."""
    add = made.add_argument
    add("--agent", metavar="NAME", help="agent to ask (default: the one that the document names, else the first one "
        "that is installed)")  # fmt: skip
    add("--fallback", action="append", default=[], metavar="NAME", help="agent that takes over, in a new "
        "conversation, if the first one is at its limit, not logged in or not installed; may be repeated")  # fmt: skip
    add("--partial", action="store_true", help="publish the reply of an agent that failed as well, marked as cut off")
    add("--commit", action="store_true", help="commit the document with git after each reply, and nothing else")
    add("--dry-run", action="store_true", help="print the prompt, and start no agent")
    add("--json", dest="to", action="store_const", const="json", default="text",
        help="print one JSON object about the answer instead of the agent's work")  # fmt: skip
    add("--fail-on-refusal", dest="fails_if_denied", action="store_true",
        help="exit with 7 if the run ended well but an action was denied")  # fmt: skip
    run_flags(made)
    display_flags(made)


def _options(args: list[str]) -> DocOptions:
    words = vars(parser().parse(args))
    return DocOptions(asked=flag_values(words), stdin="never", **words)


class DocCommand:
    """Command that answers one document and shows the work at the terminal."""

    def __init__(self, options: DocOptions, config: Config, commits: Commits | None = None) -> None:
        """`commits`: those of a command that answers several documents."""
        if options.agent is not None and len(split_names(options.agent)) > 1:
            raise UsageError("a document is answered by one agent", expected="one name after --agent")
        self._options = options
        self._config = config
        self._commits = commits or Commits()
        if options.commit:
            self._commits.look(Path(os.path.realpath(options.file)).parent)
        self._output = sink_output(options.to)
        self._errors = errors_output()
        self._status = OK
        """Exit status of the run."""
        self._notified: set[str] = set()
        self.answered: DocumentAnswer | None = None

    def answer(self) -> int:
        """Ask what is new, or the items of the queue, and publish each reply; return the exit status."""
        work = self._steps()
        try:
            ask = next(work)
            self._notify(ask.notes)
            while not self._options.dry_run:
                ask = work.send(self._run(ask))
            return self._print_prompt(ask)
        except StopIteration:
            return self._status
        finally:
            work.close()

    def _steps(self) -> Steps[None]:
        options, asked = self._options, self._options.asked
        given = {name: asked[name] for name in ("model", "session_id", "route", "cwd")}
        wanted = Wanted(agent=options.agent, partial=options.partial, **given)
        if not options.queue:
            self._report((yield from steps(options.file, wanted)))
        elif not (yield from queue_steps(options.file, wanted, self._report)):
            notify_problem(f"{options.file}: there is nothing to do in the queue")

    def _run(self, ask: DocumentPrompt) -> Run:
        if ask.is_repeated:
            notify_problem("the conversation cannot be resumed; a new one begins")
            self._status = OK
        given = self._options.asked
        record = given["record"] or ask.record
        asked = {**given, "model": ask.model, "session_id": ask.session_id, "record": record}
        asked["surroundings"] = Surroundings(auto="own")
        options = msgspec.structs.replace(self._options, agents=ask.agent, prompt=ask.prompt, asked=asked)
        factory = RunFactory(options, self._config, notify_problem, is_whole=True)
        runs = LiveRuns(factory, options, self._config, self._output, self._errors, "doc", ask.document)
        status = runs.show()
        self._status = status if status != OK else self._status
        return runs.last

    def _print_prompt(self, ask: DocumentPrompt) -> int:
        self._output.write(ask.prompt if self._options.to == "text" else msgspec.json.encode(ask) + b"\n")
        return OK

    def _report(self, answer: DocumentAnswer) -> None:
        self.answered = answer
        if self._options.to == "json":
            self._output.write(msgspec.json.encode(answer) + b"\n")
        self._notify(lines_of(answer))
        if self._status == OK and answer.proposals:
            self._status = PROPOSED
        if answer.published and self._options.commit:
            self._commit(answer)

    def _notify(self, lines: Iterable[str]) -> None:
        """Write those of these lines that were not written before."""
        for line in lines:
            if line not in self._notified:
                self._notified.add(line)
                notify_problem(line)

    def _commit(self, answer: DocumentAnswer) -> None:
        """Commit the document. If the commit fails, the reply stays in the document."""
        try:
            self._commits.commit(Path(answer.path), answer.agent)
        except PenstockError as error:
            notify_problem(f"{os.path.relpath(answer.path)} was not committed: {error}")
            self._status = self._status or FAILED


def nothing_new(*, is_begun: bool) -> str:
    """Return the message that a document has nothing to ask. `is_begun`: whether something was ever asked."""
    return "nothing new since the last reply" if is_begun else "there is no question in it yet"


def lines_of(answer: DocumentAnswer) -> list[str]:
    """Return the messages about an answer that are not part of the agent's work."""
    path = os.path.relpath(answer.path)
    lines = list(answer.notes)
    if answer.result is None:
        return [*lines, f"{path}: {nothing_new(is_begun=answer.is_begun)}"]
    if not answer.published:
        return [*lines, f"{path}: nothing was published; your text is asked again the next time"]
    for name in answer.proposals:
        lines.append(f"{path}: you have changed {name} meanwhile; the agent's text for it stands below yours")
    where = f", line {answer.line}" if answer.line is not None else ""
    return [*lines, f"{path}{where}: answered"]
