"""Makes the runs of `penstock run`: their agents, prompt and sessions, from the options of the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.agents.registry import AGENTS
from penstock.cli import piped
from penstock.cli.ask import can_ask
from penstock.cli.directory import current_directory
from penstock.cli.options import RunOptions
from penstock.config.data import data_path
from penstock.errors import AgentNotFound, UsageError, shown
from penstock.run.history import History

if TYPE_CHECKING:
    from penstock.adapter import Level
    from penstock.cli.worktree import RunTrees
    from penstock.config.settings import Config
    from penstock.run.run import Run


class RunFactory:
    """Factory of the runs that the options ask for. `notify` gets messages to the user while the prompt is read.

    `is_whole`: the prompt is self-contained, so an agent of `--fallback` can answer it without the conversation.

    Raises:
        UsageError: the options do not fit together, or there is no prompt.
    """

    def __init__(self, options: RunOptions, config: Config, notify: piped.Notify, *, is_whole: bool = False) -> None:
        self.names: list[str] = [name.strip() for name in split_names(options.agents)]
        if not all(self.names):
            raise UsageError(
                f"a name is missing in {shown(options.agents)}" if options.agents.strip() else "the agent has no name",
                expected="names of agents with commas and no spaces between them",
            )
        self._options = options
        self._config = config
        several = len(self.names) > 1
        if several and (options.label or options.to == "chunks"):
            what, way = (
                ("--label names", "each has its own name") if options.label else ("--to chunks shows", "--to ndjson")
            )
            raise UsageError(f"{what} one agent, and there are {len(self.names)}", help=way)
        if several and options.asked["session_id"]:
            raise UsageError(
                "a session belongs to one agent", expected=f"one agent with --session, not {len(self.names)}"
            )
        if options.fallback:
            self._check_fallback(is_whole)
        elif options.fallback_on is not None:
            raise UsageError("--fallback-on is for --fallback, and there is none", help="--fallback AGENT")
        if options.asked.get("retry") and options.to == "chunks":
            raise UsageError("--to chunks shows one run, and --retry may start another", help="--to ndjson")
        self._sessions = [self._session(name) for name in self.names]
        self.prompt: str
        self.prompt, self._stdin_text = _prompt(options, notify)
        self.trees: RunTrees | None = _trees(options, notify)
        """Trees of the agents, if each works in its own."""
        self.can_ask: bool = can_ask()
        """Somebody can answer the agents' questions."""

    def _check_fallback(self, is_whole: bool) -> None:
        options = self._options
        if len(self.names) > 1:
            raise UsageError(
                "--fallback replaces one agent, and there are several", help="leave it out, or name one agent"
            )
        if options.to == "chunks":
            raise UsageError("--to chunks shows one run, and --fallback may start another", help="--to ndjson")
        if (options.asked["session_id"] or options.resumes_newest) and not is_whole:
            what = "a conversation belongs to one agent, and --fallback may start another"
            raise UsageError(what, help="leave out --fallback, or the conversation")

    def _session(self, name: str) -> str | None:
        return _newest_session(name, self._options) if self._options.resumes_newest else None

    def _route(self, name: str, session_id: str | None) -> str | None:
        """Return the route on which a conversation began, if it has to stay there; None if any other route resumes it.

        Some agents keep conversations over ACP separate from their others.
        """
        facts = AGENTS.get(name.partition("/")[0])
        if session_id is None or facts is None or self._options.asked["route"] is not None:
            return None
        try:
            began = History(data_path()).route(name, session_id)
        except OSError:
            return None
        changes = "acp" in (began, *facts.asking[:1]) and began in facts.routes
        return began if changes else None

    def runs(self) -> list[Run]:
        """Return the runs, none of them started.

        Raises:
            UsageError: a part of the request cannot be done.
            AgentNotFound: one of the agents is not installed.
        """
        try:
            return self._runs()
        except BaseException:
            if self.trees is not None:
                self.trees.discard(0)
            raise

    def _runs(self) -> list[Run]:
        names = self.names
        runs = []
        for number, (name, session_id) in enumerate(zip(names, self._sessions, strict=True), 1):
            label = self._options.label or (f"{name}-{names[:number].count(name)}" if names.count(name) > 1 else None)
            shares_output = len(names) > 1 or bool(self._options.fallback or self._options.asked.get("retry"))
            runs.append(self._make(name, label, number if shares_output else None, session_id))
        return runs

    def check_fallback(self, name: str) -> None:
        """Check that a fallback agent exists and can do what is asked; it need not be installed.

        Raises:
            UsageError: it does not exist, or cannot.
        """
        try:
            self._agent_run(name, None, None, {"session_id": None})
        except AgentNotFound:
            pass  # it is skipped when its turn comes

    def fallback(self, name: str, number: int) -> Run:
        """Return the run of an agent that takes over, with its number in the output.

        Raises:
            UsageError: it cannot do what is asked.
            AgentNotFound: it is not installed.
        """
        count = len(self.trees.trees) if self.trees is not None else 0
        try:
            return self._make(name, self._options.label, number, None, takes_over=True)
        except BaseException:
            if self.trees is not None:
                self.trees.discard(count)
            raise

    def _make(
        self, name: str, label: str | None, number: int | None, session_id: str | None, *, takes_over: bool = False
    ) -> Run:
        other: dict[str, Any] = {"session_id": session_id} if session_id is not None or takes_over else {}
        if self.trees is not None:
            other |= self.trees.add(label or name)
        return self._agent_run(name, label, number, other)

    def _agent_run(self, name: str, label: str | None, number: int | None, other: dict[str, Any]) -> Run:
        """Return a run with the requested options, some of them replaced by `other`."""
        from penstock.run.agent import Agent
        from penstock.run.lifecycle import Limits

        asked: dict[str, Any] = {**self._options.asked, **other}
        if (route := self._route(name, asked["session_id"])) is not None:
            asked["route"] = route
        if self.can_ask:
            asked["limits"] = Limits(counts_questions=False)  # a person who reads a question is not the agent
        agent = Agent(name, {}, self._config)
        run = agent.run(self.prompt, stdin_text=self._stdin_text, label=label, ask=self.can_ask, number=number, **asked)
        run.retries_itself = False  # each attempt is shown as a run of its own
        if self._options.fails_if_denied:
            _check_counts_refused(name, run.route, run.allow)
        return run


