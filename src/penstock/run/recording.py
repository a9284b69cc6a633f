"""Recording of a run: the bytes that an agent printed and received, on disk before anybody reads any of them.

`docs/recording.md` describes the format. A recording is complete up to its last write, whatever kills Penstock: the
bytes are passed to the operating system when `received` returns (a machine that loses its power may lose them).
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock._version import __version__
from penstock.config.regular_files import open_regular
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.run.launch import Launch

INPUT, TIMES, SENT, SENT_TIMES, STDERR, META = (
    "input.ndjson",
    "times",
    "sent.ndjson",
    "sent.times",
    "stderr",
    "meta.json",
)

MAX_STDERR_BYTES = 1024 * 1024
"""Bytes of stderr that are kept, from its beginning. An agent that prints nothing else can fill a disk; the last lines
of a run that failed are in its reason."""
MAX_LABEL_CHARS = 40
MAX_TRIES = 100
"""Number of folder names that are tried. Two runs of one label that begin in the same second get the same name once in
four billion times."""
MIN_SECRET_CHARS = 8
"""Characters of the shortest value that is redacted inside of a text: a shorter one also occurs in ordinary words."""

REDACTED = "[redacted]"


class Ended(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """End of a run, as `run_ended` reported it. `exit_status` is negative for a signal."""

    outcome: str
    duration_ms: int
    """Milliseconds since the start, by Penstock's clock."""
    reason: str | None = None
    cause: str | None = None
    exit_status: int | None = None
    stderr_left_out: int = 0
    """Bytes of stderr that the recording does not contain."""


class DisplayFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about how a run was shown that are not in its events: `penstock last` shows it the same way."""

    detail: Literal["quiet", "minimal", "normal", "verbose"] | None = None
    """Values of the flags of the display; None if they were not given."""
    prefix: Literal["agent", "kind", "both", "above", "none"] | None = None
    permission: str = ""
    """What the agent may do, in a few words."""
    allow: str = ""
    """How to allow actions that were denied."""
    is_confined: bool = False
    network: str = ""
    """Network of a confined agent, in a few words."""
    not_confined: str = ""
    """Reason why the agent was not confined although it should have been."""
    has_rules: bool = False
    carried: dict[str, str | bool] = {}
    """Values of flags that the next prompt of the conversation needs too."""
    is_one_of_several: bool = False
    """True if runs of other agents were shown beside it."""


class Meta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of a recording: `meta.json`. Nothing of the environment is in it."""

    penstock: str
    """Version of Penstock that wrote it."""
    agent: str
    """Name of the agent, without its route."""
    label: str
    route: str
    """Route of the run, as in the registry: `exec`, `server`, `acp`."""
    argv: list[str]
    """Command line as it was started; everything that looks like a secret is replaced by `[redacted]`."""
    is_resumed: bool = False
    """Whether the run continued a session."""
    cwd: str | None = None
    started_at: str
    """Time of the start in UTC, as ISO 8601."""
    ended: Ended | None = None
    """End of the run; None: the recording was cut off, or the run has not ended."""
    problem: str | None = None
    """Reason why the recording does not contain all of the run."""
    display: DisplayFacts | None = None
    """How the run was shown, if Penstock keeps the recording by itself."""


