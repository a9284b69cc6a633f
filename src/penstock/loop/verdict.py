"""Verdict of a reviewer and choice of a judge, read from a reply. Only an exact verdict approves."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from penstock.loop.steps import ReviewVerdict

MAX_REMARKS = 50
"""Remarks of one reviewer that are kept: more than an agent can use in one round."""
MAX_REMARK_CHARS = 2_000
"""Characters of one remark that are kept."""

NO_VERDICT = "The reviewer did not answer with a verdict."
"""Remark if a reply is not a verdict."""

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n```", re.DOTALL)


class _VerdictReply(msgspec.Struct, forbid_unknown_fields=True):
    approved: bool
    remarks: list[str] = []


class _ChoiceReply(msgspec.Struct, forbid_unknown_fields=True):
    better: Literal[1, 2]
    reason: str = ""


_decode_choice = msgspec.json.Decoder(_ChoiceReply, strict=True).decode
_decode = msgspec.json.Decoder(_VerdictReply, strict=True).decode


def verdict_of(reply: str) -> ReviewVerdict:
    """Return the verdict of a reply: one JSON object and nothing else, at most in one code fence.

    A verdict that stands in a longer text may be a quotation from the repository, so it does not count.
    """
    try:
        read = _decode(_object_of(reply))
    except (msgspec.DecodeError, RecursionError):
        return ReviewVerdict(approved=False, remarks=(NO_VERDICT,))
    remarks = tuple(remark.strip()[:MAX_REMARK_CHARS] for remark in read.remarks[:MAX_REMARKS] if remark.strip())
    return ReviewVerdict(approved=read.approved, remarks=remarks)


def better_of(reply: str) -> int:
    """Return the choice of a judge, 1 or 2; 0 if the reply is not one JSON object with a choice."""
    try:
        return _decode_choice(_object_of(reply)).better
    except (msgspec.DecodeError, RecursionError):
        return 0


def _object_of(reply: str) -> bytes:
    """Return the text of a reply without a code fence around it."""
    text = reply.strip()
    fenced = _FENCED.fullmatch(text)
    return (fenced[1] if fenced is not None else text).encode("utf-8", "replace")
