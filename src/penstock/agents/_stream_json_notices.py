"""Notices of the `stream-json` wire: what the program reports about itself, its hooks, its retries and its limits."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_int, text_of
from penstock.agents._stream_json_causes import cause_of_error, milliseconds
from penstock.agents._stream_json_wire import System
from penstock.events import Level, NoticeCode
from penstock.updates import Notice

_NOTICES: dict[str, tuple[NoticeCode, Level]] = {
    "compact_boundary": ("compaction", "info"),
    "task_started": ("background", "info"),
    "task_notification": ("background", "info"),
    "task_summary": ("background", "info"),
    "scheduled_task_fire": ("background", "info"),
    "agents_killed": ("background", "warning"),
    "model_refusal_no_fallback": ("refusal", "warning"),
    "model_refusal_fallback": ("refusal", "warning"),
    "model_fallback": ("model", "warning"),
    "model_consent_fallback": ("model", "warning"),
    "permission_denied": ("permission", "warning"),
    "permission_retry": ("permission", "info"),
    "stop_hook_summary": ("hook", "info"),
    "informational": ("status", "info"),
    "notification": ("status", "info"),
    "local_command_output": ("status", "info"),
    "memory_recall": ("status", "info"),
    "memory_saved": ("status", "info"),
    "plugin_install": ("status", "info"),
    "mirror_error": ("error", "warning"),
    "api_error": ("error", "warning"),
    "worker_shutting_down": ("session", "warning"),
    "session_writes_lost": ("session", "warning"),
    "file_attachments_missing": ("status", "warning"),
    "peer_message_hold": ("status", "info"),
    "turn_preempted": ("status", "info"),
    "ui_log": ("status", "info"),
    "ui_notify": ("status", "info"),
    "ui_toast": ("status", "info"),
    "continue_turn_failed": ("error", "warning"),
}

_DECLINED = frozenset({"model_refusal_no_fallback", "model_refusal_fallback"})
"""Subtypes of the reports that the model declined."""

_ACCEPTED = frozenset({"allowed", "allowed_warning"})
"""States of a limit, or of the credit beyond it, in which requests are accepted."""


def task_report(event: System) -> System:
    """Return a report of a task with each field in its own place; some agents have them in `data`."""
    data = as_dict(event.data)
    if not event.subtype.startswith("task_") or event.task_id is not None or not text_of(data.get("task_id")):
        return event
    return msgspec.structs.replace(
        event,
        task_id=text_of(data["task_id"]),
        tool_use_id=text_of(data.get("tool_use_id")) or None,
        description=data.get("description"),
        status=data.get("status"),
        data=None,
    )


def system_notice(event: System) -> Notice | None:
    """Return the notice of a `system` line; None if its subtype makes none."""
    kind = event.subtype
    if kind == "api_retry":
        return _retry(event)
    if kind == "hook_response":
        return _hook(event)
    if kind in _NOTICES:
        code, level = _NOTICES[kind]
        code = "status" if _is_shown_by_call(event) else code
        return Notice(code, text_of_system(event), level, cause="refusal" if kind in _DECLINED else None)
    return None


def _is_shown_by_call(event: System) -> bool:
    """Return whether a report only repeats its call or the result: a start, or an end that is not in the background.

    Work in the background leaves its output in a file; the end of other work has an empty name there.
    """
    if not event.tool_use_id:
        return False
    return event.subtype == "task_started" or (event.subtype == "task_notification" and event.output_file == "")


def limit_notice(info: dict[str, Any]) -> Notice | None:
    """Return the notice of a `rate_limit_event`, which is about the quota of a subscription; None if all is well.

    A quota that is used up has the time of its reset, in seconds, unless credit beyond it is in use.
    """
    status = info.get("status")
    if status in (None, "allowed"):
        return None
    what = " ".join(text_of(info.get(key)) for key in ("status", "rateLimitType") if info.get(key))
    text = f"rate limit: {what}"
    if status != "rejected" or text_of(info.get("overageStatus")) in _ACCEPTED:
        return Notice("rate_limit", text, "warning")
    return Notice("rate_limit", text, "warning", cause="usage_limit", resets_at=milliseconds(info.get("resetsAt")))


def _retry(event: System) -> Notice:
    status = f" ({event.error_status})" if event.error_status else ""
    return Notice(
        "retry",
        f"{text_of(event.error) or 'error'}{status}",
        "warning",
        cause=cause_of_error(event.error, event.error_status),
        attempt=as_int(event.attempt),
        max_attempts=as_int(event.max_retries),
        wait_ms=as_int(event.retry_delay_ms),
    )


def _hook(event: System) -> Notice:
    failed = event.outcome not in (None, "success") or event.exit_code not in (None, 0)
    said = f": {text_of(event.stderr).strip()}" if failed and text_of(event.stderr).strip() else ""
    text = f"hook {event.hook_name or ''} {'failed' if failed else 'ran'}{said}"
    return Notice("hook", " ".join(text.split(" ")), "warning" if failed else "info")


def text_of_system(event: System) -> str:
    """Return the text of a report of any subtype."""
    if event.subtype == "compact_boundary":
        tokens = as_dict(event.compact_metadata)
        before, after = as_int(tokens.get("pre_tokens")), as_int(tokens.get("post_tokens"))
        return "conversation compacted" + (f": {before} tokens to {after}" if before and after else "")
    values = (event.content, event.message, event.text, event.description, event.summary, event.error, event.data)
    said = next((text for value in values if (text := text_of(value))), "")
    what = event.subtype.replace("_", " ")
    extra = text_of(event.status if event.subtype.startswith("task_") else event.tool_name)
    return ": ".join(part for part in (what, extra, said) if part)
