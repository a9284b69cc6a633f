"""Completion in the line editor: files after `@`, commands after `/`, those of the agent after `//`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from penstock.events import AgentCommand
from penstock.repo.directory_files import DirectoryFiles, matching

MAX_OFFERED = 50
"""Number of files that are offered at once."""

_FILE = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]*)|([^\s"]*))\Z')


class Suggestions(Completer):
    """Source of completions.

    Args:
        files: files of the working directory.
        commands: what each command does, by its name with the slash.
        values: function that returns the values of a command's argument.
        offered: function that returns the commands that the agent offers.
    """

    def __init__(
        self,
        files: DirectoryFiles,
        commands: Mapping[str, str],
        values: Callable[[str], Sequence[str]],
        offered: Callable[[], Sequence[AgentCommand]],
    ) -> None:
        self._files = files
        self._commands = commands
        self._values = values
        self._offered = offered

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions of the text so far."""
        text = document.text_before_cursor
        if (found := _FILE.search(text)) is not None:
            yield from self._paths(found[1] if found[1] is not None else found[2], len(found[0]))
        elif text.startswith("/") and "\n" not in text:
            yield from self._of_command(text)

    def may_follow(self, document: Document) -> bool:
        """Return whether text before the cursor is of a kind that is completed."""
        text = document.text_before_cursor
        return _FILE.search(text) is not None or (text.startswith("/") and "\n" not in text)

    def _of_command(self, text: str) -> Iterator[Completion]:
        name, space, argument = text.partition(" ")
        if name.startswith("//"):  # a line for the agent
            for one in () if space else self._offered():
                if one.name.startswith(name[2:]) or one.name.removeprefix("$").startswith(name[2:]):  # a skill
                    yield Completion(f"//{one.name}", -len(name), display_meta=one.description or one.argument)
        elif not space:
            for command, help in self._commands.items():
                if command.startswith(name):
                    yield Completion(command, -len(name), display_meta=help)
        elif " " not in argument:
            for value in self._values(name):
                if value.startswith(argument):
                    yield Completion(value, -len(argument))

    def _paths(self, typed: str, length: int) -> Iterator[Completion]:
        for path in matching(self._files.paths(), typed)[:MAX_OFFERED]:
            yield Completion(f'@"{path}"' if " " in path else f"@{path}", -length, display=path)
