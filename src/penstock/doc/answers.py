"""Answers in documents: what is new in one is asked, and the reply is published in it.

The work is a generator that yields what to ask and gets the run that has ended: its caller decides how a run is shown
and waited for. `answer` and `answer_async` do it for programs, `penstock doc` at the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Any, TypeVar, Unpack

import msgspec

from penstock.adapter import PROMPT_RULES
from penstock.config import settings
from penstock.config.rules import NAME, SWITCH, check, optional
from penstock.doc.chosen_agent import chosen_agent
from penstock.doc.opened import SESSION, OpenDocument, opened
from penstock.doc.submission import Submission, submission
from penstock.errors import AgentFailed
from penstock.events import Event
from penstock.run.agent import agent
from penstock.run.history import now_ms
from penstock.run.result import Result
from penstock.run.resuming import can_resume, resume_warning
from penstock.run.run import OnQuestion, Run
from penstock.run.sandbox import Surroundings
from penstock.run.spec import OPTION_RULES, Options

OnEvent = Callable[[Event], None]
"""Function that is called with each event of a run."""

T = TypeVar("T")

CUT_OFF = "*This reply is cut off: {outcome}.*"
"""Last paragraph of a reply that is published although its run did not end well."""


NOT_RESUMED = (None, "agent", "context", "missing")
"""Causes of a failure that a new conversation may not have; the others are those of the account or of the provider."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the caller for one document. None: the value of the document, or the default."""

    agent: str | None = None
    model: str | None = None
    session_id: str | None = None
    route: str | None = None
    cwd: str | None = None
    partial: bool = False
    """Publish the reply of a run that did not end well too."""


class DocumentPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt that a document makes, and the agent and the conversation that get it."""

    document: str
    agent: str
    model: str | None
    session_id: str | None
    record: str
    """Directory of the recording."""
    prompt: str
    changes: str
    """Changes of the document since the last reply, as a diff."""
    notes: tuple[str, ...] = ()
    """Messages for the user about an earlier reply."""
    is_repeated: bool = False
    """The same was asked before in a conversation that could not be resumed."""


class DocumentAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to a document: the question, what was published, and where."""

    path: str
    """File of the document; symbolic links are resolved."""
    agent: str = ""
    """Agent that answered; with `--fallback` the one that took over."""
    asked: str = ""
    """New text of the document, as a diff; all of it at the first time. Empty if there was nothing to ask."""
    published: bool = False
    reply: str = ""
    """Reply of the agent, as it wrote it."""
    line: int | None = None
    """Line of the document, from 1, at which the reply begins."""
    proposals: tuple[str, ...] = ()
    """Components that the user changed meanwhile, so that the new text of the agent stands below theirs."""
    notes: tuple[str, ...] = ()
    """Messages for the user."""
    text_hash: str = ""
    """SHA-256 of the document after the publish."""
    result: Result | None = None
    """Result of the run; None if there was nothing to ask."""
    is_begun: bool = True
    """False if there was nothing to ask, and nothing was ever asked."""


Steps = Generator[DocumentPrompt, Run, T]


def steps(path: str | os.PathLike[str], wanted: Wanted) -> Steps[DocumentAnswer]:
    """Ask what is new in a document: yield it, get the run that has ended, and return what was published."""
    with opened(path) as document:
        found = submission(document.document, document.snapshot, file=os.fspath(document.path))
        if not found.is_new or document.lacks_only_the_reply():
            return DocumentAnswer(path=str(document.path), is_begun=document.snapshot is not None, notes=document.notes)
        ask, run = yield from ask_document(document, wanted, found)
        return publish_reply(document, ask, run, wanted, {"at_boundary": found.at_boundary})


def ask_document(document: OpenDocument, wanted: Wanted, found: Submission) -> Steps[tuple[DocumentPrompt, Run]]:
    """Yield what is asked, get its run, and return both; ask in a new conversation if the old one cannot be resumed.

    Agents delete old conversations. The prompt has the whole document, so a new one can answer as well.
    """
    document.check_settings()
    ask = make_ask(document, wanted, found.prompt, found.changes, found.resume)
    document.state.add_asked(now_ms(), found.changes)
    run = yield ask
    if ask.session_id is not None and wanted.session_id is None and _has_not_begun(run.result):
        ask = msgspec.structs.replace(ask, session_id=None, is_repeated=True)
        document.state.add_asked(now_ms(), found.changes)
        run = yield ask
    return ask, run


def _has_not_begun(result: Result) -> bool:
    """Return whether a run failed before the model said anything, for a reason that a new conversation may not have."""
    return result.outcome == "error" and not result.rounds and not result.reply and result.cause in NOT_RESUMED


def make_ask(document: OpenDocument, wanted: Wanted, prompt: str, changes: str, resume: str | None) -> DocumentPrompt:
    """Return what is asked: the conversation of the document is resumed only by the agent and in the directory of it.

    Raises:
        UsageError: the document names an agent that cannot be used.
    """
    config = settings.load()
    front = document.document.front
    last = document.state.published()
    known = last.options.get("conversation") if last is not None else None
    named = front.get("agent")
    name = chosen_agent(wanted.agent or (known["agent"] if known and named is None else None), named, config)
    here = {"agent": name, "cwd": os.path.realpath(wanted.cwd or os.getcwd()), "session_id": resume}
    is_known = resume is not None and known == here and can_resume(name, wanted.route, config)
    return DocumentPrompt(
        document=os.fspath(document.path),
        agent=name,
        model=wanted.model or front.get("model"),
        session_id=wanted.session_id or (resume if is_known else None),
        record=os.fspath(document.state.recordings),
        prompt=prompt,
        changes=changes,
        notes=document.notes,
    )


