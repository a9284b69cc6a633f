"""One-line titles of tool calls: the command, the path or the pattern.

`title` reads the complete input; `TitleReader` reads the input's JSON text while it streams. The result of
`TitleReader` is always the beginning of the result of `title` for the complete input, so a line can grow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from penstock.events import ToolKind

MAX_TITLE_CHARS = 200
"""Maximum characters of a title: one line of a terminal, or a few if it wraps. A command can be a whole script."""

COMMANDS = frozenset({"command", "cmd", "commands", "argv"})
STRONG = COMMANDS | {
    "file_path", "filePath", "filepath", "absolute_path", "notebook_path", "target_file", "path", "paths",
    "file", "files", "file_paths", "pattern", "regex", "query", "queries", "search_query", "url", "urls", "uri",
    "skill",
}  # fmt: skip
"""Keys whose value alone describes the call; the first one in the input wins."""

WEAK = frozenset({
    "description", "prompt", "task", "subject", "question", "message", "text", "title", "name", "plan", "content",
    "input", "patch", "dir_path", "directory", "explanation", "intent", "task_id", "id", "shell_id", "bash_id",
})  # fmt: skip
"""Keys that describe the call if no strong one is there."""

_ARGV = frozenset({"command", "cmd", "argv"})  # a list under these is one command, in words
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_SURROGATES = re.compile("[\ud800-\udfff]")


def title(name: str, input: Any) -> str:
    """Return the title of a call of the tool `name` with the complete `input`; "" if the input is empty.

    The title has no line break and at most `MAX_TITLE_CHARS` characters, then a mark if text was left out.
    """
    text, more = _subject(name, input)
    return _first_line(text, more)


def lines_below_title(name: str, input: Any, shown: str) -> list[str]:
    """Return the lines of a command that follow its title, `shown`.

    If an adapter took the command out of a shell's arguments, the closing quote at its end is left out.
    """
    text = _subject(name, input)[0].strip()
    first, _, rest = text.partition("\n")
    beginning = shown.removesuffix(" …")
    before, _, after = first.partition(beginning) if beginning else (first, "", first)
    if not rest or beginning not in first or after.strip():
        return []
    quote = before.strip()[-1:]
    return (rest.removesuffix(quote) if quote in ("'", '"') else rest).rstrip().split("\n")


def _subject(name: str, input: Any) -> tuple[str, bool]:
    """Return the text that describes a call, and whether there are more values of that kind."""
    if isinstance(input, str):
        return _patched(input), False
    if not isinstance(input, dict):
        return "" if input is None else compact(input), False
    for keys in (_strong_keys(name), WEAK):
        for key, value in input.items():
            if key in keys:
                text, more = _text_of(key, value)
                if _first_line(text, more):
                    return text, more
    return compact(input) if input else "", False


def command(input: Any) -> str | None:
    """Return the whole command in the input of a call, with all of its lines; None if there is none."""
    if not isinstance(input, dict):
        return None
    for key, value in input.items():
        if key not in COMMANDS:
            continue
        if isinstance(value, list):
            value = " ".join(_leading_strings(value))
        if isinstance(value, str) and value.strip():
            return _SURROGATES.sub("\ufffd", value)
    return None


def compact(value: Any) -> str:
    """Return `value` as JSON in one line: as Python prints it if it has no JSON, `…` if it is nested too deep."""
    try:
        try:
            return msgspec.json.encode(value).decode()
        except (TypeError, ValueError, OverflowError):
            return repr(value)
    except RecursionError:
        return "…"


def _strong_keys(name: str) -> frozenset[str]:
    # An editor's `command` is "create" or "insert", which describes the call less than its path does.
    return STRONG - COMMANDS if tool_kind(name) == "edit" else STRONG


def _text_of(key: str, value: Any) -> tuple[str, bool]:
    if isinstance(value, str):
        return (_patched(value) if key in WEAK else value), False
    if not isinstance(value, list):
        return "", False
    if key in _ARGV:
        return " ".join(_leading_strings(value)), False
    return (value[0], len(value) > 1) if value and isinstance(value[0], str) else ("", False)


def _leading_strings(values: list[Any]) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            return
        yield value


def _patched(text: str) -> str:
    found = _PATCHED.search(text, 0, 4000) if text.startswith("*** Begin Patch") else None
    return found[1] if found else text


def _first_line(text: str, more: bool = False) -> str:
    line, _, rest = text.lstrip().partition("\n")
    line = line.rstrip()
    if len(line) > MAX_TITLE_CHARS:
        return _SURROGATES.sub("\ufffd", line[:MAX_TITLE_CHARS]) + "…"
    line = _SURROGATES.sub("\ufffd", line)
    more = more or bool(rest and not rest.isspace())
    return f"{line} …" if line and more else line


_RUN = re.compile(r'[^"\\]+')
_NESTED = re.compile(r'["\[\]{}]')
_STOP = re.compile(r'["\\]')
_SPACE = re.compile(r"[ \t\r\n]*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}

_Step = Callable[["TitleReader", str, int], int]


class TitleReader:
    """Incremental reader of a title: feed it the JSON text of a tool's input, and it returns the title as it grows.

    For every JSON object without repeated keys, and however the text was cut, the joined pieces that `feed` returns are
    a beginning of the `title` of the parsed input. Text that is not a JSON object has no title. The cost of a call of
    `feed` depends only on the length of its delta.
    """

    __slots__ = (
        "_count", "_depth", "_escape", "_held", "_high", "_key", "_keys", "_out", "_step", "_then", "_word",
    )  # fmt: skip

    def __init__(self, name: str = "") -> None:
        self._keys = _strong_keys(name)
        self._step: _Step | None = TitleReader._start
        self._then: _Step = TitleReader._before_key  # after a skipped string
        self._out: list[str] = []
        self._key: list[str] = []
        self._word = ""  # the key whose value is read
        self._depth = 0
        self._escape = ""  # an escape that is still incomplete
        self._high = 0  # the first half of a surrogate pair
        self._held = ""  # space that is emitted once something follows it
        self._count = 0  # characters emitted

    @property
    def done(self) -> bool:
        """True if nothing more will be emitted."""
        return self._step is None

    def feed(self, delta: str) -> str:
        """Return the text that `delta` adds to the title; "" for nothing."""
        if self._step is None:
            return ""
        at, end = 0, len(delta)
        while at < end and self._step is not None:
            at = self._step(self, delta, at)
        emitted = "".join(self._out)
        self._out.clear()
        return emitted

    # Each step reads some of the text and returns where it stopped; text that it cannot read ends the title.

    def _start(self, text: str, at: int) -> int:
        at = _skip_space(text, at)
        if at < len(text):
            self._step = TitleReader._before_key if text[at] == "{" else None
        return at + 1

    def _before_key(self, text: str, at: int) -> int:
        at = _skip_space(text, at)
        if at < len(text) and text[at] != ",":
            self._key.clear()
            self._step = TitleReader._in_key if text[at] == '"' else None
        return at + 1

    def _in_key(self, text: str, at: int) -> int:
        at, part, closed = self._read(text, at)
        self._key.append(part)
        if closed:
            self._word = "".join(self._key)
            self._step = TitleReader._before_value
        return at

    def _before_value(self, text: str, at: int) -> int:
        at = _skip_space(text, at)
        if at >= len(text) or text[at] == ":":
            return at + 1
        wanted = self._word in self._keys
        match text[at]:
            case '"':
                self._then = TitleReader._before_key
                self._step = TitleReader._in_value if wanted else TitleReader._in_skipped
            case "[" if wanted:
                self._step = TitleReader._in_list
            case "[" | "{":
                self._skip(1)
            case _:
                self._step = TitleReader._in_scalar
        return at + 1

    def _in_scalar(self, text: str, at: int) -> int:
        while at < len(text) and text[at] not in ",}":
            at += 1
        if at < len(text):
            self._step = TitleReader._before_key
        return at

    def _skip(self, depth: int) -> None:
        self._depth = depth
        self._step = self._then = TitleReader._in_nested

    def _in_nested(self, text: str, at: int) -> int:
        found = _NESTED.search(text, at)
        if found is None:
            return len(text)
        if found[0] == '"':
            self._step = TitleReader._in_skipped
        else:
            self._depth += 1 if found[0] in "[{" else -1
            if not self._depth:
                self._step = TitleReader._before_key
        return found.end()

    def _in_skipped(self, text: str, at: int) -> int:
        if self._escape:
            self._escape = ""
            return at + 1
        found = _STOP.search(text, at)
        if found is None:
            return len(text)
        if found[0] == '"':
            self._step = self._then
        else:
            self._escape = "\\"
        return found.end()

    def _in_value(self, text: str, at: int) -> int:
        at, part, closed = self._read(text, at)
        self._emit(part)
        if closed and self._step is not None:
            self._end_value()
        return at

    def _end_value(self) -> None:
        self._held = ""
        self._step = None if self._count else TitleReader._before_key

    def _in_list(self, text: str, at: int) -> int:
        at = _skip_space(text, at)
        if at >= len(text):
            return at
        if text[at] == "]":
            self._end_value()
        elif text[at] == '"':
            self._step = TitleReader._in_element
        else:
            self._leave_list()
            return at
        return at + 1

    def _in_element(self, text: str, at: int) -> int:
        at, part, closed = self._read(text, at)
        self._emit(part)
        if closed and self._step is not None:
            self._step = TitleReader._after_element
        return at

    def _after_element(self, text: str, at: int) -> int:
        at = _skip_space(text, at)
        if at < len(text):
            if text[at] == "," and self._word in _ARGV:
                self._emit(" ")
                self._step = TitleReader._in_list
            elif text[at] == "]":
                self._end_value()
            else:
                self._leave_list()
        return at + 1

    def _leave_list(self) -> None:
        if self._count:
            self._step = None
        else:
            self._held = ""
            self._skip(1)

    def _read(self, text: str, at: int) -> tuple[int, str, bool]:
        """Read some characters of a string: return where they end, their text, and whether the string is closed."""
        if self._escape:
            self._escape += text[at]
            whole = self._escape[1] != "u" or len(self._escape) == 6
            return at + 1, self._unescape() if whole else "", False
        if run := _RUN.match(text, at):
            return run.end(), self._lone() + _SURROGATES.sub("\ufffd", run[0]), False
        if text[at] == '"':
            return at + 1, self._lone(), True
        self._escape = "\\"
        return at + 1, "", False

    def _unescape(self) -> str:
        escape, self._escape = self._escape, ""
        if escape[1] != "u":
            return self._lone() + _ESCAPES.get(escape[1], "\ufffd")
        try:
            unit = int(escape[2:], 16)
        except ValueError:
            unit = 0xFFFD
        if self._high and 0xDC00 <= unit <= 0xDFFF:
            high, self._high = self._high, 0
            return chr(0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00)
        before = self._lone()
        if 0xD800 <= unit <= 0xDBFF:
            self._high = unit
            return before
        return before + ("\ufffd" if 0xDC00 <= unit <= 0xDFFF else chr(unit))

    def _lone(self) -> str:
        lone, self._high = self._high, 0
        return "\ufffd" if lone else ""

    def _emit(self, text: str) -> None:
        if not self._count:
            text = text.lstrip()
        head, newline, _ = text.partition("\n")
        head = self._held + head
        line = head.rstrip()
        if line:
            line = line[: MAX_TITLE_CHARS - self._count]
            self._out.append(line)
            self._count += len(line)
        # Bounded: more space than fits in the line is never emitted.
        self._held = head[len(head.rstrip()) :][:MAX_TITLE_CHARS] if self._count else ""
        if newline or self._count >= MAX_TITLE_CHARS:
            self._step = None


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


_KINDS: dict[ToolKind, str] = {
    "execute": """bash shell localshell runshellcommand runcommand runcommands executecommand execcommand
        commandexecution unifiedexec exec terminal powershell python runterminalcmd runinterminal bashoutput
        killshell killbash writestdin readbash writebash stopbash listbash monitor runpython
        codeexecution bashcodeexecution""",
    "read": """read readfile readfiles readmanyfiles view viewfile viewimage cat openfile notebookread getfile
        listcodedefinitionnames readnotebook taskoutput""",
    "edit": """write writefile edit editfile multiedit multiedits notebookedit applypatch patch create createfile
        writetofile replaceinfile replace strreplace strreplaceeditor strreplacebasededit
        strreplacebasededittool searchreplace insert filechange editor texteditorcodeexecution editnotebook""",
    "delete": "delete deletefile remove removefile rm",
    "move": "move movefile rename renamefile mv",
    "search": """grep glob ls list listdir listdirectory listfiles find findfiles search searchfiles searchcodebase
        searchfilecontent grepsearch filesearch codebasesearch codesearch semsearch rg ripgrep websearch
        googlewebsearch toolsearch lsp toolsearchtoolregex toolsearchtoolbm25""",
    "fetch": "webfetch fetch fetchurl fetchwebcontent urlfetch browseraction httprequest download",
    "think": """think task agent todo todowrite todoread writetodos updatetodos updatetodo todolist updateplan plan
        exitplanmode enterplanmode spawnagent savememory reportintent sequentialthinking""",
}
# Tools that resemble a kind but do something else, so the kind's verb would be wrong.
_BY_NAME = frozenset({
    "bashoutput", "killshell", "killbash", "writestdin", "readbash", "writebash", "stopbash", "listbash",
    "monitor", "toolsearch", "toolsearchtoolregex", "toolsearchtoolbm25", "lsp", "taskoutput",
})  # fmt: skip
_LISTING = frozenset({
    "ls", "list", "listdir", "listdirectory", "listfiles",
})  # fmt: skip
_PLANS = frozenset({
    "todo", "todowrite", "todoread", "writetodos", "updatetodos", "updatetodo", "todolist", "updateplan",
    "plan", "taskcreate", "taskupdate", "tasklist",
})  # fmt: skip
COMMAND = "$"
"""Verb of a call that runs a command."""


_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in (*names.split(), kind)}
_LAST_PART = re.compile(r".*(?:__|[./:])(?=.)")  # `mcp__server__tool`, `server.tool`
_JOINTS = re.compile(r"[_\-\s]+|tool_?call$", re.IGNORECASE)


@lru_cache(maxsize=1000)
def tool_kind(name: str) -> ToolKind:
    """Return the most likely kind of the tool `name`, or `other` if the name does not show it."""
    return _KIND_OF.get(_plain(name), "other")


def _plain(name: str) -> str:
    """Return the name of a tool without its server, separators and capitals."""
    return _JOINTS.sub("", _LAST_PART.sub("", name[:200])).lower()


@lru_cache(1000)
def tool_verb(name: str, kind: ToolKind) -> str:
    """Return the verb of a call, the same for all agents: `$`, `read`, `edit`, …; "" to use the tool's name.

    The name decides, because it is known first; `kind` decides if the name does not show it.
    """
    guessed = tool_kind(name)
    plain = _plain(name)
    if plain in _BY_NAME:
        return ""
    if plain in _LISTING:
        return "list"
    return _VERBS.get(kind if guessed == "other" else guessed, "")


_VERBS: dict[ToolKind, str] = {
    "execute": COMMAND, "read": "read", "edit": "edit", "delete": "delete", "move": "move", "search": "search",
    "fetch": "fetch",
}  # fmt: skip


@lru_cache(1000)
def is_plan_tool(name: str) -> bool:
    """Return whether a tool only reads or changes the agent's plan."""
    return _plain(name) in _PLANS
