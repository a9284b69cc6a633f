"""Requests to other servers, which nothing waits for: how often one is tried, and what an answer means."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

TRY_SECONDS = (0.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each try of a message: a receiver that is started again is there within some minutes."""

ANSWER_SECONDS = 10.0
"""Seconds in which a receiver has to answer."""

TRY_AGAIN = frozenset({408, 425, 429})
"""Statuses below 500 after which a message is tried again: the receiver asks for it."""


class SentOnce(NamedTuple):
    """Result of one try."""

    problem: str
    """Why the message did not arrive; "" if it did."""
    is_final: bool
    """True if another try cannot help."""
    status: int | None = None


async def repeat(attempt: Callable[[], Awaitable[SentOnce]], sleep: Callable[[float], Awaitable[object]]) -> SentOnce:
    """Try until a message has arrived, another try cannot help, or there were enough; return the last result."""
    result = SentOnce("", True)
    for seconds in TRY_SECONDS:
        if seconds:
            await sleep(seconds)
        result = await attempt()
        if not result.problem or result.is_final:
            break
    return result


async def post(
    url: str,
    content: bytes,
    headers: Mapping[str, str],
    *,
    name: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> SentOnce:
    """Send one request. No redirect is followed, and the body of the answer is not read.

    `name`: host that the certificate has to name, if the URL has an IP address instead. `tls`: certificates that are
    trusted; None: those of the system.
    """
    import httpx  # only a server that sends needs it

    extensions = {} if name is None else {"sni_hostname": name}
    verify: ssl.SSLContext | bool = True if tls is None else tls
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            httpx.AsyncClient(
                follow_redirects=False, timeout=ANSWER_SECONDS, verify=verify, trust_env=name is None
            ) as client,
            client.stream("POST", url, content=content, headers=dict(headers), extensions=extensions) as answer,
        ):
            status = answer.status_code
    except (httpx.HTTPError, TimeoutError, OSError) as error:
        return SentOnce(f"no answer ({type(error).__name__})", False)
    except (httpx.InvalidURL, ValueError) as error:
        return SentOnce(f"no request can be made ({type(error).__name__})", True)
    if 200 <= status < 300:
        return SentOnce("", True, status)
    if 300 <= status < 400:
        return SentOnce(f"the answer is a redirect ({status}), which is not followed", True, status)
    return SentOnce(f"the answer is status {status}", status < 500 and status not in TRY_AGAIN, status)
