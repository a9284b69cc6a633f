"""Start of an agent: a run is made of a chat and a prompt, with arguments, a directory and an environment.

The environment is an allow-list, so that agents do not get secrets of other programs. Each agent gets the variables
that programs need, those that it reads itself, and those that the user names. Keys of other providers are left out: an
agent that finds one may use it although the user pays by subscription.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from penstock.adapter import Feature
from penstock.agents._models import AgentModel
from penstock.agents.registry import AGENTS
from penstock.chat.history.frames import TurnView
from penstock.chat.service.agents.attached import NO_TOOLS_BYTES, AttachmentFolders, PlacedFile, given_files
from penstock.chat.service.agents.models import ModelLists
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.agents.own_tree import record_of
from penstock.chat.service.agents.transcript import MAX_CHARS, with_transcript
from penstock.chat.service.agents.workspaces import Workspaces
from penstock.chat.service.media import TEXT
from penstock.chat.store.rows import ChatRow
from penstock.config.data import data_path
from penstock.config.settings import FILE_NAME, Config
from penstock.errors import UsageError
from penstock.run import lifecycle
from penstock.run.agent import Agent
from penstock.run.inside import DEPTH, depth
from penstock.run.launch import features_of
from penstock.run.model_list import models_of
from penstock.run.run import Run
from penstock.run.sandbox import Surroundings
from penstock.run.spec import RunSpec

COMMON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TMPDIR", "TMP", "TEMP", "TZ"}
    | {"HOSTNAME", "EDITOR", "VISUAL", "PAGER", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"}
    | {"SSH_AUTH_SOCK", "GNUPGHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "NVM_BIN", "VOLTA_HOME"}
    | {"PNPM_HOME", "BUN_INSTALL", "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "NODE_OPTIONS"}
    | {"NODE_PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"GIT_SSL_CAINFO", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
    | {"http_proxy", "https_proxy", "no_proxy", "all_proxy", "DISABLE_TELEMETRY", "DO_NOT_TRACK", "NO_COLOR"}
)
"""Variables that programs, their tools and the network need.

