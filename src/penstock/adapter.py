"""Interface for authors of adapters: the request, the command line made of it, and the protocols of an adapter.

An agent's own file turns a `Request` into a `Command` (a pure function), so the command that Penstock would start can
be read, tested and shown without starting it. A request that an agent cannot fulfil is an error here, before anything
runs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from penstock.config.rules import STRING, SWITCH, Rule, Rules, check, optional
from penstock.errors import UsageError
from penstock.updates import Answer, Notice, Traits, Update

Level = Literal["read", "ask", "edits", "all", "own"]
"""Permission of an agent, the same for all of them: it only reads; it asks before it changes something or runs a
command; it changes files of its directory without asking; it does everything without asking; its own default."""

Allow = Literal["default", Level]
"""Level that is asked for. `default`: `ask` where somebody can answer and the agent can ask, else `own`."""

Limit = Literal["max_cost", "max_turns", "max_tokens"]
"""Limit of one run: its cost in US dollars, its turns, its tokens."""

Feature = Literal[
    "resume", "fork", "read", "ask", "edits", "args",
    "effort", "system_prompt", "system_prompt_on_resume", "images", "schema", "mcp_config", "allow_tools", "deny_tools",
    Limit,
]  # fmt: skip
"""Part of a request that not every route supports: resuming a session, forking it, levels of permission, extra
arguments, the fields of a `Request` that have these names, and `system_prompt` in a resumed conversation."""

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""Bytes of the longest single argument that Linux passes to a program (MAX_ARG_STRLEN, with its closing NUL). A longer
prompt needs an agent that reads it from stdin."""
MAX_STDIN_BYTES = 10 * 1024 * 1024
"""Bytes of text that may accompany a prompt: several times the input of the largest model, and no more than an agent
that receives it can easily keep in memory."""
MAX_SESSION_ID_CHARS = 128
MAX_EFFORT_CHARS = 32
MAX_SYSTEM_PROMPT_BYTES = 100 * 1024
"""Bytes of the instructions that are added to the agent's own: they must fit into an argument."""
MAX_TOOL_CHARS = 1024
"""Characters of a tool's name, which some agents follow with a pattern in parentheses."""
MAX_MODEL_CHARS = 256

_EFFORT = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class TextFile(msgspec.Struct, frozen=True):
    """Text file that goes with a prompt."""

    path: str
    """The path as the caller wrote it."""
    text: str


class Image(msgspec.Struct, frozen=True):
    """Image that goes with a prompt."""

    path: str
    """Absolute path."""
    media_type: str
    """The type that its first bytes show, as `image/png`."""
    content: bytes

    @property
    def base64(self) -> str:
        """The content in base64."""
        return b64encode(self.content).decode()

    @property
    def data_url(self) -> str:
        """The content as an URL."""
        return f"data:{self.media_type};base64,{self.base64}"


class JsonFile(msgspec.Struct, frozen=True):
    """File with one JSON object."""

    path: str
    """Absolute path."""
    value: dict[str, Any]

    @property
    def text(self) -> str:
        """The object as one line of JSON."""
        return msgspec.json.encode(self.value).decode()


class McpServer(msgspec.Struct, frozen=True):
    """Server of the Model Context Protocol: a program, or an address."""

    name: str
    type: Literal["stdio", "http"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}


