"""Verdict of a reviewer, read from its reply. Everything that is not exactly a verdict is "not approved"."""

from __future__ import annotations

import re

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


_decode = msgspec.json.Decoder(_VerdictReply, strict=True).decode


def verdict_of(reply: str) -> ReviewVerdict:
    """Return the verdict of a reply: one JSON object and nothing else, at most in one code fence.

    A verdict that stands in a longer text may be a quotation from the repository, so it does not count.
    """
    text = reply.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        read = _decode((fenced[1] if fenced is not None else text).encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return ReviewVerdict(approved=False, remarks=(NO_VERDICT,))
    remarks = tuple(remark.strip()[:MAX_REMARK_CHARS] for remark in read.remarks[:MAX_REMARKS] if remark.strip())
    return ReviewVerdict(approved=read.approved, remarks=remarks)
