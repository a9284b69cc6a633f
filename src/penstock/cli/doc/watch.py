"""`penstock doc watch`: answers a document whenever its user ends the text with a line `/send`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from penstock.cli.console import notify_problem
from penstock.cli.doc.answer import DocCommand, DocOptions, answer_flags
from penstock.cli.exit_status import FAILED, OK, SIGNAL_BASE
from penstock.cli.options import flag_values
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.cli.telemetry import telemetry_sent
from penstock.config.settings import Config
from penstock.doc.committing import Commits
from penstock.doc.folders import MAX_DOCUMENTS, MAX_ENTRIES, DocumentFolder
from penstock.doc.opened import hold_for_watching
from penstock.doc.watch import MAX_UNCHANGED_RUNS, QUIET_SECONDS, WatchedDocument, watch
from penstock.errors import PenstockError
from penstock.sinks.sanitize import clean_line


def command(args: list[str]) -> int:
    """Run `penstock doc watch` and return the exit status."""
    words = vars(parser().parse(args))
    files = words.pop("documents")
    options = DocOptions(asked=flag_values(words), stdin="never", file="", **words)
    paths = [Path(os.path.realpath(file)) for file in dict.fromkeys(files)]
    folders = [DocumentFolder(path) for path in paths if path.is_dir()]
    documents = [WatchedDocument(path) for path in paths if not path.is_dir()]
    config = configured()
    watching = _Answers(options, config)
    for path in paths if options.commit else ():
        watching.commits.look(path if path.is_dir() else path.parent)
    with (
        telemetry_sent(config),
        hold_for_watching((document.path for document in documents), (folder.path for folder in folders)),
    ):
        names = ", ".join(clean_line(os.path.relpath(path)) + ("/" if path.is_dir() else "") for path in paths)
        notify_problem(f"watching {names}: end your text with a line /send and save it; Ctrl-C stops")
        known = {document.path for document in documents}
        watch(documents, watching.submit, (lambda: _found(folders, known)) if folders else None)
    return watching.status


def _found(folders: list[DocumentFolder], known: set[Path]) -> list[WatchedDocument]:
    """Return the new documents of the folders, each once."""
    found: list[WatchedDocument] = []
    for folder in folders:
        was_full = folder.is_full
        for path in folder.new_documents():
            if path not in known:
                known.add(path)
                found.append(WatchedDocument(path, is_link_followed=False))
        if folder.is_full and not was_full:
            name = clean_line(os.path.relpath(folder.path))
            notify_problem(
                f"{name} has more than {MAX_DOCUMENTS:,} documents or {MAX_ENTRIES:,} files: not all are watched"
            )
    return found


def parser() -> Parser:
    """Return the parser of the command."""
    text = f"Answer documents when their text ends with a line /send and was not changed for {QUIET_SECONDS:g} seconds."
    made = Parser("doc watch", text, arguments="FILE.md|FOLDER … [options]")
    made.add_argument("documents", nargs="+", metavar="FILE.md|FOLDER", help="documents, and folders of documents")
    answer_flags(made)
    return made


class _Answers:
    """The answers to watched documents."""

    def __init__(self, options: DocOptions, config: Config) -> None:
        self.status = OK
        self._options = options
        self._config = config
        self.commits = Commits()

    def submit(self, document: WatchedDocument) -> bool:
        """Answer a document; return whether to continue watching."""
        name = os.path.relpath(document.path)
        options = msgspec.structs.replace(self._options, file=str(document.path))
        answering = DocCommand(options, self._config, self.commits)
        try:
            status = answering.answer()
        except PenstockError as error:
            notify_problem(f"{name}: {error}")
            return True
        if status > SIGNAL_BASE:
            self.status = status
            return False
        answer = answering.answered
        if answer is not None and answer.published:
            document.published(answer.asked, answer.text_hash)
        if document.stopped:
            notify_problem(
                f"{name}: the same was asked {MAX_UNCHANGED_RUNS} times, so the document is no longer watched"
            )
            self.status = FAILED
        return True