class McpConfig(msgspec.Struct, frozen=True):
    """File with MCP servers, in the form that several agents read."""

    path: str
    """Absolute path."""
    servers: tuple[McpServer, ...]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values of all variables and headers."""
        given = (
            value for server in self.servers for fields in (server.env, server.headers) for value in fields.values()
        )
        return tuple(value for value in given if value)


def nothing_is_inside(paths: Sequence[str]) -> bool:
    """Return False for any `paths`: changes of all files are asked about."""
    return False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt for one agent, and the options of its run. `checked` is called on it before any agent sees it."""

    prompt: str
    model: str | None = None
    session_id: str | None = None
    """Conversation to continue; None begins one."""
    fork: bool = False
    """True to branch that conversation: the agent gives it a new session id, and the old one stays as it is."""
    cwd: str | None = None
    """Directory in which the agent works; None: that of this process. A launch sets the absolute path."""
    allow: Level = "own"
    stays_inside: Callable[[Sequence[str]], bool] = nothing_is_inside
    """Function that returns whether paths lead to files inside the directory, which an agent may change at `edits`. A
    launch sets it; an adapter reads no file itself."""
    profile: str | None = None
    """Part of an agent's name after the slash: the `ccs` profile, `glm` in `ccs/glm`."""
    args: tuple[str, ...] = ()
    """More arguments for the agent, put before the prompt."""
    stdin_text: str | None = None
    """Piped input beside the prompt. `checked` appends it to the prompt."""
    files: tuple[TextFile, ...] = ()
    """Texts that go with the prompt. `checked` appends them to it."""
    images: tuple[Image, ...] = ()
    effort: str | None = None
    """Effort of the model, by the agent's own word for it."""
    system_prompt: str | None = None
    """Instructions that are added to the agent's own."""
    schema: JsonFile | None = None
    """JSON Schema of the reply."""
    mcp_config: McpConfig | None = None
    allow_tools: tuple[str, ...] = ()
    """Tools that are used without a question, by the agent's own names."""
    deny_tools: tuple[str, ...] = ()
    ignore_project: bool = False
    """True to start the agent without the settings, hooks and servers that the project's own files name, as far as
    the agent has words for it; instructions of the project still count. Agents without such words are started as
    usual."""
    max_cost: float | None = None
    """Limit of the cost of the run in US dollars. Penstock counts what the events report; `command` passes the limit on
    if the agent has a flag of its own for it."""
    max_turns: int | None = None
    """Limit of the turns of the main agent."""
    max_tokens: int | None = None
    """Limit of the tokens of all model calls."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Command line, input and environment of an agent for one request."""

    argv: tuple[str, ...]
    program: int = 0
    """Index of the agent's program in `argv`: after the bridge, if the agent is reached through one."""
    stdin: bytes = b""
    """Bytes written to stdin, which is then closed. Empty for a dialogue: it writes its own lines and keeps it open."""
    env: dict[str, str] = {}
    """Variables set over those of the inherited environment. Never a secret: they may be shown."""
    unset: tuple[str, ...] = ()
    """Variables that the agent must not inherit."""
    turn_limit_status: int | None = None
    """Exit status of the agent when it has reached its limit of turns."""


def _is_session_id(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= MAX_SESSION_ID_CHARS
        and _SESSION_ID.fullmatch(value) is not None
        and ".." not in value
    )


def _is_model(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_MODEL_CHARS
        and not value.startswith("-")
        and value.isprintable()
    )


