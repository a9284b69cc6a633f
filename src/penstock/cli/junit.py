"""`penstock run --junit FILE`: the results of the agents as a JUnit report, which CI services show as tests."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from penstock.cli.github import Finished, denied
from penstock.errors import UsageError, shown
from penstock.events import Event, ToolCalled, ToolReturned
from penstock.sinks.sanitize import clean, clean_line

MAX_FAILED_CALLS = 20
"""Number of failed calls in the report, the last ones; the log has all of them."""

MAX_OUTPUT_LINES = 10
"""Number of last lines that each of these calls has of its output."""

MAX_REPLY_CHARS = 100_000
"""Maximum characters of a reply in the report: CI services reject or cut large files."""

_NOT_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class FailedCalls:
    """Collector of the calls of one agent that failed."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}
        self._failed: deque[str] = deque(maxlen=MAX_FAILED_CALLS)

    def observe(self, events: Iterable[Event]) -> None:
        """Note calls and their results."""
        for event in events:
            if isinstance(event, ToolCalled):
                self._titles[event.call_id] = f"{event.name}: {event.title}"
            elif isinstance(event, ToolReturned):
                title = self._titles.pop(event.call_id, event.name or "")
                if event.failed or event.refused:
                    self._failed.append(_failed_call(title, event))

    @property
    def text(self) -> str:
        """The last of them, each with the end of its output."""
        return "\n".join(self._failed)


def _failed_call(title: str, event: ToolReturned) -> str:
    how = "refused" if event.refused else f"exit {event.exit_code}" if event.exit_code else "failed"
    lines = clean(event.text).strip("\n").splitlines()[-MAX_OUTPUT_LINES:]
    return "\n".join([f"{clean_line(title)} ({how})", *(f"  {line}" for line in lines)])


def check_place(file: str) -> None:
    """Check before the start that a report can be written.

    Raises:
        UsageError: it cannot.
    """
    try:
        problem = _problem_of(file)
    except OSError as error:
        problem = f"cannot be the name of a file: {error.strerror}"
    if problem:
        raise UsageError(f"argument --junit: {shown(file)} {problem}", expected="a file for the report")


def _problem_of(file: str) -> str:
    """Return why no report can be written to a file, as a phrase; "" if one can."""
    if not file or "\0" in file:
        return "is no file"
    path = Path(file)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # it could be a device
            return "is no file"
    except FileNotFoundError:
        pass
    if not path.parent.is_dir():
        return "is in a directory that does not exist"
    return "" if os.access(path.parent, os.W_OK) else "is in a directory that cannot be written"


def write_report(file: str, runs: Sequence[tuple[Finished, str]], *, fails_if_denied: bool) -> None:
    """Write the report as a whole: a reader sees the old file or the new one.

    `file` is a path without symbolic links, from before the runs. An agent may have put links in it since then.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(file)
    if Path(os.path.realpath(path.parent)) != path.parent:
        raise OSError(errno.ELOOP, "its directory was replaced by a symbolic link")
    aside = path.with_name(f".penstock-{secrets.token_hex(6)}.xml")
    try:
        aside.write_bytes(report(runs, fails_if_denied=fails_if_denied))
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def report(runs: Sequence[tuple[Finished, str]], *, fails_if_denied: bool) -> bytes:
    """Return the report: a test for each agent, which fails if its run did not end well.

    The text beside each run has its calls that failed.
    """
    cases = [_case(run, failed, fails_if_denied=fails_if_denied) for run, failed in runs]
    counts = {
        "name": "penstock run",
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": "0",
        "time": _seconds(sum(run.milliseconds or 0 for run, _ in runs)),
    }
    whole = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(whole, "testsuite", counts)
    suite.extend(cases)
    ElementTree.indent(whole)
    data: bytes = ElementTree.tostring(whole, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _case(run: Finished, failed: str, *, fails_if_denied: bool) -> ElementTree.Element:
    result = run.result
    words = {"classname": "penstock.run", "name": _line(run.label), "time": _seconds(run.milliseconds or 0)}
    case = ElementTree.Element("testcase", words)
    properties = ElementTree.SubElement(case, "properties")
    for name, value in _facts(run).items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": _line(value)})
    is_denied = fails_if_denied and bool(result.refused)
    if result.outcome != "ok" or is_denied:
        kind = result.outcome if result.outcome != "ok" else "refused"
        why = result.reason if result.outcome != "ok" else denied(result.refused or 0)
        said = f"{kind.replace('_', ' ')}: {why}" if why else kind.replace("_", " ")
        failure = ElementTree.SubElement(case, "failure", {"type": kind, "message": _line(said)})
        failure.text = _text("\n\n".join(filter(None, [said, failed])))
    if result.reply:
        ElementTree.SubElement(case, "system-out").text = _text(result.reply[:MAX_REPLY_CHARS])
    if failed:
        ElementTree.SubElement(case, "system-err").text = _text(failed)
    return case


def _facts(run: Finished) -> dict[str, str]:
    result, usage = run.result, run.result.usage
    facts = {
        "outcome": result.outcome,
        "cause": result.cause,
        "session_id": result.session_id,
        "refused": result.refused,
        "cost_usd": result.cost_usd,
        "input_tokens": usage.input_tokens if usage is not None else None,
        "output_tokens": usage.output_tokens if usage is not None else None,
    }
    return {name: str(fact) for name, fact in facts.items() if fact is not None}


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}"


def _line(text: str) -> str:
    return _NOT_XML.sub("\ufffd", clean_line(text))


def _text(text: str) -> str:
    """Return text without what XML cannot have, nor anything that acts on a terminal."""
    return _NOT_XML.sub("\ufffd", clean(text))
