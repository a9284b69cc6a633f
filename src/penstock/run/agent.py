"""Agents for programs: `agent(name)`, its `send_streaming`, its `run`. A thin layer over `run.supervisor`.

    for chunk in agent("claude").send_streaming("hi"):
        print(chunk.text, end="")

    async with agent("codex").run("fix it", cwd=repo) as run:
        async for event in run: ...
    print(run.result.reply)

    print(agent("claude").ask("what is in this folder?").reply)

    chat = agent("claude").conversation()
    chat.ask("read the tests")
    print(chat.ask("which of them are slow?").reply)

`docs/python.md` is the guide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol, Unpack, runtime_checkable

import msgspec

from penstock.adapter import PROMPT_RULES
from penstock.config import settings as configuration
from penstock.config.rules import FUNCTION, NAME, STRINGS, check
from penstock.errors import AgentNotFound, UsageError
from penstock.run.conversation import Conversation, TurnOptions, chunks_of
from penstock.run.launch import ACP, plan
from penstock.run.result import Result
from penstock.run.retries import Retries
from penstock.run.run import OnQuestion, Retrying, Run
from penstock.run.spec import OPTION_RULES, Options, spec_of
from penstock.run.takeover import Takeover, checked_causes
from penstock.sinks.chunks import StreamChunk


@runtime_checkable
class StreamingAgent(Protocol):
    """Interface of an agent that accepts a prompt and streams its output; agents of your own may implement it."""

    name: str

    def send_streaming(
        self, prompt: str, session_id: str | None = None, fork: bool = False, model: str | None = None
    ) -> Iterator[StreamChunk]:
        """Yield chunks of new text; the last one `is_final` and has the whole reply and the session id.

        `prompt` continues the conversation `session_id`, or with `fork` a branch of it. `model` is the agent's name for
        one; None is its default.
        """
        ...


class PromptOptions(TurnOptions, total=False):
    """Keywords of `Agent.run` and its short forms."""

    session_id: str | None
    fork: bool
    on_question: OnQuestion | None
    fallback: Sequence[str]
    fallback_on: Sequence[str]


_OWN_OPTIONS = ("command", "adapter", "label", "number")
"""Options of the first agent alone, which the agents that take over do not get."""


class Agent:
    """Agent that can be run; create one with `agent`. It holds no process: each run has its own."""

    def __init__(
        self,
        name: str,
        options: Options,
        config: configuration.Config,
        fallback: Sequence[str] = (),
        fallback_on: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self._options = options
        self._config = config
        self._fallback = _checked_names(fallback)
        self._fallback_on = checked_causes(fallback_on)

    def __repr__(self) -> str:
        return f"agent({self.name!r})"

    def run(
        self,
        prompt: str,
        *,
        session_id: str | None = None,
        fork: bool = False,
        model: str | None = None,
        stdin_text: str | None = None,
        on_question: OnQuestion | None = None,
        fallback: Sequence[str] | None = None,
        fallback_on: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Run:
        """Return a run of this prompt, not started yet: enter it to start it.

        `session_id` continues a conversation, `fork` branches it, and `model` is the agent's name for a model.
        `options` are those of `agent`, for this run alone.

        `stdin_text` is appended to the prompt as `penstock run` appends piped input. `on_question` is called with each
        question of the agent (`penstock.events.QuestionAsked`) while the run is read, between two events. It returns
        the id of an option, words, or None to reject it. `fallback` names agents that take over if this one cannot
        work, by the rules of `penstock run --fallback`; by default those of `agent`. `fallback_on` names the causes
        after which they do (`penstock run --fallback-on`).

        Raises:
            UsageError: the agent cannot do what is asked, or the value of an option is not usable. Nothing was started.
            AgentNotFound: its program is not installed.
        """
        asked = {"session_id": session_id, "fork": fork, "model": model, "stdin_text": stdin_text}
        if on_question is not None:
            check({"on_question": on_question}, {"on_question": FUNCTION})
            options["ask"] = True
        chosen = _checked({**self._options, **options})
        causes = self._fallback_on if fallback_on is None else checked_causes(fallback_on)
        names = self._fallback if fallback is None else _checked_names(fallback)
        if not names:
            return self._run(self.name, {"prompt": prompt, **asked, **chosen}, on_question)
        if session_id is not None:
            raise UsageError(
                "a conversation belongs to one agent, and a fallback may start another",
                help="leave out fallback, or the session id",
            )
        return self._run_or_fall_back(names, causes, {"prompt": prompt, **asked, **chosen}, on_question)

    def _run(self, name: str, asked: dict[str, Any], on_question: OnQuestion | None) -> Run:
        spec = spec_of({"agent": name, **asked})
        planned = partial(plan, config=self._config)
        if not spec.retry:
            return Run(planned(spec), spec, on_question)
        spec = msgspec.structs.replace(spec, number=spec.number or 1)  # the attempts share an output
        return Run(planned(spec), spec, on_question, Retrying(Retries(spec), planned))

    def _run_or_fall_back(
        self, names: Sequence[str], causes: frozenset[str], asked: dict[str, Any], on_question: OnQuestion | None
    ) -> Run:
        """Return the run of the first agent that is installed; the next ones take over."""
        shared = {name: value for name, value in asked.items() if name not in _OWN_OPTIONS}
        first = asked.get("number") or 1

        def make(name: str, number: int) -> Run:
            return self._run(name, {**shared, "number": number}, on_question)

        for name in names:
            try:
                make(name, first)
            except AgentNotFound:
                pass  # it is passed over when its turn comes
        takeover: Takeover[Run] = Takeover(self.name, names, make, lambda text: None, causes)
        try:
            run = self._run(self.name, {**asked, "number": first}, on_question)
        except AgentNotFound as error:
            run = takeover.run_instead(error, first)
        run.fall_back(takeover)
        return run

    def conversation(
        self, *, session_id: str | None = None, fork: bool = False, on_question: OnQuestion | None = None
    ) -> Conversation:
        """Return a conversation, in which each prompt continues where the last one ended.

        `session_id` continues an existing one, and `fork` branches that. `on_question` is as in `run`, for all prompts.

        Raises:
            UsageError: `fork` without a session id, or the agent has a fallback.
        """
        if self._fallback:
            raise UsageError(
                "a conversation belongs to one agent, and a fallback may start another", help="leave out fallback"
            )
        if fork and session_id is None:
            raise UsageError("there is nothing to fork", expected="a session_id, the conversation that is branched")
        check({"session_id": session_id, "fork": fork}, PROMPT_RULES)
        return Conversation(self.name, partial(self.run, on_question=on_question), session_id, fork=fork)

    def ask(
        self,
        prompt: str,
        **asked: Unpack[PromptOptions],
    ) -> Result:
        """Run this prompt to its end and return the result: the reply, the session id, the changes. It blocks.

        `asked` has the keywords of `run`.

        Raises:
            UsageError: as `run`.
            AgentNotFound: its program is not installed.
            AgentFailed: the run did not end well.
        """
        with self.run(prompt, **asked) as run:
            run.wait()
        return run.check()

    async def ask_async(
        self,
        prompt: str,
        **asked: Unpack[PromptOptions],
    ) -> Result:
        """Do the same as `ask` in an event loop; cancelling the task stops the agent.

        `prompt` and `asked` are as in `ask`.

        Raises:
            UsageError: as `run`.
            AgentNotFound: its program is not installed.
            AgentFailed: the run did not end well.
        """
        async with self.run(prompt, **asked) as run:
            await run.await_end()
        return run.check()

    def send_streaming(
        self,
        prompt: str,
        session_id: str | None = None,
        fork: bool = False,
        model: str | None = None,
        *,
        stdin_text: str | None = None,
    ) -> Iterator[StreamChunk]:
        """Send a prompt; yield chunks of new text as the agent writes, then one that `is_final`.

        The final chunk has the part of the reply that was not yet emitted in `text`, the whole reply in `reply`, and
        the session id. `session_id`, `fork`, `model` and `stdin_text` are as in `run`. The agent is started by the
        first `next`; closing or dropping the iterator ends it.

        Raises:
            UsageError: as `run`, at once.
            AgentNotFound: its program is not installed, at once.
            AgentFailed: after the final chunk, if the run did not end well.
        """
        if self._fallback:
            raise UsageError("chunks show one run, and a fallback may start another", help="use run or ask")
        return chunks_of(self.run(prompt, session_id=session_id, fork=fork, model=model, stdin_text=stdin_text))


def agent(
    name: str,
    *,
    fallback: Sequence[str] = (),
    fallback_on: Sequence[str] | None = None,
    **options: Unpack[Options],
) -> Agent:
    """Return the agent of this name: `claude`, `codex`, `ccs/glm`, `acp:COMMAND`, or one of the configuration.

    The options apply to all of its runs. `fallback` names agents that take over if this one cannot work, and
    `fallback_on` the causes after which they do.

    Raises:
        UnknownAgent: there is no agent of that name.
        UsageError: an option is not known, or its value is not usable.
    """
    from penstock.agents import registry

    check({"name": name}, {"name": NAME})
    checked_options = _checked(options)
    config = configuration.load()
    base = name.partition("/")[0]
    configured = name.startswith(ACP) or name in config.agents() or options.get("command")
    if base not in registry.AGENTS and not configured:
        registry.reader(name)  # raises if there is none
    return Agent(name, checked_options, config, fallback, fallback_on)


def conversation(
    name: str,
    *,
    session_id: str | None = None,
    fork: bool = False,
    on_question: OnQuestion | None = None,
    **options: Unpack[Options],
) -> Conversation:
    """Return a conversation with the agent of this name: `agent(name, …).conversation(…)`.

    `options` are those of `agent`; `session_id`, `fork` and `on_question` those of `Agent.conversation`.

    Raises:
        UnknownAgent: there is no agent of that name.
        UsageError: an option is not known, or its value is not usable.
    """
    return agent(name, **options).conversation(session_id=session_id, fork=fork, on_question=on_question)


def _checked_names(fallback: Sequence[str]) -> tuple[str, ...]:
    """Return the names of agents that take over.

    Raises:
        UsageError: they are not names.
    """
    check({"fallback": fallback}, {"fallback": STRINGS})
    return tuple(fallback)


def _checked(options: Options) -> Options:
    """Return the options if they are usable.

    Raises:
        UsageError: they are not usable.
    """
    check(options, OPTION_RULES)
    return options