class RecordingWriter:
    """Writer of one recording. After `begin` nothing raises: a failed write ends the recording, never the run.

    Threads: one at a time.
    """

    def __init__(self, folder: Path, meta: Meta, secrets: Sequence[str] = (), *, max_bytes: int | None = None) -> None:
        """Open the files in `folder`, which exists and is empty; `begin` creates it.

        `secrets` are values that are redacted in what the agent is sent. `max_bytes` is the limit of the recording; a
        recording that reaches it ends as on a full disk.

        Raises:
            OSError: its files cannot be created.
        """
        self.folder = folder
        self.problem: str | None = None
        """Reason why nothing more is written; None while writing works."""
        self._meta = meta
        self._closed = False
        self._secrets = secrets
        self._stderr_bytes = 0
        self._max_bytes = max_bytes
        self._bytes = 0
        self.is_announced: bool = True
        """Whether a problem is reported in the events of the run."""
        self._logs: dict[str, _Log] = {}
        try:
            self._input = self._log(INPUT)
            self._log(TIMES)
            _write_meta(folder, meta)
        except OSError:
            self.close()
            raise

    @classmethod
    def begin(
        cls,
        directory: Path,
        *,
        agent: str,
        label: str,
        route: str,
        argv: Sequence[str],
        cwd: str | os.PathLike[str] | None = None,
        is_resumed: bool = False,
        secrets: Sequence[str] = (),
        display: DisplayFacts | None = None,
        max_bytes: int | None = None,
    ) -> RecordingWriter:
        """Begin the recording of a run, in a folder of its own in `directory`, which is created if it is missing.

        `secrets` are values that are redacted in its command line and in what it is sent. `max_bytes` limits its size.

        Raises:
            UsageError: `directory` cannot be created or written, or its disk is full.
        """
        now = datetime.now(UTC)
        meta = Meta(
            penstock=__version__,
            agent=_text(agent),
            label=_text(label),
            route=_text(route),
            argv=redacted(argv, secrets),
            is_resumed=is_resumed,
            cwd=None if cwd is None else _text(os.fspath(cwd)),
            started_at=now.isoformat(timespec="milliseconds"),
            display=display,
        )
        folder: Path | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            folder = _make_folder(directory, f"{_file_name(label)}-{now:%Y%m%dT%H%M%SZ}")
            return cls(folder, meta, secrets, max_bytes=max_bytes)
        except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
            if folder is not None:
                _remove(folder)
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise UsageError(
                f"no record can be written in {str(directory)!r}: {why}", expected="a directory that can be written"
            ) from error

    @classmethod
    def begin_run(
        cls, directory: Path, launch: Launch, *, display: DisplayFacts | None = None, max_bytes: int | None = None
    ) -> RecordingWriter:
        """Begin the recording of a run that is about to start; otherwise as `begin`."""
        return cls.begin(
            directory,
            agent=launch.reader.name,  # the adapter that can read it again, whatever is configured by then
            label=launch.label,
            route=launch.route,
            argv=launch.command.argv,
            cwd=launch.cwd,
            is_resumed=getattr(launch.reader, "is_resumed", False),
            secrets=launch.secrets,
            display=display,
            max_bytes=max_bytes,
        )

    def lock(self) -> None:
        """Mark the recording as one that is being written, until it is closed, whatever ends this process.

        Raises:
            OSError: the file system has no locks.
        """
        fcntl.flock(self._input.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def received(self, data: bytes, at_ms: int) -> None:
        """Record bytes that the agent printed, `at_ms` milliseconds after its start."""
        self._write_lines(data, at_ms, INPUT, TIMES)

    def sent(self, data: bytes, at_ms: int) -> None:
        """Record whole lines that were written to the agent."""
        self._write_lines(redacted_lines(data, self._secrets), at_ms, SENT, SENT_TIMES)

    def errors(self, data: bytes) -> None:
        """Record bytes that the agent wrote to stderr."""
        space_left = MAX_STDERR_BYTES - self._stderr_bytes
        self._stderr_bytes += len(data)
        if self._writing and space_left > 0 and data:
            try:
                self._log(STDERR).write(data[:space_left])
            except OSError as error:
                self._stop(error)

    def end(
        self,
        *,
        outcome: str,
        reason: str | None,
        exit_status: int | None,
        duration_ms: int,
        cause: str | None = None,
    ) -> None:
        """Write the end of the run, and close the recording. A second call has no effect."""
        if self._closed:
            return
        ended = Ended(
            outcome=outcome,
            duration_ms=duration_ms,
            reason=None if reason is None else _text(reason),
            cause=cause,
            exit_status=exit_status,
            stderr_left_out=max(0, self._stderr_bytes - MAX_STDERR_BYTES),
        )
        try:
            _write_meta(self.folder, msgspec.structs.replace(self._meta, ended=ended, problem=self.problem))
        except OSError as error:
            self._stop(error)
        self.close()

    def close(self) -> None:
        """Close the files. Without a preceding `end`, the recording remains one that was cut off."""
        self._closed = True
        for log in self._logs.values():
            os.close(log.fd)
        self._logs.clear()

    @property
    def _writing(self) -> bool:
        return self.problem is None and not self._closed

    def _log(self, name: str) -> _Log:
        if name not in self._logs:
            self._logs[name] = _Log(self.folder / name)
        return self._logs[name]

    def _write_lines(self, data: bytes, at_ms: int, name: str, times: str) -> None:
        if not self._writing or not data:
            return
        self._bytes += len(data)
        if self._max_bytes is not None and self._bytes > self._max_bytes:
            self._stop(OSError(f"a run may have {self._max_bytes:,} bytes"))
            return
        try:
            log = self._log(name)
            start = log.size
            try:
                log.write(data)
            finally:  # a disk that is full may have stored the beginning
                if lines := data.count(b"\n", 0, log.size - start):
                    self._log(times).write(b"%d.%03d\n" % divmod(max(0, at_ms), 1000) * lines)
        except OSError as error:
            self._stop(error)

    def _stop(self, error: OSError) -> None:
        """Stop writing, and leave only whole lines."""
        if self.problem is None:
            for name in (INPUT, TIMES, SENT, SENT_TIMES):
                if name in self._logs:
                    self._logs[name].cut_to_whole_lines()
            why = error.strerror or str(error)
            self.problem = f"the record stopped after {self._input.size:,} bytes: {why}"


class _Log:
    """File that grows by whole writes, with the position at which its last whole line ends."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self.fd = os.open(path, flags, 0o600)
        self.size = 0
        self._whole = 0

    def write(self, data: bytes) -> None:
        waiting = memoryview(data)
        start = self.size
        try:
            while waiting:
                written = os.write(self.fd, waiting)
                self.size += written
                waiting = waiting[written:]
        finally:
            last = data.rfind(b"\n", 0, self.size - start)
            if last >= 0:
                self._whole = start + last + 1

    def cut_to_whole_lines(self) -> None:
        try:
            os.ftruncate(self.fd, self._whole)
        except OSError:
            return  # a half line is left, which a replay skips
        self.size = self._whole


def read_meta(folder: Path) -> Meta | None:
    """Return the metadata of a recording; None if the folder is not a recording.

    Raises:
        UsageError: there is a `meta.json` that cannot be read.
    """
    file = folder / META
    try:
        with open(open_regular(file, follows=True), "rb") as opened:
            return msgspec.json.decode(opened.read(), type=Meta)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        help = f"replay its {INPUT} alone"
        raise UsageError(f"cannot read {str(file)!r}: {error}", expected="a record", help=help) from error


def _make_folder(directory: Path, name: str) -> Path:
    for tried in range(MAX_TRIES):
        folder = directory / f"{name}-{os.urandom(4).hex()}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if tried + 1 == MAX_TRIES:
                raise
            continue
        return folder
    raise AssertionError("unreachable")


def _remove(folder: Path) -> None:
    """Delete a recording that never began."""
    try:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    except OSError:
        pass  # the disk failed; an empty folder is left


def _write_meta(folder: Path, meta: Meta) -> None:
    """Write `meta.json` atomically: a reader finds the old one or the new one."""
    data = msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n"
    path, new = folder / META, folder / f"{META}.new"
    try:
        new.unlink(missing_ok=True)  # a link that an agent has made would lead elsewhere
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            waiting = memoryview(data)
            while waiting:
                waiting = waiting[os.write(fd, waiting) :]
        finally:
            os.close(fd)
        os.replace(new, path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _file_name(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", label)[:MAX_LABEL_CHARS].strip("-.") or "agent"


def _text(text: str) -> str:
    """Return text that JSON can represent: an argument or a path may have bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


# --- redaction ---

_NAMES = "(?:key|token|secret|passw|passphrase|auth|credential|cookie)"
_NAME = re.compile(_NAMES, re.IGNORECASE)
_FLAG = re.compile(rf"-[\w.-]{{0,64}}{_NAMES}[\w.-]{{0,64}}", re.IGNORECASE)
_ASSIGNED = re.compile(rf"([\w.-]{{0,64}}{_NAMES}[\w.-]{{0,64}}\s{{0,8}}[=:]\s{{0,8}})\S", re.IGNORECASE)
# JSON, TOML, a query: the value that follows such a name anywhere in an argument.
_INSIDE = re.compile(
    rf"""({_NAMES}[\w.-]{{0,64}}["']?\s{{0,8}}[=:]\s{{0,8}})("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&}}\]]+)""",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(Bearer|Basic) \S+", re.IGNORECASE)
_USERINFO = re.compile(r"(://)[^/@\s]{1,256}@")


def redacted(argv: Sequence[str], known: Sequence[str] = ()) -> list[str]:
    """Return the arguments without the secrets that are known, and without anything that looks like one.

    That is the value of a flag or field that is named like a secret, and the value of any environment variable that is
    named like one. The words after `--` are the prompt: only values of variables and known ones are replaced in them.
    """
    secrets = _long([*known, *(value for name, value in os.environ.items() if _NAME.search(name))])
    found: list[str] = []
    hidden = prompt = False
    for argument in argv:
        shown = argument
        if prompt:
            pass
        elif hidden and not argument.startswith("--"):
            shown = REDACTED
        elif named := _ASSIGNED.match(argument):
            shown = named[1] + REDACTED
        else:
            shown = _USERINFO.sub(rf"\1{REDACTED}@", _SCHEME.sub(rf"\1 {REDACTED}", argument))
            shown = _INSIDE.sub(rf"\1{REDACTED}", shown)
        hidden = _FLAG.fullmatch(argument) is not None
        prompt = prompt or argument == "--"
        for secret in secrets:
            shown = shown.replace(secret, REDACTED)
        found.append(_text(shown))
    return found


def redacted_lines(data: bytes, secrets: Sequence[str]) -> bytes:
    """Return lines of JSON without these values. A line that has none of them stays as it is, byte for byte."""
    if not secrets:
        return data
    return b"\n".join(_redacted_line(line, secrets) for line in data.split(b"\n"))


def _redacted_line(line: bytes, secrets: Sequence[str]) -> bytes:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        for secret in _long(secrets):
            line = line.replace(secret.encode("utf-8", "surrogatepass"), REDACTED.encode())
        return line
    shown = _redacted_value(value, frozenset(secrets), _long(secrets))
    return line if shown == value else msgspec.json.encode(shown)


def _redacted_value(value: Any, whole: Collection[str], parts: Sequence[str]) -> Any:
    """Return a JSON value without secrets: strings in `whole`, and `parts` within strings, are replaced."""
    if isinstance(value, dict):
        return {name: _redacted_value(each, whole, parts) for name, each in value.items()}
    if isinstance(value, list):
        return [_redacted_value(each, whole, parts) for each in value]
    if not isinstance(value, str):
        return value
    if value in whole:
        return REDACTED
    for secret in parts:
        value = value.replace(secret, REDACTED)
    return value


def _long(secrets: Sequence[str]) -> list[str]:
    """Return the values that are also replaced inside of a text, the longest first: one may be a part of another."""
    return sorted((value for value in secrets if len(value) >= MIN_SECRET_CHARS), key=len, reverse=True)
