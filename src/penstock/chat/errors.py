"""Why a chat refuses what is asked of it: each with a `code` and a `status`, as `docs/gateway-api.md` lists them."""

from __future__ import annotations

from penstock.errors import UsageError


class Refusal(UsageError):
    """What was asked cannot be done, by the caller's fault or as things stand. Nothing has changed."""

    code = "wrong"
    status = 400


class Wrong(Refusal):
    """A value cannot be what it is."""


class NoSuchAgent(Refusal):
    """No agent of that name can be chatted with."""


class OutsideRoots(Refusal):
    """A directory that is not below one of the roots, wherever its links lead."""

    code = "refused"
    status = 403


class NoSuchChat(Refusal):
    """There is no chat of this id, or no more."""

    code = "not_found"
    status = 404

    def __init__(self, id: str) -> None:
        super().__init__("there is no such chat", expected="the id of a chat that was not deleted")
        self.id = id


class NoSuchTurn(Refusal):
    """The chat has no such turn, or no longer keeps it."""

    code = "not_found"
    status = 404


class Untrusted(Refusal):
    """Nobody has said yet that the files of this directory are to be trusted."""

    code = "untrusted"
    status = 409

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the directory {path!r} is not trusted yet",
            expected="your word for it: what lies there can tell an agent what to run",
            way_out="trust it, if you know where its files come from",
        )
        self.path = path


class Conflicting(Refusal):
    """It does not go with how the chat stands."""

    code = "conflict"
    status = 409


class TooLarge(Refusal):
    """The prompt, or another text, is larger than is taken."""

    code = "too_large"
    status = 413


class TooMany(Refusal):
    """The queue is full, or there are as many chats as there may be."""

    code = "too_many"
    status = 429


class Ending(Refusal):
    """The server is about to end, and begins nothing any more."""

    code = "ending"
    status = 503

    def __init__(self) -> None:
        super().__init__("Penstock is about to end", way_out="come back in a moment")
