"""Files in the requests of programs of other protocols: data in the request itself. No address is ever fetched."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from penstock.chat.errors import ContentTooLarge, Invalid
from penstock.chat.service.attachments import MAX_ATTACHMENTS
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.media import media_type_of

DATA_URL = re.compile(r"data:([\w.+-]*/?[\w.+-]*)((?:;[\w.+-]+=[\w.+-]*)*)(;base64)?,", re.ASCII | re.IGNORECASE)
"""Pattern of the beginning of an address that has its data in itself."""

MAX_BYTES = ServiceLimits().max_attachment_bytes


class GivenFile(NamedTuple):
    """File of a message."""

    name: str
    content: bytes


def data_of(url: str, name: str) -> GivenFile:
    """Return the file in an address that has its data in itself.

    Raises:
        Invalid: it is another address, or not well formed.
        ContentTooLarge: it is too large, or a picture with too many pixels.
    """
    found = DATA_URL.match(url)
    if found is None:
        raise Invalid("addresses of files are not fetched", expected="the file itself, as a data: URL")
    rest = url[found.end() :]
    if found[3]:
        return base64_file(rest, name)
    if len(rest) > 4 * MAX_BYTES:
        raise _too_large(len(rest))
    return checked_file(unquote_to_bytes(rest), name)


def base64_file(data: str, name: str) -> GivenFile:
    """Return the file that is given in base64.

    Raises:
        Invalid: it is not base64, or empty.
        ContentTooLarge: it is too large, or a picture with too many pixels.
    """
    if len(data) > 4 * MAX_BYTES:
        raise _too_large(len(data))
    try:
        content = b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid("a file of the message is not base64", expected="its bytes in base64") from error
    return checked_file(content, name)


def checked_file(content: bytes, name: str) -> GivenFile:
    """Return a file of a message.

    Raises:
        Invalid: it is empty.
        ContentTooLarge: it is too large, or a picture with too many pixels.
    """
    if not content:
        raise Invalid("a file of the message is empty", expected="a file with content")
    if len(content) > MAX_BYTES:
        raise _too_large(len(content))
    media_type_of(content)
    return GivenFile(name, content)


def check_count(files: list[GivenFile]) -> list[GivenFile]:
    """Return the files of a message. Raises: Invalid: there are too many."""
    if len(files) > MAX_ATTACHMENTS:
        raise Invalid(f"the message has {len(files)} files", expected=f"at most {MAX_ATTACHMENTS}")
    return files


def _too_large(size: int) -> ContentTooLarge:
    return ContentTooLarge(f"a file of the message has {size:,} bytes", expected=f"at most {MAX_BYTES:,} bytes")
