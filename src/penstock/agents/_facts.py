"""Types of the facts in each agent's `facts.py`. Data only: no adapter is imported to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from penstock.adapter import Feature, Level, Limit, Longest
from penstock.agents._models import ModelList
from penstock.agents._project_files import ProjectFiles
from penstock.events import Cause

MIB = 1024 * 1024

Shown = Literal["diff", "fragment", "counts", "names", "nothing"]
"""Detail in which a route shows its edits: a diff with line numbers, a diff without them, the number of lines, the name
of the file, or nothing."""


PermissionKind = Literal["answers", "reads", "asks", "own", "edits", "all"]
"""Kind of the effect of a level, the same for all agents: it has no tools, only reads, asks before it acts, follows its
own settings, changes files, or does everything."""


class Permission(msgspec.Struct, frozen=True):
    """Effect of one level on an agent, in words for people."""

    kind: PermissionKind

    label: str
    """Two or three words."""
    text: str
    """One or two sentences."""


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """Fields by which one decoded line is recognised. All of them must match.

    A field is named by its path (`message.id`); a path that ends in a dot leads to an object.
    """

    types: tuple[str, ...] = ()
    """Possible values of the line's `type`; `*.*` is for all with a dot. (): the line has no `type`."""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    equals: Mapping[str, tuple[object, ...]] = {}
    """Fields with their possible values: each field has one of them."""
    differs: Mapping[str, tuple[object, ...]] = {}
    """Fields with their excluded values: no field has one of them."""
    begins: Mapping[str, str] = {}
    """Fields with the beginning of their value, which is a string."""
    only: bool = False
    """The line has no field but its `type` and those named in `has` and `begins`."""


class OtherOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Output of an agent that is not a stream of events: how to recognise it, and the flag that gives a stream."""

    help: str
    sign: Sign | None = None
    """Sign of the one JSON value that the agent prints at the end. A list of its events is recognised without this."""
    beginning: str = ""
    """Beginning of its plain text."""


class AcpQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between an agent's ACP and what the protocol leads a client to expect."""

    called: str
    """Part of the agent's own name for itself, in lower case."""
    marks_sub_agents: bool = False
    """The agent marks the text of its sub-agents or does not send it: text without a mark is its own at any time."""
    marks_no_calls: bool = False
    """Calls of its sub-agents have no mark, and no call is ever reported to run: an announced call runs."""
    announces_running: bool = False
    """The agent announces a call when the call runs, whatever its status is."""
    counts: Literal["", "before", "after"] = ""
    """Place of `usage_update` beside its model call; "" if neither is sure."""
    tool_name: Literal["", "id", "title", "pending title"] = ""
    """Place of a tool's name: the beginning of the call's id or of its title, or the title while the call is
    pending."""
    status_remark: str = ""
    """Regular expression of text chunks with the agent's own remarks about its state."""
    private_methods: tuple[str, ...] = ()
    """Beginnings of the methods, besides the protocol's `_`, that the agent uses only with its own clients."""
    whole_texts: bool = False
    """A `diff` has the whole texts of the file before and after, not only the parts that differ."""
    errors: tuple[tuple[str, Cause | None], ...] = ()
    """Regular expressions of the beginnings of the agent's own sentences about an error, with their causes. None: the
    cause of the HTTP status that is the first group."""
    exit_line: str = ""
    """Regular expression of the line that the agent adds to a command's output, with the exit status as its group. It
    is anchored, as the output of a command may have the same line anywhere else."""
    frame: str = ""
    """Regular expression of a command's result as the agent words it for its model in the content, without `exit_line`;
    its group is the output. `rawOutput` then has the output alone, if there is any."""
    command_status: bool = True
    """The agent reports whether a command succeeded."""
    levelled_remarks: bool = False
    """A chunk that begins with `Error:`, `Warning:` or `Info:` is the agent's own and not the model's."""
    start_arguments: str = ""
    """Regular expression of the versions that use the model, the effort and the instructions in their start arguments.
    Any other version must offer the protocol's way, else the run is an error. "": no version does."""
    modes: Mapping[Level, str] = {}
    """Modes by level, where their names do not say what they mean."""
    edit_tools: tuple[str, ...] = ()
    """Whole names of the tools for edits, if the agent does not mark them with the kind."""
    created: str = ""
    """Regular expression of the result of a tool that has made a new file. With any other result the tool may have
    written over a file whose content is unknown. "": the results do not say."""
    skipped: str = ""
    """Regular expression of the result of a call that was not run, though the agent reports it as completed."""
    answer_id: str = ""
    """Regular expression of the ids of messages; its group names the model's answer. An answer that follows another
    with no call between replaces it: the agent has discarded that, and asked the model again."""
    goes_on: bool = False
    """At its limit of tokens the agent lets the model go on, and reports nothing of it: a message after another, with
    no call between, continues that one if it ended within a sentence."""
    sums_usage: bool = True
    """The figures at the end are those of the whole turn, not of its last model call or of the whole session."""
    session_totals: bool = False
    """`_meta` of `usage_update` has the figures of the whole session so far: they grow by those of each model call."""
    own_model_ids: bool = False
    """The ids of models are the agent's own, and their names are those of the provider."""
    ignore_project: Mapping[str, object] = {}
    """`_meta` of the request that opens a session, by which the agent ignores the project's own settings."""


