"""Agents for programs: `agent(name)`, its `send_streaming`, its `run`. A thin layer over `run.supervisor`.

    for chunk in agent("claude").send_streaming("hi"):
        print(chunk.text, end="")

    async with agent("codex").run("fix it", cwd=repo) as run:
        async for event in run: ...
    print(run.result.reply)

    print(agent("claude").ask("what is in this folder?").reply)

`docs/python-api.md` is the guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Unpack, runtime_checkable

from penstock.config import settings as configuration
from penstock.config.rules import FUNCTION, NAME, check
from penstock.run.launch import ACP, plan
from penstock.run.result import Result
from penstock.run.run import OnQuestion, Run
from penstock.run.spec import OPTION_RULES, Options, spec_of
from penstock.sinks.chunks import ChunksSink, StreamChunk


@runtime_checkable
class StreamingAgent(Protocol):
    """Interface of an agent that accepts a prompt and streams its output; agents of your own may implement it."""

    name: str

    def send_streaming(
        self, prompt: str, session_id: str | None = None, fork: bool = False, model: str | None = None
    ) -> Iterator[StreamChunk]:
        """Yield chunks of new text; the last one `is_final` and has the whole reply and the session id."""
        ...


class PromptOptions(Options, total=False):
    """Keywords of `Agent.run` and its short forms."""

    session_id: str | None
    fork: bool
    model: str | None
    stdin_text: str | None
    on_question: OnQuestion | None


class Agent:
    """Agent that can be run; create one with `agent`. It holds no process: each run has its own."""

    def __init__(self, name: str, options: Options, config: configuration.Config) -> None:
        self.name = name
        self._options = options
        self._config = config

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
        **options: Unpack[Options],
    ) -> Run:
        """Return a run of this prompt, not started yet: enter it to start it.

        `stdin_text` is appended to the prompt as `penstock run` appends piped input. `on_question` is called with each
        question of the agent (`penstock.events.QuestionAsked`) while the run is read, between two events. It returns
        the id of an option, words, or None to reject it.

        Raises:
            UsageError: the agent cannot do what is asked, or the value of an option is not usable. Nothing was started.
            AgentNotFound: its program is not installed.
        """
        asked = {"session_id": session_id, "fork": fork, "model": model, "stdin_text": stdin_text}
        if on_question is not None:
            check({"on_question": on_question}, {"on_question": FUNCTION})
            options["ask"] = True
        chosen = _checked({**self._options, **options})
        spec = spec_of({"agent": self.name, "prompt": prompt, **asked, **chosen})
        return Run(plan(spec, self._config), spec, on_question)

    def ask(
        self,
        prompt: str,
        **asked: Unpack[PromptOptions],
    ) -> Result:
        """Run this prompt to its end and return the result: the reply, the session id, the changes. It blocks.

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
        """Do the same as `ask` in an event loop; cancelling the task stops the agent."""
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
        the session id. `stdin_text` is as in `run`. The agent is started by the first `next`; closing or dropping the
        iterator ends it.

        Raises:
            UsageError: as `run`, at once.
            AgentNotFound: its program is not installed, at once.
            AgentFailed: after the final chunk, if the run did not end well.
        """
        return _chunks(self.run(prompt, session_id=session_id, fork=fork, model=model, stdin_text=stdin_text))


def _chunks(run: Run) -> Iterator[StreamChunk]:
    sink = ChunksSink()
    with run:
        for batch in run.batches():
            yield from sink.chunks(batch)
    run.check()


def agent(name: str, **options: Unpack[Options]) -> Agent:
    """Return the agent of this name: `claude`, `codex`, `ccs/glm`, `acp:COMMAND`, or one of the configuration.

    The options apply to all of its runs.

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
    return Agent(name, checked_options, config)


def _checked(options: Options) -> Options:
    """Return the options if they are usable.

    Raises:
        UsageError: they are not usable.
    """
    check(options, OPTION_RULES)
    return options
