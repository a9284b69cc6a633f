"""Claude Code's list of tasks, which its tools change one task at a time. Penstock shows it as a plan."""

from __future__ import annotations

from typing import Any

from penstock.agents._json import as_dict, as_list, plan_items, text_of
from penstock.core.bounded import BoundedDict
from penstock.events import PlanItem

MAX_TASKS = 200
"""Number of tasks, and of calls without a result, that are kept."""

TOOLS = frozenset({"TaskCreate", "TaskUpdate", "TaskList"})


class TaskList:
    """State of the list, folded from calls and the details of their results: only these have the ids of new tasks.

    A task of an earlier run is unknown until the agent lists its tasks, so a change of it makes no plan.
    """

    def __init__(self) -> None:
        self._tasks: BoundedDict[str, dict[str, str]] = BoundedDict(MAX_TASKS)
        self._calls: BoundedDict[str, tuple[str, str]] = BoundedDict(MAX_TASKS)

    def note_call(self, call_id: str, name: str, value: Any) -> None:
        """Record a call until its result, with the new subject of a task, which the result does not have."""
        if name in TOOLS:
            self._calls[call_id] = (name, text_of(as_dict(value).get("subject")))

    def apply(self, call_id: str, details: dict[str, Any]) -> list[PlanItem] | None:
        """Apply the details of a result and return the plan; None if they do not change the list."""
        name, subject = self._calls.pop(call_id, ("", ""))
        id = text_of(details.get("taskId"))
        if name == "TaskCreate":
            self._add(as_dict(details.get("task")))
        elif name == "TaskList":
            self._tasks.clear()
            for task in map(as_dict, as_list(details.get("tasks"))):
                self._add(task)
        elif name == "TaskUpdate" and details.get("success") is True and id in self._tasks:
            self._update(id, subject, text_of(as_dict(details.get("statusChange")).get("to")))
        else:
            return None
        return plan_items(list(self._tasks.values()))

    def set_statuses(self, statuses: Any) -> list[PlanItem] | None:
        """Apply statuses that no call shows and return the plan; None if they change nothing."""
        changed = False
        for task in map(as_dict, as_list(statuses)):
            id, status = text_of(task.get("id")), text_of(task.get("status"))
            if status and id in self._tasks and self._tasks[id]["status"] != status:
                self._tasks[id]["status"] = status
                changed = True
        return plan_items(list(self._tasks.values())) if changed else None

    def _add(self, task: dict[str, Any]) -> None:
        if (id := text_of(task.get("id"))) and (subject := text_of(task.get("subject"))):
            self._tasks[id] = {"text": subject, "status": text_of(task.get("status"))}

    def _update(self, id: str, subject: str, status: str) -> None:
        if status == "deleted":
            del self._tasks[id]
            return
        self._tasks[id]["status"] = status or self._tasks[id]["status"]
        self._tasks[id]["text"] = subject or self._tasks[id]["text"]