class KindSource(msgspec.Struct, frozen=True, kw_only=True):
    """Place of the kinds of lines in an installed program, from which they can be read without a run."""

    files: tuple[str, ...] = ()
    """Patterns of paths below the folder of the program's package; (): the program itself."""
    python: str = ""
    """Name of the program's package of Python, as in the name of its folder of metadata; "": a package of npm."""
    schema: tuple[str, ...] = ()
    """Arguments with which the program writes its schema, instead of `files`; `{folder}` is the place of its files."""
    patterns: tuple[tuple[str, str], ...] = ()
    """Beginnings of names, each with a regular expression that finds the rest: its groups, joined by slashes. An
    expression that begins with plain characters is many times as fast."""
    reader: str = ""
    """Function, as `module:name`, that yields the names in the content of one file, instead of `patterns`."""
    started: str = ""
    """Agent that this one starts, and whose lines it passes on: its program has the kinds, on the route of the same
    name. The other fields are not used then."""


ACP_SOURCE = (("session/update/", r"""sessionUpdate: ?["']([a-z_]{1,80})["']"""),)
"""`KindSource.patterns` of ACP: the updates that a program written in JavaScript makes."""


class RouteFacts(msgspec.Struct, frozen=True):
    """One way to run an agent: `exec`, its plain JSON command; `server`, its own two-way protocol; `acp`."""

    reader: str
    """Class that reads the route, as `module:Class` in `penstock.agents`."""
    program: str
    """Name to look up in PATH; "" if no program of the agent is started."""
    starter: str = ""
    """Function that makes the command line, as `module:function`; "": the reader's own `command`."""
    live: bool = True
    """Text comes in pieces as the model writes it."""
    supports: tuple[Feature, ...] = ()
    """Features that the route supports, besides limits; `support.check_support` rejects a request for any other."""
    counts: tuple[Limit, ...] = ()
    """Limits whose figure the events report during the run, so that Penstock can stop the run."""
    limit_flags: Mapping[Limit, str] = {}
    """Limits for which the agent has a flag of its own on this route, which it then gets."""
    longest: Longest | None = None
    """Longest prompt, if the agent drops or rejects longer ones."""
    proposed: Shown = "nothing"
    """Changes that a call of an editing tool, or the question before it, shows."""
    made: Shown = "nothing"
    """Changes that the result of an editing tool shows."""
    counts_refused: bool = False
    """The number of actions that were denied is known at the end of the run."""
    resume_warning: str = ""
    """Sentence about conversations that the agent loses when they are resumed, and about what to do."""
    loses_sessions: bool = False
    """The agent may lose a conversation that is resumed: a chat sends its earlier messages along instead."""
    terminal: tuple[str, ...] = ()
    """Command by which the agent's own program continues a conversation of this route in a terminal; `{session_id}` is
    its id. (): it cannot, or the program of the route is another one."""
    needs_answers: bool = False
    """The agent asks on this route before it acts, so it is the default only if somebody can answer."""
    signs: tuple[Sign, ...] = ()
    """Lines that only this route of this agent prints: any one of them is enough."""
    tags: tuple[str, ...] = ()
    """Paths of the fields whose values name the kind of a line (`penstock.agents.kinds`)."""
    source: KindSource | None = None
    """Place of the kinds in the installed program; None if it does not list them in a form that can be read."""

    @property
    def features(self) -> frozenset[Feature]:
        """All features that the route supports."""
        return frozenset((*self.supports, *self.counts, *self.limit_flags))

    @property
    def resume(self) -> bool:
        """True if a conversation can be resumed."""
        return "resume" in self.supports

    @property
    def fork(self) -> bool:
        """True if a conversation can be forked."""
        return "fork" in self.supports


class StateFolder(msgspec.Struct, frozen=True):
    """Directory in which an agent keeps files between runs, such as its conversations."""

    path: str
    """Path relative to the home directory."""
    variable: str = ""
    """Environment variable that replaces this path."""
    below: str = ""
    """Path of the directory relative to either of them."""
    settings: tuple[str, ...] = ()
    """Patterns of the entries that later runs read as settings, instructions or programs. A confined run
    can read them and not write."""
    caches: tuple[str, ...] = ()
    """Patterns of the settings that the agent itself writes anew whenever they are missing. A file of these that a
    confined run has made is removed after it, without a warning."""
    keys: tuple[str, ...] = ()
    """Names of the files of logins that the agent writes itself. Such a file is put aside if a confined run has made an
    entry in it that later runs would obey: a command in place of a key, or an address that settings come from."""
    databases: tuple[str, ...] = ()
    """Names of databases of SQLite with logins, commands or permissions. They are put aside as files of logins are."""
    database_variable: str = ""
    """Environment variable with the path of another such database; relative to this directory."""
    writes: Literal["kept", "lost", "apart"] = "kept"
    """Fate of what a confined run writes there: it stays; it is gone afterwards, and only the settings are shown; or it
    is in a directory of the run's caches, which no run outside reads."""
    copied: tuple[str, ...] = ()
    """Subdirectories whose files are copied into the directory apart, if they are missing there."""


