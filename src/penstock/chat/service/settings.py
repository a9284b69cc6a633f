"""Settings of a chat: the fields that clients change, each with its check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.chat.errors import Invalid
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.chats.heartbeats import checked
from penstock.chat.service.validation import (
    allow_of,
    budget_of,
    effort_of,
    model_of,
    setting_of,
    text_of,
    title_of,
    visibility_of,
)
from penstock.chat.store.rows import ChatChanges, ChatRow, Heartbeat


class SettingChecks:
    """Checks of the settings of all chats."""

    def __init__(self, agents: Agents, max_prompt_bytes: int, now: Callable[[], int]) -> None:
        self._agents = agents
        self._max_prompt_bytes = max_prompt_bytes
        self._now = now
        self._checks: dict[str, Callable[[Any], Any]] = {
            "title": title_of,
            "budget": budget_of,
            "model": model_of,
            "allow": allow_of,
            "visibility": visibility_of,
            "heartbeat": self._heartbeat_of,
            "effort": effort_of,
        }

    def checked(self, row: ChatRow, values: Mapping[str, Any]) -> ChatChanges:
        """Return the changes of a chat's row that these values make. A field without a check here has `setting_of`.

        Raises:
            Invalid, ContentTooLarge: there is no such setting, or its value is not valid for this chat.
        """
        found = {
            name: self._checks[name](value) if name in self._checks else setting_of(name, value)
            for name, value in values.items()
        }
        if "model" in found and found["model"] is None and self._agents.needs_model(row.agent):
            raise Invalid(f"{row.agent} needs the name of a model", expected='"model"')
        self._agents.check_effort(row.agent, found.get("effort"))
        if "heartbeat" in found and found["heartbeat"] != row.heartbeat:
            found["heartbeat_since"] = self._now()
        return ChatChanges(**found)

    def _heartbeat_of(self, given: Any) -> Heartbeat | None:
        heartbeat = checked(given)
        if heartbeat is not None:
            text_of(heartbeat.prompt, self._max_prompt_bytes)
        return heartbeat
