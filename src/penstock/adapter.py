"""What an adapter's author imports: the request and the command line that it becomes, and the protocols of an adapter.

An agent's own file turns a `Request` into a `Command` (a pure function), so what Penstock would start can be
read, tested and shown without starting it. What an agent cannot do is an error here, before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import msgspec

from penstock.config.rules import STRING, SWITCH, Rule, Rules, check, optional
from penstock.errors import UsageError
from penstock.updates import Answer, Traits, Update

Allow = Literal["default", "edits", "all"]
"""What the agent may do without being asked: as it comes; change files; everything. `docs/agents/README.md` has the
flag that each agent has for it."""

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""The longest single argument that Linux passes to a program (MAX_ARG_STRLEN, with its closing NUL). A prompt that
is longer needs an agent that reads it from stdin."""
MAX_STDIN_BYTES = 10 * 1024 * 1024
"""The most text that goes with a prompt: several times what the largest model can read, and no more than an agent
that is handed it keeps in memory without trouble."""
MAX_SESSION_ID_CHARS = 128
MAX_MODEL_CHARS = 256

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt for one agent, and how it is to be run. `checked` is called on it before any agent sees it."""

    prompt: str
    model: str | None = None
    session_id: str | None = None
    """The conversation to go on with; None begins one."""
    fork: bool = False
    """Branch that conversation: the agent gives it a new session id, and the old one stays as it is."""
    cwd: str | None = None
    """The directory in which the agent works; None: the one of this process. A launch gives the absolute path."""
    allow: Allow = "default"
    profile: str | None = None
    """The part of an agent's name after the slash: the `ccs` profile, `glm` in `ccs/glm`."""
    args: tuple[str, ...] = ()
    """More arguments for the agent, put before the prompt."""
    stdin_text: str | None = None
    """What was piped in beside the prompt. `checked` appends it to the prompt."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is started for one request."""

    argv: tuple[str, ...]
    program: int = 0
    """Where in it the agent's program stands: behind a bridge, if it is reached through one."""
    stdin: bytes = b""
    """Written and then closed. A dialogue writes its own lines and leaves stdin open; this is then empty."""
    env: dict[str, str] = {}
    """Set over the environment that the agent inherits. Never a secret: what is here may be shown."""
    unset: tuple[str, ...] = ()
    """Variables that the agent must not inherit."""


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


SESSION_ID = Rule(
    _is_session_id,
    "letters, digits, '.', '_' and '-', as the agent gave it in run_started or run_ended",
    "session id",
)
MODEL = Rule(_is_model, "the name as the agent knows it", "model name")

PROMPT_RULES: Rules = {
    "prompt": STRING,
    "stdin_text": optional(STRING),
    "session_id": optional(SESSION_ID),
    "fork": SWITCH,
    "model": optional(MODEL),
}
"""What belongs to one prompt. How an agent is run besides is in `penstock.run.run`."""


def checked(request: Request) -> Request:
    """The request, if no agent can misread it; its prompt is then all that the agent is given.

    Raises:
        UsageError: `fork` without a session id, a session id or model that could be read as a flag or a path, a NUL,
            too much text.
    """
    check({name: getattr(request, name) for name in PROMPT_RULES}, PROMPT_RULES)
    if not request.prompt.strip():
        raise UsageError("the prompt is empty", expected="something to ask the agent")
    whole = with_stdin(request.prompt, request.stdin_text or "")
    if "\0" in whole or any("\0" in arg for arg in request.args):
        raise UsageError("the prompt or an argument has a NUL character", expected="text: no program can be given it")
    encoded(whole)
    if request.fork and request.session_id is None:
        raise UsageError("there is nothing to fork", expected="a session_id, the conversation that is branched")
    return msgspec.structs.replace(request, prompt=whole, stdin_text=None)


