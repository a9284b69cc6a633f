"""Errors of requests to a chat, each with a `code` and an HTTP `status`, as `docs/gateway-api.md` lists them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import UsageError


class ChatError(UsageError):
    """A request that fails because of its content or the state of the chat. Nothing has changed."""

    code = "invalid"
    status = 400


class Invalid(ChatError):
    """A value is invalid."""


class NoSuchAgent(ChatError):
    """No agent has that name."""


class OutsideRoots(ChatError):
    """The directory, with links resolved, is outside all roots."""

    code = "forbidden"
    status = 403


class NoSuchChat(ChatError):
    """No chat has this id, or it was deleted."""

    code = "not_found"
    status = 404

    def __init__(self, id: str) -> None:
        super().__init__("there is no such chat", expected="the id of a chat that was not deleted")
        self.id = id


class NotAllowed(ChatError):
    """The person may not do this."""

    code = "not_allowed"
    status = 403


class NoSuchShare(ChatError):
    """No share has this code or id, or it has expired."""

    code = "not_found"
    status = 404

    def __init__(self) -> None:
        super().__init__("this share does not exist, has expired or was revoked", help="ask for a new link")


class NoSuchAttachment(ChatError):
    """The chat has no attachment of this id, or no longer keeps it."""

    code = "not_found"
    status = 404

    def __init__(self) -> None:
        super().__init__("the chat does not have this file", expected="the id of a file that was uploaded to it")


class NoSuchRun(ChatError):
    """No document or loop has this id, or it lacks the requested item."""

    code = "not_found"
    status = 404

    def __init__(self, what: str = "there is no such document or loop") -> None:
        super().__init__(what, expected="an id of GET /api/runs")


class NoSuchNode(ChatError):
    """No node has this name."""

    code = "not_found"
    status = 404

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no node {name[:100]!r}", help="penstock nodes lists them")


class NoSuchTurn(ChatError):
    """The chat does not have this turn, or no longer keeps it."""

    code = "not_found"
    status = 404


class UntrustedDirectory(ChatError):
    """No user has trusted the files of this directory yet."""

    code = "untrusted_directory"
    status = 409

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the directory {path!r} is not trusted yet",
            expected="your confirmation: files in this directory can define commands that agents run",
            help="trust it, if you know where its files come from",
        )
        self.path = path


class Conflicting(ChatError):
    """The request conflicts with the state of the chat."""

    code = "conflict"
    status = 409


class LandingConflict(Conflicting):
    """The result of a loop was not landed. `paths` are the files in conflict or in the way."""

    def __init__(self, what: str, *, help: str = "", paths: Sequence[str] = ()) -> None:
        super().__init__(what, help=help)
        self.paths: list[str] = list(paths)


class ContentTooLarge(ChatError):
    """The prompt or another text is too large."""

    code = "content_too_large"
    status = 413


class TooMany(ChatError):
    """The queue is full, or the limit of chats is reached."""

    code = "too_many_requests"
    status = 429


class ShuttingDown(ChatError):
    """The server is shutting down and begins nothing new."""

    code = "shutting_down"
    status = 503

    def __init__(self) -> None:
        super().__init__("Penstock is shutting down", help="try again in a moment")
