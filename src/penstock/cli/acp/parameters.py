"""Parameters that a client of ACP sends with its requests, and the answers that it gives."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import msgspec

from penstock.chat.web.doors.acp import FIELD
from penstock.cli.acp.content import ContentBlock
from penstock.cli.stdio.peer import INVALID_PARAMS, RpcError

Given = TypeVar("Given")


class ElicitationCapabilities(msgspec.Struct):
    """Kinds of questions that the client can ask a person."""

    form: dict[str, Any] | None = None


class SessionFeatures(msgspec.Struct):
    """Updates of a session that the client shows only if it says so."""

    notices: dict[str, Any] | None = None
    compaction: dict[str, Any] | None = None


class LoginFeatures(msgspec.Struct):
    """Ways to log in that the client offers."""

    terminal: bool | None = None


class ClientMeta(msgspec.Struct, rename={"terminal_auth": "terminal-auth"}):
    """Names in `_meta` that clients use beside the protocol."""

    terminal_auth: Any = None
    """True for a client that starts logins in a terminal, from the time before the protocol had them."""


class ClientCapabilities(msgspec.Struct, rename={"meta": "_meta"}):
    """Features of the client."""

    elicitation: ElicitationCapabilities | None = None
    session: SessionFeatures | None = None
    auth: LoginFeatures | None = None
    meta: ClientMeta | None = None

    @property
    def starts_logins(self) -> bool:
        """Whether the client can start the login of an agent in a terminal."""
        has_old = self.meta is not None and self.meta.terminal_auth is True
        return has_old or (self.auth is not None and bool(self.auth.terminal))


class Initialize(msgspec.Struct, rename="camel"):
    """Parameters of `initialize`."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class NewSession(msgspec.Struct, rename="camel"):
    """Parameters of `session/new`."""

    cwd: str
    mcp_servers: list[Any] = []


class OneSession(msgspec.Struct, rename="camel"):
    """Parameters of methods about a session."""

    session_id: str
    cwd: str | None = None
    mcp_servers: list[Any] = []


class PromptParams(msgspec.Struct, rename="camel"):
    """Parameters of `session/prompt`."""

    session_id: str
    prompt: list[ContentBlock]


class ListSessions(msgspec.Struct, rename="camel"):
    """Parameters of `session/list`."""

    cwd: str | None = None
    cursor: str | None = None


class SetOption(msgspec.Struct, rename="camel"):
    """Parameters of `session/set_config_option`."""

    session_id: str
    config_id: str
    value: str


class SetMode(msgspec.Struct, rename="camel"):
    """Parameters of `session/set_mode`."""

    session_id: str
    mode_id: str


class Authenticate(msgspec.Struct, rename="camel"):
    """Parameters of `authenticate`."""

    method_id: str


class CancelRequest(msgspec.Struct, rename="camel"):
    """Parameters of `$/cancel_request`."""

    request_id: str | int


class FilledForm(msgspec.Struct):
    """Answer to a form."""

    action: str
    content: dict[str, Any] | None = None


class Chosen(msgspec.Struct, rename="camel"):
    """Answer to a request for a permission."""

    outcome: str
    option_id: str | None = None


class Permission(msgspec.Struct):
    """Answer to a request for a permission."""

    outcome: Chosen


def read(params: Any, kind: type[Given]) -> Given:
    """Return the parameters of a request.

    Raises:
        RpcError: they are not of this kind.
    """
    try:
        return msgspec.convert(params, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"the parameters are not valid: {error}") from error


def chosen_option(answer: Future[Any]) -> str | None:
    """Return the option that the client has chosen; None if it has chosen none, or failed."""
    try:
        chosen = msgspec.convert(answer.result(), Permission).outcome
    except (CancelledError, RpcError, msgspec.ValidationError, RecursionError):
        return None
    return chosen.option_id if chosen.outcome == "selected" else None


def filled_in(answer: Future[Any]) -> str | None:
    """Return what the person has entered in a form; None if nothing, or the client failed."""
    try:
        form = msgspec.convert(answer.result(), FilledForm)
    except (CancelledError, RpcError, msgspec.ValidationError, RecursionError):
        return None
    value = (form.content or {}).get(FIELD)
    return value if form.action == "accept" and isinstance(value, str) and value.strip() else None