def _trees(options: RunOptions, notify: piped.Notify) -> RunTrees | None:
    if not options.worktree:
        return None
    from penstock.cli.worktree import RunTrees

    return RunTrees(options, notify)


def _check_counts_refused(agent: str, route: str, level: Level) -> None:
    """Check that the number of denied actions is known at the end of a run.

    Raises:
        UsageError: it is not.
    """
    if level == "read":
        raise UsageError(
            "with --allow read an agent lacks the tools that would be refused, so --fail-on-refusal cannot work",
            help="leave it out, or use --allow ask",
        )
    facts = AGENTS.get("acp" if agent.startswith("acp:") else agent.partition("/")[0])
    routes = facts.routes if facts is not None else {}
    if route in routes and routes[route].counts_refused:
        return
    others = [name for name, other in routes.items() if other.counts_refused]
    raise UsageError(
        f"{agent} does not report denied actions on the route {route}, so --fail-on-refusal cannot work",
        help=f"use --route {others[0]}" if others else "leave it out, or use another agent",
    )


def _newest_session(agent: str, options: RunOptions) -> str:
    """Return the newest conversation of an agent in the directory of the run.

    Raises:
        UsageError: there is none.
    """
    history, cwd = History(data_path()), options.asked["cwd"] or str(current_directory())
    try:
        newest = history.newest(agent, cwd)
    except OSError as error:
        raise UsageError(f"{history.path} cannot be read: {error.strerror}") from error
    if newest is None or newest.session_id is None:
        raise UsageError(
            f"{agent} has no earlier conversation in this directory",
            help="penstock sessions lists those of all agents, penstock sessions --all those of all directories",
        )
    return newest.session_id


def split_names(agents: str) -> list[str]:
    """Return the names in a comma-separated list; a command after `acp:` keeps its commas."""
    names: list[str] = []
    for word in agents.split(","):
        if names and names[-1].startswith("acp:") and word.partition("/")[0].strip() not in AGENTS:
            names[-1] += "," + word
        else:
            names.append(word)
    return names


def _prompt(options: RunOptions, notify: piped.Notify) -> tuple[str, str]:
    """Return the prompt, and the text from stdin that accompanies it."""
    word, template = options.prompt, options.template
    if template is not None and word != "-" and (word is not None or not template.needs_prompt):
        word = template.filled(word or "")
    elif template is not None:
        prompt, text = _prompt(msgspec.structs.replace(options, template=None), notify)
        return template.filled(prompt), text
    if word is not None and word != "-":
        return word, piped.read_beside(notify) if word.strip() and options.stdin == "auto" else ""
    if word is None and os.isatty(0):
        raise UsageError("there is no prompt", expected="it after the agent's name, or from stdin")
    if options.stdin == "never":
        raise UsageError("--stdin never leaves no prompt", expected="one after the agent's name")
    return piped.read_prompt(notify), ""
