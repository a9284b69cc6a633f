"""End of an ACP turn: the answer to its prompt, the figures in it, and the reasons of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.agents._json import (
    as_dict,
    as_int,
    as_list,
    inner_message,
    list_of,
    object_of,
    text_of,
    word_of,
)
from penstock.updates import Notice, Result, RunStart, Update, Usage

_CUT = {
    "max_turn_requests": "the turn reached its limit of model calls (max_turn_requests)",
    "refusal": "the agent refused to continue (refusal)",
}


def ended(
    result: dict[str, Any],
    session_id: str | None,
    error: str | None,
    cost: float | None,
    *,
    may_be_cancelled: bool = True,
    of_models: bool = False,
) -> Iterator[Update]:
    """Translate the answer to `session/prompt`.

    Args:
        result: the answer.
        session_id: of the session that was prompted.
        error: the agent's own text of an error, if it was the last text: `end_turn` is not a success then.
        cost: of the session so far, in US dollars.
        may_be_cancelled: somebody cancelled the turn or rejected a permission. Some agents at times report a cancel
            in the middle of a long reply, though nobody cancelled.
        of_models: whether the figures of the models count, since the others leave out turns of the agent itself.
    """
    stop = word_of(result.get("stopReason"))
    if model := model_of_usage(result):
        yield RunStart(model=model)
    if stop == "refusal":
        yield Notice("refusal", _CUT[stop], "warning", cause="refusal")
    reason = _CUT.get(stop, error)
    cancelled = stop == "cancelled" and may_be_cancelled
    if stop == "cancelled" and not cancelled:
        reason = reason or "the agent reported a cancel, but nobody cancelled"
    yield Result(
        is_error=reason is not None and not cancelled,
        reason=None if cancelled else reason,
        session_id=session_id,
        usage=(_usage_of_models(result) if of_models else None) or usage_of(result),
        cost_usd=cost,
        cancelled=cancelled,
        stop_reason=stop or None,
        cause="refusal" if stop == "refusal" else None,
    )


def usage_of(holder: dict[str, Any]) -> Usage | None:
    """Return the figures in an answer or in `_meta`; None if there are none.

    Some agents include cached and reasoning tokens in input and output, some count them separately: the total shows
    which.
    """
    meta = object_of(holder.get("_meta"))
    figures = object_of(holder.get("usage")) or object_of(meta.get("usage"))
    if not figures:
        counts = object_of(object_of(meta.get("quota")).get("token_count"))
        return _quota(counts) if counts else None
    names = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "thoughtTokens", "totalTokens")
    given, out, read, write, thought, total = (as_int(figures.get(name)) for name in names)
    beside = (total or 0) - (given or 0) - (out or 0)
    cached = (read or 0) + (write or 0)
    if cached and beside in (cached, cached + (thought or 0)):
        given = (given or 0) + cached
        beside -= cached
    if thought and beside == thought:
        out = (out or 0) + thought
    return Usage(given, out, read, write, thought) if given or out else None


def _quota(counts: dict[str, Any]) -> Usage | None:
    given, out = as_int(counts.get("input_tokens")), as_int(counts.get("output_tokens"))
    return Usage(given, out) if given or out else None


def _usage_of_models(result: dict[str, Any]) -> Usage | None:
    """Return the sum of the figures of all models; None if there are none."""
    total: Usage | None = None
    for each in list_of(object_of(object_of(result.get("_meta")).get("quota")).get("model_usage")):
        counts = as_dict(as_dict(each).get("token_count"))
        names = ("inputTokens", "outputTokens", "cachedInputTokens", "cachedWriteTokens")
        given, out, read, write = (as_int(counts.get(name)) for name in names)
        if given is not None and out is not None:
            used = Usage(given + (read or 0) + (write or 0), out, read, write)
            total = used if total is None else total + used
    return total


def model_of_usage(holder: dict[str, Any]) -> str | None:
    """Return the model named in the figures, if any."""
    used = as_list(as_dict(as_dict(holder.get("_meta")).get("quota")).get("model_usage"))
    names = [text_of(as_dict(each).get("model")) for each in used]
    return names[0] or None if len(names) == 1 else None


def reason_of(error: Any) -> str:
    """Return the message of a JSON-RPC error, with the details of its `data`."""
    fields = as_dict(error)
    message = inner_message(text_of(fields.get("message"))) or "the agent reported an error and gave no message"
    data = fields.get("data")
    if isinstance(data, dict):
        data = next((data[key] for key in ("details", "message", "error", "reason") if data.get(key)), None)
    details = inner_message(text_of(data)) if data is not None else ""
    return f"{message}: {details}" if details and details not in message else message