def _is_effort(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_EFFORT_CHARS and _EFFORT.fullmatch(value) is not None


def _are_instructions(value: object) -> bool:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return False
    try:
        return len(value.encode()) <= MAX_SYSTEM_PROMPT_BYTES
    except UnicodeEncodeError:
        return False


def _is_tool(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_TOOL_CHARS
        and not value.startswith("-")
        and value.isprintable()
        and value.strip() == value
    )


def _are_tools(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(_is_tool, value))


SESSION_ID = Rule(
    _is_session_id,
    "letters, digits, '.', '_' and '-', as the agent gave it in run_started or run_ended",
    "a session id",
)
MODEL = Rule(_is_model, "the name as the agent knows it", "a model name")

EFFORT = Rule(_is_effort, "the agent's own word, as low or high", "a level of effort")
INSTRUCTIONS = Rule(_are_instructions, f"text in UTF-8 of at most {MAX_SYSTEM_PROMPT_BYTES:,} bytes")
TOOL = Rule(_is_tool, "the name as the agent knows it", "the name of a tool")
TOOLS = Rule(_are_tools, "a list of names of tools, as the agent knows them")

PROMPT_RULES: Rules = {
    "prompt": STRING,
    "stdin_text": optional(STRING),
    "session_id": optional(SESSION_ID),
    "fork": SWITCH,
    "model": optional(MODEL),
}
"""Rules of the fields that belong to one prompt. The other options of a run are in `penstock.run.spec`."""


def checked(request: Request) -> Request:
    """Return the request if no agent can misread it; its prompt is then the whole input of the agent.

    Raises:
        UsageError: `fork` without a session id, a session id or model that could be read as a flag or a path, a NUL,
            too much text.
    """
    check({name: getattr(request, name) for name in PROMPT_RULES}, PROMPT_RULES)
    if not request.prompt.strip():
        raise UsageError("the prompt is empty", expected="something to ask the agent")
    whole = with_stdin(with_files(request.prompt, request.files), request.stdin_text or "")
    if "\0" in whole or any("\0" in arg for arg in request.args):
        raise UsageError("the prompt or an argument has a NUL character", expected="text: no program can be given it")
    encoded(whole)
    if request.fork and request.session_id is None:
        raise UsageError("there is nothing to fork", expected="a session_id, the conversation that is branched")
    return msgspec.structs.replace(request, prompt=whole, stdin_text=None, files=())


def with_files(prompt: str, files: Sequence[TextFile]) -> str:
    """Return a prompt with the texts of files, each with its path. The texts are data and are not changed."""
    ends = ("" if file.text.endswith("\n") else "\n" for file in files)
    parts = (f'<file path="{file.path}">\n{file.text}{end}</file>' for file, end in zip(files, ends, strict=True))
    return "\n\n".join([prompt, *parts])


def with_stdin(prompt: str, text: str) -> str:
    """Return a prompt with its piped input, in a form that several agents know from their own command lines.

    The text is data and is not changed, whatever tags are in it; only its last line is ended.

    Raises:
        UsageError: the text is too long.
    """
    if not text:
        return prompt
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_STDIN_BYTES:
        raise UsageError(
            f"stdin_text has {size:,} bytes",
            expected=f"at most {MAX_STDIN_BYTES:,}",
            help="put the text into a file and name the file in the prompt",
        )
    end = "" if text.endswith("\n") else "\n"
    return f"{prompt}\n\n<stdin>\n{text}{end}</stdin>"


def encoded(prompt: str) -> bytes:
    """Return the prompt as bytes for the agent. Bytes of the command line that were not UTF-8 are restored.

    Raises:
        UsageError: half a surrogate pair, which cannot be encoded.
    """
    try:
        return prompt.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        half = f"U+{ord(prompt[error.start]):04X}"
        raise UsageError(f"the prompt has half a character ({half})", expected="text that UTF-8 can encode") from error


def as_json_text(prompt: str) -> str:
    """Return the prompt for agents that receive it in JSON: bytes that were not UTF-8 are replaced.

    Raises:
        UsageError: as `encoded`.
    """
    return encoded(prompt).decode("utf-8", "replace")


def unsupported(agent: str, what: str, *, can: str) -> UsageError:
    """Return the error for something that an agent cannot do. `what` completes "cannot"; `can` is the alternative."""
    return UsageError(f"{agent} cannot {what}", help=can)


class Longest(msgspec.Struct, frozen=True):
    """Longest prompt that one input of an agent accepts; the agent itself drops or rejects more."""

    size: int
    unit: Literal["bytes", "characters"] = "bytes"

    def check(self, agent: str, prompt: str) -> None:
        """Check the length of a prompt, before anything starts.

        Raises:
            UsageError: the prompt is longer.
        """
        size = len(encoded(prompt)) if self.unit == "bytes" else len(prompt)
        if size > self.size:
            raise UsageError(
                f"the prompt, with all that goes with it, has {size:,} {self.unit}, which is too long for {agent}",
                expected=f"at most {self.size:,} {self.unit}",
                help="put the text into a file and name the file in the prompt",
            )


ARGUMENT = Longest(MAX_ARGUMENT_BYTES)


def as_argument(agent: str, prompt: str) -> str:
    """Return the prompt for an agent that accepts it only as an argument.

    Raises:
        UsageError: it is longer than an argument can be.
    """
    ARGUMENT.check(agent, prompt)
    return prompt


@runtime_checkable
class Adapter(Protocol):
    """Reader of one agent's wire. One instance reads one stream.

    `read` receives each wire event, decoded to `wire`, and returns the updates that it means; an event without
    updates is a control event. It never receives the same object twice, is called in the order of the lines, and must
    not raise, whatever the values are: `wire` guarantees types, not meaningful values.

    The three attributes are read only, so plain ones of the class are enough: `name = "parrot"`.
    """

    @property
    def name(self) -> str:
        """Name of the agent in the registry."""
        ...

    @property
    def traits(self) -> Traits:
        """Constants of the wire, which the normalizer needs."""
        ...

    @property
    def wire(self) -> Any:
        """Type that a line is decoded to: a `msgspec.Struct`, or a union of structs tagged by `type`.

        A field needs a default, unless each line of its kind has it and its type has an empty value (`""`, 0, `[]`). A
        value of another type becomes the default or the empty value (a number in a text field: its digits); an object
        whose tag is not in its union, and a line that is not an object, are passed as plain data.
        """
        ...

    def read(self, event: Any) -> Sequence[Update]:
        """Return the updates that one wire event means."""
        ...


@runtime_checkable
class Startable(Protocol):
    """Adapter class whose agent Penstock can start."""

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command line for a request. Pure: it reads only the request, which is `checked`.

        Raises:
            UsageError: the agent cannot do what is asked.
        """
        ...


@runtime_checkable
class Supporting(Startable, Protocol):
    """Adapter class with the features of its agent.

    A request with another feature is rejected before `command` is called. An adapter class that names none gets
    requests with a session, a fork, any `allow` and arguments, and rejects what its agent lacks itself.
    """

    @property
    def supports(self) -> Collection[Feature]:
        """Features that a request may have."""
        ...


@runtime_checkable
class Finishing(Adapter, Protocol):
    """Adapter that keeps updates until the stream has ended."""

    def finish(self) -> Sequence[Update]:
        """Return the updates that the end of the stream means, before the run is closed."""
        ...


@runtime_checkable
class Dialogue(Adapter, Protocol):
    """Adapter that also writes: a two-way protocol, one JSON object a line in both directions.

    Sans-IO like every adapter. It is made with the request (`Dialogue(request)`), or with None to read the
    recording of a dialogue; its output is then never fetched. Its output is collected, and the shell fetches it
    with `take` after each call. A question of the agent is a `Question` with `blocking`; the data that is needed to
    answer it is kept by its id.
    """

    @property
    def over(self) -> bool:
        """True if the agent has answered and nothing more is expected: the shell closes stdin."""
        ...

    def take(self) -> bytes:
        """Return the lines to write now, b"" for none. The first call returns the lines that open the dialogue."""
        ...

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question by the id of one of its options or in words; without either, reject it.

        Raises:
            KeyError: no such question is waiting.
        """
        ...

    def cancel(self) -> bool:
        """Ask the agent to stop, by the protocol's own means, and drop everything that waits for an answer.

        Return False if there is nothing to cancel yet: the shell then sends a signal at once.
        """
        ...


@runtime_checkable
class Steerable(Dialogue, Protocol):
    """Dialogue whose agent takes more messages while it works, without an end of its turn.

    Each message ends as a `Notice` with its id in `steer`: with the code `user`, in front of what the agent does about
    it, or with the code `error` if the agent rejects it. If the run ends with neither, the agent has not taken it.
    """

    def steer(self, id: str, text: str) -> Sequence[Update]:
        """Give the agent a message: its `text`, with an `id` of the caller's. One that has not begun gets it later."""
        ...


def not_taken(id: str, reason: str) -> Notice:
    """Return the notice that the agent did not take the message with this `id` while it worked, for this `reason`."""
    return Notice("error", f"the message was not taken: {reason}", "warning", steer=id)
