"""State of one conversation in a terminal: its agent, its options, its prompts so far and their cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from penstock.adapter import Allow
from penstock.cli.advice import resume_command
from penstock.cli.cost import Total, as_text
from penstock.cli.editor.handover import summary
from penstock.cli.editor.run_edits import RunEdits
from penstock.cli.editor.undo import Undos
from penstock.cli.options import RunOptions
from penstock.errors import PenstockError
from penstock.events import AgentCommand, RunEnded, Usage
from penstock.run.history import History, RunRecord

NOT_CARRIED: Mapping[str, Any] = {
    "session_id": None,
    "fork": False,
    "route": None,
    "model": None,
    "effort": None,
    "args": [],
}
"""Options that belong to one agent, with the values that another agent begins with."""

STEPS: tuple[Allow, ...] = ("ask", "default", "edits", "all", "read")
"""Levels in the order of Shift+Tab. `all` is left out until it was asked for by its name: one key is pressed easily."""


class PossibleRun(Protocol):
    """Run that was made to see whether it is possible."""

    @property
    def level(self) -> str:
        """What the agent may do in it, in a few words."""
        ...


class TerminalConversation:
    """One conversation.

    Args:
        options: options of its next run.
        check: function that raises a PenstockError if a run with these options cannot be made.
    """

    def __init__(self, options: RunOptions, check: Callable[[RunOptions], PossibleRun]) -> None:
        self.options: RunOptions = options
        self.level: str = ""
        """What the agent may do in the next run, in a few words; "" before the first one."""
        self.model: str | None = options.asked["model"]
        """Model of the agent, as far as it is known."""
        self.offered: Sequence[AgentCommand] = ()
        """Commands that the agent offers, as far as it has listed them."""
        self._steps = {step for step in STEPS if step != "all" or options.asked["allow"] == "all"}
        self._check = check
        self._prompts: list[str] = []
        """Prompts that the agents were given, without summaries."""
        self._reply = ""
        self._replied_by = ""
        self._summary = ""
        """Summary for the next prompt, which begins another agent's session."""
        self._totals: dict[str, Total] = {}
        self.undos: Undos = Undos()
        """Changes of the prompts so far."""

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self.options.agents

    @property
    def directory(self) -> str:
        """Directory in which the agent works."""
        return os.path.abspath(self.options.asked["cwd"] or ".")

    @property
    def session_id(self) -> str | None:
        """Id of the agent's session; None before its first prompt was answered."""
        session_id: str | None = self.options.asked["session_id"]
        return session_id

    @property
    def title(self) -> str | None:
        """Title of the next run in the history; None: the beginning of what the agent is sent."""
        return self.options.prompt if self._summary else None

    def change(self, **asked: Any) -> None:
        """Change options of the following runs, by their fields in `RunSpec`.

        Raises:
            PenstockError: the agent cannot do it; nothing is changed.
        """
        self._adopt(msgspec.structs.replace(self.options, asked={**self.options.asked, **asked}))
        if "model" in asked:
            self.model = asked["model"]
        if "allow" in asked:
            self._steps.add(asked["allow"])

    def step_level(self) -> str:
        """Change the level of the following runs to the next one that the agent can keep; return a line about it."""
        before, at = self.level, STEPS.index(now) if (now := self.options.asked["allow"]) in STEPS else 0
        for step in (*STEPS[at + 1 :], *STEPS[:at]):
            if step not in self._steps:
                continue
            options = msgspec.structs.replace(self.options, asked={**self.options.asked, "allow": step})
            try:
                level = self._check_possible(options)
            except PenstockError:
                continue  # not a level of this agent
            if level != before:
                self.options, self.level = options, level
                return f"the next prompt runs with: {level}"
        return f"{self.agent} has no other level that this key sets; /allow sets any"

    def attach(self, paths: Sequence[str]) -> list[str]:
        """Give the next prompt files; return all that it has.

        Raises:
            PenstockError: one cannot be read, or the agent takes no files; nothing is changed.
        """
        known = [str(path) for path in self.options.asked.get("files") or ()]
        files = list(dict.fromkeys([*known, *(os.path.join(self.directory, path) for path in paths)]))
        self.change(files=files)
        return files

    def hand_over(self, agent: str) -> None:
        """Let another agent go on, in a session of its own that begins with a summary of this conversation.

        Raises:
            PenstockError: there is no such agent, or it cannot do what is asked; nothing is changed.
        """
        asked = {**self.options.asked, **NOT_CARRIED}
        self._adopt(msgspec.structs.replace(self.options, agents=agent, asked=asked, resumes_newest=False))
        self.model, self.offered = None, ()
        if self._prompts:
            self._summary = summary(self._replied_by, self._prompts, self._reply)

    def _adopt(self, options: RunOptions) -> None:
        self.level = self._check_possible(options)
        self.options = options

    def check(self) -> None:
        """Check that the agent can be started, before somebody types a prompt for it.

        Raises:
            PenstockError: it cannot.
        """
        self.level = self._check_possible(self.options)

    def _check_possible(self, options: RunOptions) -> str:
        """Check that a run with these options can be made; return its level."""
        return self._check(msgspec.structs.replace(options, prompt="a prompt", template=None)).level

    def status(self) -> list[str]:
        """Return what the line below the prompt has, the most important first."""
        return [self.level, self.agent, self.model or ""]

    def begin(self, prompt: str | None) -> RunOptions:
        """Return the options of a run with the next prompt; None is the prompt that the command line has."""
        if prompt is not None:
            # To `penstock run` a single dash is standard input; here it is what somebody typed.
            self.options = msgspec.structs.replace(self.options, prompt=f"{prompt} " if prompt == "-" else prompt)
        if not self._summary:
            return self.options
        return msgspec.structs.replace(self.options, prompt=f"{self._summary}\n\n{self.options.prompt}")

    def end(self, ended: RunEnded | None, session_id: str | None, edits: RunEdits | None = None) -> None:
        """Note how the run of the last prompt ended, and the files that it changed."""
        if edits is not None:
            edits.prompt = self.options.prompt or ""
            self.undos.add(edits)
        self._prompts.append(self.options.prompt or "")
        self.options = msgspec.structs.replace(self.options, stdin="never", template=None)
        if session_id is not None:  # the agent has the files, the branch and the summary now
            asked = {**self.options.asked, "session_id": session_id, "fork": False, "files": []}
            self.options = msgspec.structs.replace(self.options, asked=asked, resumes_newest=False)
            self._summary = ""
        if ended is None:
            return
        self._reply, self._replied_by = ended.reply, self.agent
        usage = ended.usage or Usage()
        cost = ended.cost_usd if ended.cost_usd is not None else usage.cost_usd
        self._totals.setdefault(self.agent, Total(self.agent)).add(
            RunRecord(run="", at=0, cost_usd=cost, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        )

    def cost(self) -> str:
        """Return the tokens and the cost of the runs so far, as a table for people."""
        return as_text(list(self._totals.values()), "agent") if self._totals else "Nothing has run yet.\n"

    def resume_command(self, history: History | None = None) -> str:
        """Return the command that goes on with the session later; "" if there is none.

        If the session is the newest one in `history`, the command has `-c` instead of the id.
        """
        session: str | None = self.session_id
        if session is None:
            return ""
        if history is not None and history.is_newest_session(self.agent, self.directory, session):
            session = None
        return resume_command(self.agent, self.options.asked["cwd"], session, self.options.asked)