def publish_reply(
    document: OpenDocument, ask: DocumentPrompt, run: Run, wanted: Wanted, options: dict[str, Any]
) -> DocumentAnswer:
    """Publish the reply of a run that has ended; nothing, if it did not end well and `wanted` does not ask for parts.

    Raises:
        PublishError: the document cannot be written. The reply is kept.
    """
    result, text, name = run.result, run.result.reply, run.spec.agent
    known = DocumentAnswer(
        path=ask.document, agent=name, asked=ask.changes, reply=text, notes=document.notes, result=result
    )
    if result.outcome != "ok":
        if not wanted.partial or not text.strip():
            return known
        text = text.rstrip() + "\n\n" + CUT_OFF.format(outcome=result.outcome.replace("_", " "))
    fields = {SESSION: document.state.session}
    if document.document.front.get("agent") is None:
        fields["agent"] = name
    if result.session_id is not None:
        fields["resume"] = result.session_id
        cwd = os.path.realpath(run.spec.cwd or os.getcwd())
        options["conversation"] = {"agent": name, "cwd": cwd, "session_id": result.session_id}
    warning = "" if ask.session_id is not None else resume_warning(name, run.route)
    done = document.publish(text, {**options, "fields": fields})
    return msgspec.structs.replace(
        known,
        published=True,
        reply=text,
        line=done.line,
        proposals=done.proposals,
        notes=(*document.notes, *done.notes, *([warning] if warning else [])),
        text_hash=done.text_hash,
    )


class AnswerOptions(Options, total=False):
    """Keywords of `answer`: the options of a run, and these."""

    agent: str | None
    model: str | None
    session_id: str | None
    partial: bool
    on_question: OnQuestion | None
    on_event: OnEvent | None


def answer(path: str | os.PathLike[str], **asked: Unpack[AnswerOptions]) -> DocumentAnswer:
    """Ask what is new in a document and publish the reply in it. It blocks. If nothing is new, nothing is asked.

    `path` is the document. `agent`, `model` and `session_id` override what the document names. `partial` publishes
    the reply of an agent that failed as well. `on_event` is called with each event of the run, `on_question` as in
    `Agent.run`.

    Raises:
        UsageError: the document or an option cannot be used, or another process works on the document.
        AgentNotFound: the agent's program is not installed.
        AgentFailed: the run did not end well, and nothing was published.
        PublishError: the document cannot be written. The reply is kept; the next call publishes it.
    """
    request = _Request(asked)
    work = steps(path, request.wanted)
    try:
        found = _next(work)
        while isinstance(found, DocumentPrompt):
            with request.run(found) as run:
                for event in run:
                    request.on_event(event)
            found = _next(work, run)
        return _checked(found)
    finally:
        work.close()


async def answer_async(path: str | os.PathLike[str], **asked: Unpack[AnswerOptions]) -> DocumentAnswer:
    """Do the same as `answer` in an event loop, with the same `path` and keywords (`asked`).

    Cancelling the task stops the agent, but no publish that has begun.

    Raises:
        UsageError: the document or an option cannot be used, or another process works on the document.
        AgentNotFound: the agent's program is not installed.
        AgentFailed: the run did not end well, and nothing was published.
        PublishError: the document cannot be written. The reply is kept; the next call publishes it.
    """
    request = _Request(asked)
    work = steps(path, request.wanted)
    try:
        found = await _in_thread(_next, work)
        while isinstance(found, DocumentPrompt):
            async with request.run(found) as run:
                async for event in run:
                    request.on_event(event)
            found = await _in_thread(_next, work, run)
        return _checked(found)
    finally:
        work.close()


class _Request:
    """Options of a program, divided into those of the document and those of its run."""

    def __init__(self, asked: AnswerOptions) -> None:
        options: dict[str, Any] = dict(asked)
        names = ("agent", "model", "session_id", "partial")
        given = {name: options.pop(name) for name in names if name in options}
        check(given, {"agent": optional(NAME), "partial": SWITCH, **PROMPT_RULES})
        cwd = options.get("cwd")
        self.wanted = Wanted(**given, route=options.get("route"), cwd=None if cwd is None else os.fspath(cwd))
        self.on_event: OnEvent = options.pop("on_event", None) or (lambda event: None)
        self._on_question: OnQuestion | None = options.pop("on_question", None)
        check(options, OPTION_RULES)
        self._options = options

    def run(self, ask: DocumentPrompt) -> Run:
        options = {"record": ask.record, "surroundings": Surroundings(auto="own"), **self._options}
        return agent(ask.agent).run(
            ask.prompt, session_id=ask.session_id, model=ask.model, on_question=self._on_question, **options
        )


def _next(work: Steps[DocumentAnswer], run: Run | None = None) -> Any:
    """Return what is asked next, or the answer. A thread cannot raise `StopIteration` to a coroutine."""
    try:
        return next(work) if run is None else work.send(run)
    except StopIteration as end:
        return end.value


async def _in_thread(function: Callable[..., T], *args: object) -> T:
    """Call a function in a thread. If the task is cancelled meanwhile, the cancellation follows the end of the call."""
    import asyncio

    task = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _checked(found: DocumentAnswer) -> DocumentAnswer:
    """Return an answer that was published, or that nothing was asked for.

    Raises:
        AgentFailed: the run did not end well, and nothing was published.
    """
    result = found.result
    if found.published or result is None:
        return found
    facts = {name: getattr(result, name) for name in ("cause", "resets_at", "exit_status", "session_id", "reply")}
    raise AgentFailed(found.agent, result.outcome, result.reason, **facts)
