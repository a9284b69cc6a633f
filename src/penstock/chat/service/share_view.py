"""Views of shares for clients, and what a client has to know of them."""

from __future__ import annotations

import msgspec

from penstock.chat.store.rows import Share

DAYS, MAX_DAYS = 7, 365
"""Days after which a share expires: the default and the maximum."""

SHARED = "/s"
"""Path of the page of a share, whose code is in the fragment of the address."""


class ShareView(msgspec.Struct, frozen=True):
    """Share of a chat. Times are milliseconds since 1970."""

    id: str
    chat: str
    created_at: int
    expires_at: int
    until: int | None
    """Last turn that it shows; null for the whole chat."""
    details: bool
    """True if it also shows what the agent did."""
    person: str
    """Person who made it."""


class MadeShare(msgspec.Struct, frozen=True):
    """Share that was made, with its link. The link is shown this once."""

    share: ShareView
    url: str


def view_of(share: Share) -> ShareView:
    """Return a share as those see it who may manage its chat."""
    return ShareView(share.id, share.chat, share.created_at, share.expires_at, share.until, share.details, share.person)
