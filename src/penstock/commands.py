"""What is asked of an agent, and the command line that asks it: two values, and no process.

An agent's own file turns the one into the other (`command`, a pure function), so what Penstock would start can be
read, tested and shown without starting it. What an agent cannot do is refused here, before anything runs.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from penstock.errors import UsageError

Allow = Literal["default", "edits", "all"]
"""What the agent may do without being asked: as it comes; change files; everything. `docs/agents/README.md` has the
flag that each agent has for it."""

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""The longest single argument that Linux passes to a program (MAX_ARG_STRLEN, with its closing NUL). A prompt that
is longer needs an agent that reads it from stdin."""
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


def checked(request: Request) -> Request:
    """The request, if no agent can misread it.

    Raises:
        UsageError: `fork` without a session id, a session id or model that could be read as a flag or a path, a NUL.
    """
    if not request.prompt.strip():
        raise UsageError("the prompt is empty", expected="something to ask the agent")
    if "\0" in request.prompt or any("\0" in arg for arg in request.args):
        raise UsageError("the prompt or an argument has a NUL character", expected="text: no program can be given it")
    encoded(request.prompt)
    if request.fork and request.session_id is None:
        raise UsageError("there is nothing to fork", expected="a session id, the conversation that is branched")
    session_id, model = request.session_id, request.model
    if session_id is not None and not (
        _SESSION_ID.fullmatch(session_id) and len(session_id) <= MAX_SESSION_ID_CHARS and ".." not in session_id
    ):
        raise UsageError(
            f"{session_id[:MAX_SESSION_ID_CHARS]!r} is no session id",
            expected="letters, digits, '.', '_' and '-', as the agent told it in run_started or run_ended",
        )
    if model is not None and (
        not model or model.startswith("-") or len(model) > MAX_MODEL_CHARS or not model.isprintable()
    ):
        raise UsageError(f"{model[:MAX_MODEL_CHARS]!r} is no model name", expected="the name as the agent knows it")
    return request


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


def refuse(agent: str, what: str, *, can: str) -> UsageError:
    """The error for what an agent cannot do. `what` completes "cannot"; `can` says what it can do instead."""
    return UsageError(f"{agent} cannot {what}", way_out=can)


def as_argument(agent: str, prompt: str) -> str:
    """The prompt, where an agent takes it as an argument alone.

    Raises:
        UsageError: it is longer than an argument can be.
    """
    size = len(encoded(prompt))
    if size > MAX_ARGUMENT_BYTES:
        raise UsageError(
            f"the prompt has {size:,} bytes, and {agent} takes it as an argument",
            expected=f"at most {MAX_ARGUMENT_BYTES:,} bytes",
            way_out="put the text into a file and name the file in the prompt",
        )
    return prompt
