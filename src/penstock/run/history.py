"""History of runs: which agent ran where, with which conversation, and how it ended.

One file of NDJSON in the data directory, readable by its owner only. A run appends a line when it starts, when its
conversation is known, and when it ends; lines with the same `run` describe one run, and later fields replace earlier
ones. `docs/sessions.md` describes the format.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from penstock.events import Event, Outcome, RunEnded, RunStarted, Usage
from penstock.run.resuming import is_confirmed

if TYPE_CHECKING:
    from penstock.run.run import Run

FILE_NAME = "history.ndjson"

MAX_TITLE_CHARS = 200
"""Characters of a prompt that are kept: enough to recognise the conversation."""

MAX_READ_BYTES = 16 * 1024 * 1024
"""Bytes at the end of the file that are read: some 40,000 runs."""

LOCK_SECONDS = 2.0
"""Seconds to wait for the lock. After that the line is appended without it: a run never waits for its history."""

Kind = Literal["run", "doc", "loop", "chat"]


class RunRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One run. A field that is None is not known, or not yet.

    A run without an outcome is still running, or was killed together with Penstock.
    """

    run: str
    """Unique id of the run."""
    at: int
    """Time of the start, in milliseconds since 1970."""
    kind: Kind = "run"
    agent: str = ""
    """Name by which the agent was asked: `claude`, `ccs/glm`."""
    route: str | None = None
    cwd: str = ""
    title: str = ""
    """Beginning of the prompt."""
    model: str | None = None
    session_id: str | None = None
    outcome: Outcome | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    recording: str | None = None
    """Folder of the recording."""
    group: str | None = None
    """Id of the first run that the same command started; None for that run itself."""


class HistoryLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the file: fields of a `RunRecord`, of which only `run` and `at` are always there."""

    run: str
    at: int
    kind: Kind | None = None
    agent: str | None = None
    route: str | None = None
    cwd: str | None = None
    title: str | None = None
    model: str | None = None
    session_id: str | None = None
    outcome: Outcome | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    recording: str | None = None
    group: str | None = None


_decode = msgspec.json.Decoder(HistoryLine).decode


class History:
    """History of one data directory.

    Args:
        data: the data directory. It is created with the first line.
    """

    def __init__(self, data: Path) -> None:
        self.path: Path = data / FILE_NAME

    def append(self, line: HistoryLine) -> None:
        """Append one line.

        Raises:
            OSError: the file cannot be written.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(fd)
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # a writer was killed, or the disk was full
            data = (b"\n" if torn else b"") + _encode(line) + b"\n"
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)  # which also unlocks it

    def runs(self) -> list[RunRecord]:
        """Return the runs, the oldest first. Lines that cannot be read are skipped.

        The agent is "" if the first line of a run is missing: it was cleared, or lies before the part that is read.

        Raises:
            OSError: the file exists and cannot be read.
        """
        found: dict[str, RunRecord] = {}
        for line in self._lines():
            given = {name: value for name, value in msgspec.structs.asdict(line).items() if value is not None}
            record = found.get(line.run)
            if record is None:
                found[line.run] = RunRecord(**given)
            else:
                del given["at"]
                for name, value in given.items():
                    setattr(record, name, value)
        return list(found.values())

    def clear(self) -> None:
        """Forget all runs. A run that is at work writes its next lines into the empty file.

        Raises:
            OSError: the file exists and cannot be written.
        """
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            _lock(fd)
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)

    def _lines(self) -> Iterator[HistoryLine]:
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - MAX_READ_BYTES))
                data = file.read(MAX_READ_BYTES)
        except FileNotFoundError:
            return
        for line in data.split(b"\n"):
            try:
                yield _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue

    def newest(self, agent: str, cwd: str) -> RunRecord | None:
        """Return the newest `penstock run` of this agent in this directory whose conversation is known.

        Conversations of chats, documents and loops are theirs: they continue by themselves, possibly at the same time.

        Raises:
            OSError: the file exists and cannot be read.
        """
        return next((run for run in self._newest_first(agent, cwd) if run.session_id), None)

    def route(self, agent: str, session_id: str) -> str | None:
        """Return the route of the newest run of a conversation; None if it is unknown.

        Raises:
            OSError: the file exists and cannot be read.
        """
        known = (run for run in reversed(self.runs()) if run.agent == agent and run.session_id == session_id)
        return next((run.route for run in known if run.route is not None), None)

    def is_newest(self, record: RunRecord) -> bool:
        """Return whether no `penstock run` of the same agent in the same directory began after this one.

        Raises:
            OSError: the file exists and cannot be read.
        """
        newest = next(self._newest_first(record.agent, record.cwd), None)
        return newest is not None and newest.run == record.run

    def is_newest_session(self, agent: str, cwd: str, session_id: str) -> bool:
        """Return whether the newest `penstock run` of this agent in this directory belongs to this conversation."""
        try:
            newest = next(self._newest_first(agent, cwd), None)
        except OSError:
            return False
        return newest is not None and newest.session_id == session_id

    def _newest_first(self, agent: str, cwd: str) -> Iterator[RunRecord]:
        here = os.path.realpath(cwd)
        return (run for run in reversed(self.runs()) if run.kind == "run" and run.agent == agent and run.cwd == here)


