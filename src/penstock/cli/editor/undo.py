"""`/undo` and `/redo` of a conversation: the changes of its prompts, taken back one after another."""

from __future__ import annotations

from penstock.cli.ask import Terminal
from penstock.cli.console import notify, one_line, say
from penstock.cli.editor.run_edits import RunEdits
from penstock.repo.file_undo import FileUndo, files_words, is_done, what_happens

MAX_SHOWN = 200
"""Number of files that are listed one by one."""

MAX_PROMPT_CHARS = 60
"""Characters of a prompt in a heading."""

YES = ("y", "yes")


class Undos:
    """Prompts of one conversation whose changes can be taken back, or made again."""

    def __init__(self) -> None:
        self._made: list[RunEdits] = []
        self._undone: list[RunEdits] = []

    def add(self, edits: RunEdits) -> None:
        """Add what the newest prompt has changed. What was taken back before it cannot be made again."""
        self._made.append(edits)
        self._undone.clear()

    def undo(self) -> None:
        """Take back what the newest prompt has changed that is not taken back yet, if the user agrees."""
        self._go(self._made, self._undone, redo=False)

    def redo(self) -> None:
        """Make the changes again that were taken back last, if the user agrees."""
        self._go(self._undone, self._made, redo=True)

    def _go(self, source: list[RunEdits], target: list[RunEdits], *, redo: bool) -> None:
        if not source:
            say("Nothing was taken back that could be made again.\n" if redo else "There is nothing to take back.\n")
            return
        edits = source[-1]
        plan = edits.undo(redo=redo).plan()
        _show(edits, plan, redo=redo)
        count = sum(map(is_done, plan))
        if not count:
            source.pop()
            more = "; /undo again looks at the prompt before it" if source and not redo else ""
            say(f"Nothing can be {'made again' if redo else 'taken back'} here{more}.\n")
            return
        if not _agrees(f"{'Change' if redo else 'Take back'} {files_words(count)}{' again' if redo else ''}? [y/N] "):
            say("Nothing was changed.\n")
            return
        done = edits.undo(redo=redo).apply()
        say(summary(done, redo=redo))
        if any(map(is_done, done)):
            target.append(source.pop())


def _show(edits: RunEdits, plan: list[FileUndo], *, redo: bool) -> None:
    prompt = one_line(edits.prompt)
    shown = prompt if len(prompt) <= MAX_PROMPT_CHARS else prompt[: MAX_PROMPT_CHARS - 1] + "…"
    lines = [f"Files that “{shown}” changed, as far as the agent reported them:"]
    lines += [f"  {one_line(it.to or it.path)} {what_happens(it, redo=redo)}" for it in plan[:MAX_SHOWN]] or ["  none"]
    if len(plan) > MAX_SHOWN:
        lines.append(f"  and {len(plan) - MAX_SHOWN:,} more")
    if edits.commands and not redo:
        ran = "A command" if edits.commands == 1 else f"{edits.commands} commands"
        lines.append(f"{ran} ran as well. Changes by commands are not taken back.")
    say("\n".join(lines) + "\n")


def summary(files: list[FileUndo], *, redo: bool) -> str:
    """Return what was done, in a sentence, and one for each file that stays."""
    stays = [it for it in files if it.does == "stay"]
    count = len(files) - len(stays)
    are = f"{files_words(count)} {'is' if count == 1 else 'are'}"
    first = f"{are} {'changed again' if redo else 'as before'}." if count else "No file was changed."
    return "\n".join([first, *(f"{one_line(it.path)} {what_happens(it)}." for it in stays[:MAX_SHOWN])]) + "\n"


def _agrees(question: str) -> bool:
    """Ask the user; what was typed before the question does not answer it."""
    terminal = Terminal.find()
    if terminal is None:
        return False
    try:
        terminal.forget_input()
        notify(question)
        data = b""
        while not data.endswith(b"\n") and len(data) < 100 and (piece := terminal.read()):
            data += piece
        if not data.endswith(b"\n"):
            notify("\n")
        return data.endswith(b"\n") and data.decode(errors="replace").strip().lower() in YES
    finally:
        terminal.close()
