"""Facts about kilo. It prints the wire of opencode, so no line identifies it; the user names it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adapter import Level
from penstock.agents._facts import (
    ACP_SOURCE,
    ACP_TAGS,
    AcpQuirks,
    AgentFacts,
    KindSource,
    Login,
    Permission,
    RouteFacts,
    npm,
)
from penstock.agents._models import ModelList
from penstock.agents._permissions import EVERYTHING, own_settings
from penstock.agents._project_files import AGENTS_MD, CLAUDE_FILES, SKILLS, ProjectFiles
from penstock.agents._variables import ANY_PROVIDER, GOOGLE_CLOUD
from penstock.agents.opencode.facts import EXEC_SOURCE

_ASKING: Mapping[Level, Permission] = {
    "all": EVERYTHING,
    "own": own_settings("Its own settings decide what it does without asking, and what it asks you about."),
}

FACTS = AgentFacts(
    routes={
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "kilo",
            "kilo.exec:acp",
            supports=("resume", "fork", "args", "images", "mcp_config"),
            counts=("max_turns",),
            proposed="fragment",
            made="diff",
            counts_refused=True,
            tags=ACP_TAGS,
            source=KindSource(patterns=ACP_SOURCE),
        ),
        "exec": RouteFacts(
            "kilo.exec:Kilo",
            "kilo",
            live=False,
            supports=("resume", "fork", "args", "effort", "images"),
            counts=("max_cost", "max_turns", "max_tokens"),
            proposed="fragment",
            made="diff",
            terminal=("kilo", "--session={session_id}"),
            tags=("type",),
            source=EXEC_SOURCE,
        ),
    },
    allows={
        "acp": _ASKING,
        "exec": {
            "all": EVERYTHING,
            "own": own_settings("Its own settings decide what it does. What they ask about is denied."),
        },
    },
    login=Login(("auth", "login")),
    install=npm("@kilocode/cli"),
    tested="7.7.9",
    stream="kilo run --format json",
    models=ModelList(arguments=("models", "--verbose"), reader="opencode.models:read"),
    variables=(*ANY_PROVIDER, "KILO_"),
    switches=GOOGLE_CLOUD,
    acp=AcpQuirks(called="kilo", marks_sub_agents=True, tool_name="pending title"),
    project_files=ProjectFiles(
        starts=(
            *(".kilo", ".kilocode", ".kilocodemodes", "kilo.json", "kilo.jsonc", "opencode.json", "opencode.jsonc"),
            *(SKILLS, *CLAUDE_FILES.starts),
        ),
        instructs=(
            *(AGENTS_MD, "CONTEXT.md", ".kilocodeignore", ".kilocoderules", ".kilocoderules-*"),
            *(".kilo/rules", ".kilo/rules-*", ".kilocode/rules", ".kilocode/rules-*", *CLAUDE_FILES.instructs),
        ),
    ),
)