class Login(msgspec.Struct, frozen=True):
    """Commands of an agent for its own login, as words after the name of its program."""

    start: tuple[str, ...]
    """Command that logs a person in, in a terminal."""
    state: tuple[str, ...] = ()
    """Command whose exit status is 0 if somebody is logged in, else 1; () if there is none."""


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts about one agent that are valid without running it."""

    routes: Mapping[str, RouteFacts]
    """Routes by name, the best one first: it is the default."""
    install: str = ""
    """Command or address from which people install it."""
    tested: str | None = None
    """Version of the agent in the recordings of the tests."""
    proven: bool = True
    """There are recordings of the real agent."""
    stream: str = ""
    """Command that prints the agent's stream of events, in pieces if it can; "" if it has no such stream."""
    allows: Mapping[str, Mapping[Level, Permission]] = {}
    """Effect of each level, by route; those that a route cannot keep are left out, and rejected before the start."""
    efforts: tuple[str, ...] = ()
    """Levels of effort, the least first; () if the model decides which there are."""
    models: ModelList | None = None
    """Command that lists the models without a run; None if there is none."""
    login: Login | None = None
    """Commands for its login; None if people log in at its own screen, or need no login."""
    profiles: bool = False
    """A name after a slash (`agent/NAME`) is a profile of the agent."""
    no_command: str = ""
    """Advice if the agent cannot be started by its name alone."""
    variables: tuple[str, ...] = ()
    """Beginnings of the names of the environment variables that the agent reads."""
    switches: Mapping[str, tuple[str, ...]] = {}
    """Variables that turn a provider on, each with the beginnings of the names that the agent then reads too."""
    outer_variables: tuple[str, ...] = ()
    """Variables that the agent sets for the programs it runs. An agent that inherits them treats itself as a part of
    the outer one: some then do not start, or wait."""
    other_output: OtherOutput | None = None
    acp: AcpQuirks | None = None
    project_files: ProjectFiles = ProjectFiles()
    state: tuple[StateFolder, ...] = ()
    """Directories that the agent needs in a confined run; () if it cannot be confined."""
    hosts: tuple[str, ...] = ()
    """Addresses that the agent needs for its model and its login, as `HOST:PORT`."""
    provider: str | None = None
    """Provider of its models, as OpenTelemetry names it; None if it uses several."""

    @property
    def default(self) -> RouteFacts:
        """The route to use if the request names none and somebody can answer questions."""
        return self.routes[self.default_name(can_answer=True)]

    @property
    def never_asks(self) -> bool:
        """Whether the agent does everything unasked, on each of its routes."""
        defaults = [levels["own"].kind for levels in self.allows.values() if "own" in levels]
        return bool(defaults) and all(kind == "all" for kind in defaults)

    def default_name(self, *, can_answer: bool) -> str:
        """Return the name of the route to use if the request names none: the best one that makes sense.

        `can_answer`: somebody can answer the agent's questions while it runs.
        """
        return next(name for name, route in self.routes.items() if can_answer or not route.needs_answers)

    @property
    def asking(self) -> tuple[str, ...]:
        """Names of the routes that can be made to ask, the best one first."""
        return tuple(name for name in self.routes if "ask" in self.allows.get(name, {}))

    @property
    def defaults(self) -> frozenset[str]:
        """Names of the routes that runs use which name no route and no level."""
        own = {self.default_name(can_answer=can_answer) for can_answer in (True, False)}
        return frozenset({*own, *self.asking[:1]})


STREAM_JSON_TAGS = (
    "type", "subtype", "request.subtype", "event.type", "event.delta.type", "event.content_block.type",
    "message.content.type",
)  # fmt: skip
"""`RouteFacts.tags` of Claude Code's wire."""

ACP_TAGS = ("method", "params.update.sessionUpdate")
"""`RouteFacts.tags` of ACP."""

CLAUDE_LIMIT_FLAGS: Mapping[Limit, str] = {"max_cost": "--max-budget-usd", "max_turns": "--max-turns"}
"""`RouteFacts.limit_flags` of Claude Code and of the programs that start it."""


def npm(package: str) -> str:
    """Return the command that installs a package of npm."""
    return f"npm install -g {package}"
