"""Facts about opencode."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adapter import Feature, Level
from penstock.agents._facts import (
    ACP_SOURCE,
    ACP_TAGS,
    AcpQuirks,
    AgentFacts,
    KindSource,
    Login,
    Permission,
    RouteFacts,
    Sign,
    StateFolder,
    npm,
)
from penstock.agents._hosts import ANY_PROVIDER as ANY_HOSTS
from penstock.agents._models import ModelList
from penstock.agents._permissions import EVERYTHING, asks, edits, own_settings, reads
from penstock.agents._project_files import AGENTS_MD, CLAUDE_FILES, SKILLS, ProjectFiles
from penstock.agents._variables import ANY_PROVIDER, GOOGLE_CLOUD

_TYPES = ("step_start", "step_finish", "text", "reasoning", "tool_use", "error")

EXEC_SIGNS = (
    Sign(types=_TYPES, begins={"sessionID": ""}, has=("part",)),
    Sign(types=_TYPES, begins={"sessionID": ""}, has=("error",)),
)
# The bridge's reports of the server's events. Its answers to requests could be any server's.
SERVER_SIGNS = (Sign(begins={"event.id": "evt_"}),)

_OWN: Mapping[Level, Permission] = {
    "all": EVERYTHING,
    "own": own_settings(
        "It changes files and runs commands without asking. If its configuration requires permission, it asks you."
    ),
}
_ASKING: Mapping[Level, Permission] = {
    "read": reads("It reads. Its tools that change files, run commands or use the network are denied."),
    "ask": asks("It reads. It asks you before it changes a file, runs a command or uses the network."),
    "edits": edits("It changes files of the directory without asking. It asks you about everything else."),
    **_OWN,
}

_SERVER_FEATURES: tuple[Feature, ...] = (
    "resume", "fork", "read", "ask", "edits", "args",
    "effort", "system_prompt", "system_prompt_on_resume", "images", "schema", "mcp_config", "allow_tools", "deny_tools",
)  # fmt: skip

_EVENT = r'type:"([a-z0-9-]{1,40}(?:\.[a-z0-9-]{1,40}){1,6})",(?:\.\.\.[\w$]{1,8},)?(?:schema|properties):'
"""Regular expression of the definition of an event, and of one that the server makes itself."""

EXEC_SOURCE = KindSource(patterns=(("", r'if\([\w$]{1,8}\("([a-z_]{1,40})",\{part:'),))

FACTS = AgentFacts(
    routes={
        "server": RouteFacts(
            "opencode.server:OpenCodeServer",
            "opencode",
            supports=_SERVER_FEATURES,
            counts=("max_cost", "max_turns", "max_tokens"),
            proposed="fragment",
            made="diff",
            counts_refused=True,
            signs=SERVER_SIGNS,
            terminal=("opencode", "--session={session_id}"),
            tags=("event.type", "event.properties.part.type"),
            source=KindSource(patterns=(("", _EVENT),)),
        ),
        "exec": RouteFacts(
            "opencode.exec:OpenCode",
            "opencode",
            live=False,
            supports=("resume", "fork", "args", "effort", "images"),
            counts=("max_cost", "max_turns", "max_tokens"),
            proposed="fragment",
            made="diff",
            signs=EXEC_SIGNS,
            terminal=("opencode", "--session={session_id}"),
            tags=("type",),
            source=EXEC_SOURCE,
        ),
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "opencode",
            "opencode.exec:acp",
            supports=("resume", "fork", "args", "images", "mcp_config"),
            counts=("max_turns",),
            proposed="fragment",
            made="diff",
            counts_refused=True,
            tags=ACP_TAGS,
            source=KindSource(patterns=ACP_SOURCE),
        ),
    },
    allows={
        "server": _ASKING,
        "exec": {
            "all": EVERYTHING,
            "own": own_settings(
                "It changes files and runs commands without asking. What its configuration asks about is denied."
            ),
        },
        "acp": _OWN,
    },
    login=Login(("auth", "login")),
    install=npm("opencode-ai"),
    tested="1.18.33",
    stream="opencode run --format json",
    models=ModelList(arguments=("models", "--verbose"), reader="opencode.models:read"),
    variables=(*ANY_PROVIDER, "OPENCODE_"),
    hosts=(*ANY_HOSTS, "opencode.ai:443", "models.opencode.ai:443"),
    switches=GOOGLE_CLOUD,
    acp=AcpQuirks(called="opencode", marks_sub_agents=True, tool_name="pending title"),
    project_files=ProjectFiles(
        starts=(".opencode", "opencode.json", "opencode.jsonc", "tui.json", "tui.jsonc", SKILLS, *CLAUDE_FILES.starts),
        instructs=(AGENTS_MD, "CONTEXT.md", *CLAUDE_FILES.instructs),
    ),
    state=(
        StateFolder(
            *(".local/share", "XDG_DATA_HOME", "opencode"),
            settings=("bin",),
            keys=("auth.json",),
            databases=("opencode.db",),
            database_variable="OPENCODE_DB",
        ),
        # Repositories with copies of files, whose settings git obeys.
        StateFolder(".local/share", "XDG_DATA_HOME", "opencode/snapshot", writes="apart"),
        StateFolder(".local/state", "XDG_STATE_HOME", "opencode"),
        StateFolder(".config", "XDG_CONFIG_HOME", "opencode", settings=("*",), writes="lost"),
    ),
)