def with_stdin(prompt: str, text: str) -> str:
    """A prompt with what was piped in beside it, as several agents know it from their own command lines.

    The text is data and stays as it is, whatever tags are in it; its last line is ended.

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
    """The prompt as an agent gets it. Bytes of the command line that were no UTF-8 go back to what they were.

    Raises:
        UsageError: half a surrogate pair, which no encoding has.
    """
    try:
        return prompt.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        half = f"U+{ord(prompt[error.start]):04X}"
        raise UsageError(f"the prompt has half a character ({half})", expected="whole ones, as UTF-8 has") from error


def as_json_text(prompt: str) -> str:
    """The prompt for agents that get it inside of JSON: bytes that were no UTF-8 are replaced.

    Raises:
        UsageError: as `encoded`.
    """
    return encoded(prompt).decode("utf-8", "replace")


def unsupported(agent: str, what: str, *, can: str) -> UsageError:
    """The error for what an agent cannot do. `what` completes "cannot"; `can` says what it can do instead."""
    return UsageError(f"{agent} cannot {what}", help=can)


class Longest(msgspec.Struct, frozen=True):
    """The longest prompt that a way to an agent takes; the agent itself drops or refuses more."""

    size: int
    unit: Literal["bytes", "characters"] = "bytes"

    def check(self, agent: str, prompt: str) -> None:
        """Raise an error for a longer one, before anything starts.

        Raises:
            UsageError: it is longer.
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
    """The prompt, where an agent takes it as an argument alone.

    Raises:
        UsageError: it is longer than an argument can be.
    """
    ARGUMENT.check(agent, prompt)
    return prompt


@runtime_checkable
class Adapter(Protocol):
    """The meaning of one agent's words. One instance reads one stream.

    `read` is given each wire event, decoded as `wire` says, and answers with the updates it means; none
    makes it a control event. It is never given twice the same object, is called in the order of the
    lines, and must not raise, whatever the values are: `wire` guarantees types, not sense.
    """

    name: ClassVar[str]
    """The agent's name in the registry."""
    traits: ClassVar[Traits]
    wire: ClassVar[Any]
    """What a line is decoded to: a `msgspec.Struct`, or a union of structs tagged by `type`. All fields
    need defaults. A value of another type becomes the field's default (a number in a text field: its
    digits); an object whose tag is not in its union, and a line that is no object, are given as plain data."""

    def read(self, event: Any) -> Sequence[Update]:
        """The updates that one wire event means."""
        ...


@runtime_checkable
class Startable(Protocol):
    """An adapter class whose agent Penstock can start."""

    @staticmethod
    def command(request: Request) -> Command:
        """The command line for a request. Pure: it looks at nothing but the request, which is `checked`.

        Raises:
            UsageError: the agent cannot do what is asked.
        """
        ...


@runtime_checkable
class Finishing(Adapter, Protocol):
    """An adapter that keeps something until the stream has ended."""

    def finish(self) -> Sequence[Update]:
        """What the end of the stream means, before the run is closed."""
        ...


@runtime_checkable
class Dialogue(Adapter, Protocol):
    """An adapter that also speaks: a two-way protocol, one JSON object a line in both directions.

    Sans-IO like every adapter. It is made with the request (`Dialogue(request)`), or with None to read what was
    recorded of a dialogue; whatever it then would say is not asked for. What it has to say gathers, and the
    shell fetches it with `take` after each call. A question of the agent's is a `Question` with `blocking`; what is
    needed to answer it is kept by its id.
    """

    over: bool
    """The agent has answered and nothing more is expected: the shell closes stdin, and the process may go."""

    def take(self) -> bytes:
        """The lines to write now, b"" for none. The first call gives the lines that open the dialogue."""
        ...

    def answer(self, answer: Answer) -> Sequence[Update]:
        """Answer a question by the id of one of its options or in words; without either, reject it.

        Raises:
            KeyError: no such question is waiting.
        """
        ...

    def cancel(self) -> bool:
        """Ask the agent to stop, in the protocol's own way, and give up what waits for an answer.

        False where there is nothing to cancel yet: the shell then signals at once.
        """
        ...