class HistoryWriter:
    """Writer of one run's lines, from the events of the run.

    A failure to write is kept in `error`, and no further line is tried.

    Args:
        history: where to write.
        record: the run, as it is known at its start.
    """

    def __init__(self, history: History, record: RunRecord) -> None:
        self.error: OSError | None = None
        self._history = history
        self._record = record
        self._known: tuple[str | None, str | None] = (None, record.model)
        # An id that was asked for may be mistyped: it is a conversation when the agent says so.
        self._append(HistoryLine(**{**msgspec.structs.asdict(record), "session_id": None}))

    def apply_batch(self, events: Iterable[Event]) -> None:
        """Use the next events of the run."""
        for event in events:
            if type(event) in (RunStarted, RunEnded):
                self._apply(event)

    def _apply(self, event: Event) -> None:
        """Use one event: the conversation when it is known or changes, and the end."""
        if isinstance(event, RunStarted) and event.parent is None:
            known = (event.session_id or self._known[0], event.model or self._known[1])
            if known != self._known:
                self._known = known
                self._append(HistoryLine(run=self._record.run, at=now_ms(), session_id=known[0], model=known[1]))
        elif isinstance(event, RunEnded):
            usage = event.usage or Usage()
            self._append(
                HistoryLine(
                    run=self._record.run,
                    at=now_ms(),
                    session_id=event.session_id if is_confirmed(event, self._known[0]) else None,
                    outcome=event.outcome,
                    cost_usd=event.cost_usd if event.cost_usd is not None else usage.cost_usd,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                )
            )

    def _append(self, line: HistoryLine) -> None:
        if self.error is None:
            try:
                self._history.append(line)
            except OSError as error:
                self.error = error


def record_of(run: Run, kind: Kind = "run", title: str | None = None, group: str | None = None) -> RunRecord:
    """Return what is known about a run when it starts. `title` replaces the beginning of the prompt."""
    spec = run.spec
    return RunRecord(
        run=run.mark,
        at=now_ms(),
        kind=kind,
        agent=spec.agent,
        route=run.route,
        cwd=os.path.realpath(spec.cwd or os.getcwd()),
        title=title_of(title or spec.prompt),
        model=spec.model,
        session_id=None if spec.fork else spec.session_id,  # a fork gets an id of its own
        recording=str(run.record.absolute()) if run.record is not None else None,
        group=group if group != run.mark else None,
    )


def conversations(runs: Sequence[RunRecord], cwd: str | None, words: Sequence[str] = ()) -> list[RunRecord]:
    """Return the newest run of each conversation, in this directory or in all (None), oldest first.

    Only conversations whose prompts have all the words are returned.
    """
    here = os.path.realpath(cwd) if cwd is not None else None
    newest: dict[tuple[str, str | None], RunRecord] = {}
    prompts: dict[tuple[str, str | None], str] = {}
    for run in runs:
        if run.session_id and here in (None, run.cwd):
            key = (run.agent, run.session_id)
            newest.pop(key, None)
            newest[key] = run
            prompts[key] = f"{prompts.get(key, '')}\n{run.title.casefold()}"
    # A phrase in quotes is found as it is written, but for its spaces: the history has prompts on one line.
    wanted = [" ".join(word.casefold().split()) for word in words]
    return [run for key, run in newest.items() if all(word in prompts[key] for word in wanted)]


def _encode(line: HistoryLine) -> bytes:
    """Return a line as JSON. Bytes of a path or an argument that are not UTF-8 become U+FFFD: JSON has none of them."""
    try:
        return msgspec.json.encode(line)
    except UnicodeEncodeError:
        fields = msgspec.structs.asdict(line)
        texts = {name: value for name, value in fields.items() if isinstance(value, str)}
        clean = {name: text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for name, text in texts.items()}
        return msgspec.json.encode(msgspec.structs.replace(line, **clean))


def title_of(prompt: str) -> str:
    """Return the beginning of a prompt on one line."""
    return " ".join(prompt[: 4 * MAX_TITLE_CHARS].split())[:MAX_TITLE_CHARS]


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _lock(fd: int) -> None:
    """Lock a file against other writers, for at most `LOCK_SECONDS`."""
    deadline = time.monotonic() + LOCK_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.01)