None is the key of a provider. A proxy may have a password, without which the agent reaches nothing; `docs/security.md`
lists what they give access to.
"""

COMMON_PREFIXES = ("LC_", "XDG_")

UTF8_BYTES = 4
"""Bytes that a character may have."""

PROMPT_SPARE_BYTES = 4 * 1024
"""Bytes of a prompt for the sentences around a conversation, and the names of files."""


class Starter:
    """Maker of the runs of all chats. `environ` is this process's environment, `extra` the names that are passed on."""

    def __init__(
        self,
        config: Config,
        workspaces: Workspaces,
        environ: Mapping[str, str],
        extra: Iterable[str],
        limits: lifecycle.Limits,
        default_agent: str | None = None,
        hidden: Iterable[str] = (),
        seconds: float | None = None,
        *,
        folders: AttachmentFolders,
        data: Path | None = None,
    ) -> None:
        """Create the maker. `default_agent` is the agent of a chat for which none is named.

        `seconds`: time limit of each run; None for no limit. Time in which a person is asked does not count.

        `hidden` are files and directories of Penstock that confined agents do not see, besides the data directory.
        `folders`: directories with the attachments of chats, of which they see that of their chat. `data`: the data
        directory; None: the default one.

        Raises:
            NoSuchAgent: there is no agent of this name.
        """
        self.agents: Agents = Agents(config, environ, self._trusts_configuration, default=default_agent)
        self.config: Config = config
        self._workspaces = workspaces
        self._environ = environ
        self._extra = tuple(extra)
        self._limits = replace(limits, counts_questions=False)
        self._seconds = seconds
        self._hidden = tuple(hidden)
        self._folders = folders
        self._data = data or data_path()
        self.models: ModelLists = ModelLists(self._models)

    def run(
        self,
        chat: ChatRow,
        prompt: str,
        max_cost: float | None = None,
        attachments: Sequence[PlacedFile] = (),
        earlier: Sequence[TurnView] = (),
        before: str | None = "",
    ) -> Run:
        """Return a run of a prompt, not started yet. `max_cost`: limit of its cost, if the agent can be stopped at one.

        `earlier` are the turns before, which are sent along to an agent that would lose the conversation. `before` are
        the messages of another chat with which this one begins, until the agent has a conversation of its own; None if
        they are no longer kept.

        Raises:
            UsageError: the agent cannot do it or may not be started, its directory has changed, or the messages that it
                needs are no longer kept.
            AgentNotFound: its program is not installed.
        """
        cwd = self._workspaces.require(chat.source)
        stores: tuple[str, ...] = ()
        if chat.tree is not None:
            cwd, stores = Path(chat.cwd), record_of(self._data, chat).stores
        reason = self.agents.blocked(chat.agent)
        if reason is not None:
            raise UsageError(f"{chat.agent} may not be started: {reason}")
        features = self._features(chat.agent)
        given = given_files(
            chat.agent,
            prompt,
            attachments,
            takes_images="images" in features,
            has_tools=_has_tools(chat.agent),
        )
        below = max(chat.depth, depth(self._environ)) + 1
        loses = self.agents.loses_sessions(chat.agent, chat.allow)
        session = chat.session_id if self.agents.resumes(chat.agent) and not loses else None
        asked = given.prompt
        if session is None:
            if before is None:
                raise UsageError(
                    "the messages with which this chat begins are not kept", help="begin a new chat from the old one"
                )
            most = min(MAX_CHARS, self._left(chat, asked, attachments) // UTF8_BYTES)
            asked = with_transcript(earlier if loses else (), asked, before, most=most)
        return Agent(chat.agent, {}, self.config).run(
            asked,
            files=given.files,
            session_id=session,
            model=chat.model,
            effort=chat.effort,
            ask=True,
            allow=chat.allow,
            max_cost=max_cost if "max_cost" in features else None,
            timeout=self._seconds,
            cwd=cwd,
            environ=self._environment(chat.agent) | {DEPTH: str(below)},
            trust=self._trusts_configuration(),
            limits=self._limits,
            surroundings=Surroundings(
                auto="own", hidden=self._hidden, read_only=(str(self._folders.of(chat.id)), *stores)
            ),
        )

    def _models(self, agent: str, is_stopped: Callable[[], bool]) -> list[AgentModel]:
        """Return the models that the program of an agent lists. A level of effort is in them if its chats can have one.

        Raises:
            UsageError, AgentNotFound, TransportError, OSError: it cannot be asked.
        """
        spec = RunSpec(
            agent=agent,
            prompt="…",
            environ=self._environment(agent),
            trust=self._trusts_configuration(),
            surroundings=Surroundings(auto="on", hidden=self._hidden),
        )
        found = models_of(spec, self.config, self._data, is_stopped)
        levels = self.agents.efforts(agent)
        return found if levels else [AgentModel(it.name) for it in found]

    def _environment(self, agent: str) -> dict[str, str]:
        return environment(agent, self._environ, self._extra, adapter=self.config.agent(agent).adapter)

    def _left(self, chat: ChatRow, prompt: str, attachments: Sequence[PlacedFile]) -> int:
        """Return the bytes that can be added to a prompt of a chat with its files."""
        texts = sum(file.size for file in attachments if file.media_type == TEXT)
        used = len(prompt.encode(errors="replace")) + min(texts, NO_TOOLS_BYTES) + PROMPT_SPARE_BYTES
        return max(0, self.agents.longest(chat.agent, chat.allow).size - used)

    def _features(self, agent: str) -> frozenset[Feature]:
        try:
            return features_of(agent, None, self.config, ask=True)
        except UsageError:
            return frozenset()  # the run says what is wrong

    def _trusts_configuration(self) -> bool:
        """Return whether a project's own file may define how agents are started: if its directory is trusted."""
        files = [Path(file) for file in self.config.files if os.path.basename(file) == FILE_NAME]
        return all(self._workspaces.is_trusted(file.parent.resolve()) for file in files)


def _has_tools(agent: str) -> bool:
    """Return whether an agent may have a tool that reads files: any that does more than answer."""
    facts = AGENTS.get(agent.partition("/")[0])
    if facts is None:
        return True
    permissions = facts.allows.get(facts.default_name(can_answer=True), {})
    return not permissions or any(it.kind != "answers" for it in permissions.values())


@cache
def outer_variables() -> frozenset[str]:
    """Return the variables that agents set for their own programs. An agent that inherits them fails or hangs."""
    return frozenset(name for facts in AGENTS.values() for name in facts.outer_variables)


def environment(
    agent: str, environ: Mapping[str, str], extra: Iterable[str] = (), *, adapter: str | None = None
) -> dict[str, str]:
    """Return the part of `environ` that this agent gets. `extra` are names that the user adds.

    `adapter` is the known agent that an agent of the configuration behaves as. `PENSTOCK_*` is never passed on, even if
    it is named: Penstock's own secrets are among these variables.
    """
    known = (AGENTS.get(name.partition("/")[0]) for name in (agent, adapter or ""))
    facts = next((facts for facts in known if facts is not None and facts.variables), None)
    own: tuple[str, ...] = ()
    if facts is not None:
        on = (switch for switch in facts.switches if environ.get(switch, "").lower() not in ("", "0", "false"))
        own = facts.variables + tuple(name for switch in on for name in facts.switches[switch])
    prefixes, named, outer = (*COMMON_PREFIXES, *own), COMMON.union(extra), outer_variables()
    return {
        name: value
        for name, value in environ.items()
        if (name in named or name.startswith(prefixes)) and name not in outer and not name.startswith("PENSTOCK_")
    }
