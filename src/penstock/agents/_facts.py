"""The kinds of facts that each agent's `facts.py` states. Data only: no adapter is imported to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from penstock.adapter import Longest

MIB = 1024 * 1024

Feature = Literal["resume", "fork", "edits", "args"]
"""A part of a request that not every route supports: going on with a session, branching it, `allow="edits"`, more
arguments."""


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """Fields by which one decoded line is recognised. All of them must fit.

    A field is named by its path (`message.id`); a path that ends in a dot leads to an object.
    """

    types: tuple[str, ...] = ()
    """The line's `type` is one of these; `*.*` is any with a dot. (): the line has no `type`."""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    equals: Mapping[str, tuple[object, ...]] = {}
    """The value of each of these fields is one of those given."""
    differs: Mapping[str, tuple[object, ...]] = {}
    """The value of each of these fields is none of those given."""
    begins: Mapping[str, str] = {}
    """Each of these fields is a string that begins so."""
    only: bool = False
    """The line has no field but its `type` and those named in `has` and `begins`."""


class OtherOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Output of an agent that is no stream of events: how it is recognised, and the flag that gives a stream."""

    help: str
    sign: Sign | None = None
    """The one JSON value that it prints at the end. A list of its events is recognised without this."""
    beginning: str = ""
    """Its plain text begins so."""


class AcpQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent's ACP differs from what the protocol lets expect."""

    called: str
    """A part of the name that the agent gives itself, in lower case."""
    marks_sub_agents: bool = False
    """It marks the text of its sub-agents or does not send it: text without a mark is its own at any time."""
    marks_no_calls: bool = False
    """Calls of its sub-agents have no mark, and no call is ever reported to run: an announced call runs."""
    announces_running: bool = False
    """It announces a call when the call runs, whatever its status says."""
    counts: Literal["", "before", "after"] = ""
    """`usage_update` comes before each model call, or after each; "": neither is sure."""
    tool_name: Literal["", "id", "title", "pending title"] = ""
    """The place of a tool's name: the beginning of the call's id, of its title, or the title while it is pending."""
    status_remark: str = ""
    """A regular expression: chunks of text that match it are the agent's own words about its state."""
    private_methods: tuple[str, ...] = ()
    """How the methods begin that are between the agent and its own clients, besides the protocol's `_`."""
    levelled_remarks: bool = False
    """A chunk that begins with `Error:`, `Warning:` or `Info:` is the agent's own and not the model's."""


class RouteFacts(msgspec.Struct, frozen=True):
    """One way to run an agent: `exec`, its plain JSON command; `server`, its own two-way protocol; `acp`."""

    reader: str
    """The class that reads it, as `module:Class` in `penstock.agents`."""
    program: str
    """The name that is looked up in PATH; "" where no program of the agent's is started."""
    starter: str = ""
    """The function that makes its command line, as `module:function`; "": the reader's own `command`."""
    live: bool = True
    """Text comes in pieces as the model writes it."""
    cannot: Mapping[Feature, str] = {}
    """What it does not support, each with what it can do instead."""
    longest: Longest | None = None
    """The longest prompt, where the agent drops or refuses more than that."""
    signs: tuple[Sign, ...] = ()
    """Lines that only this route of this agent prints: any one of them is enough."""

    @property
    def resume(self) -> bool:
        """Whether a conversation can be gone on with."""
        return "resume" not in self.cannot

    @property
    def fork(self) -> bool:
        """Whether a conversation can be branched."""
        return "fork" not in self.cannot


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one agent without running it."""

    routes: Mapping[str, RouteFacts]
    """The best one first: it is the default."""
    install: str = ""
    """The command, or the address, by which people get it."""
    tested: str | None = None
    """The version of the recordings among the tests."""
    proven: bool = True
    """There are recordings of the real agent."""
    stream: str = ""
    """The command that prints its stream of events, in pieces if it can; "" if it has none of its own."""
    profiles: bool = False
    """A name behind a slash (`agent/NAME`) is a profile of the agent's."""
    no_command: str = ""
    """What to do instead, where it cannot be started by its name alone."""
    variables: tuple[str, ...] = ()
    """How the names of the environment variables begin that it reads."""
    switches: Mapping[str, tuple[str, ...]] = {}
    """Variables that turn a provider on, each with the beginnings of the names that it then reads besides."""
    outer_variables: tuple[str, ...] = ()
    """Variables that it sets for the programs it runs. An agent that inherits them takes itself for a part of the
    outer one: some then refuse to start, or wait."""
    other_output: OtherOutput | None = None
    acp: AcpQuirks | None = None

    @property
    def default(self) -> RouteFacts:
        """The route that is taken where none is asked for."""
        return next(iter(self.routes.values()))


NO_FORK: Mapping[Feature, str] = {"fork": "it can go on with the session: leave the fork away"}
"""`RouteFacts.cannot` of a route that resumes and does not branch."""


def npm(package: str) -> str:
    """The command that installs a package of npm."""
    return f"npm install -g {package}"
