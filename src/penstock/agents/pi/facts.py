"""Facts about pi."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adapter import Feature, Level
from penstock.agents._facts import (
    AgentFacts,
    KindSource,
    Permission,
    RouteFacts,
    Sign,
    StateFolder,
    npm,
)
from penstock.agents._hosts import ANY_PROVIDER as ANY_HOSTS
from penstock.agents._models import ModelList
from penstock.agents._permissions import everything, reads
from penstock.agents._project_files import AGENTS_MD, CLAUDE_FILES, SKILLS, ProjectFiles
from penstock.agents._variables import ANY_PROVIDER, GOOGLE_CLOUD

SIGNS = (
    Sign(types=("session",), has=("version", "id")),
    Sign(types=("agent_start", "turn_start"), only=True),
    Sign(types=("message_start", "message_end"), has=("message.role", "message.content"), lacks=("session_id",)),
    Sign(types=("message_update",), has=("assistantMessageEvent",)),
    Sign(types=("tool_execution_start", "tool_execution_end"), has=("toolCallId", "toolName")),
    Sign(types=("agent_end",), has=("messages",)),
)
SERVER_SIGNS = (
    Sign(types=("response",), begins={"id": "penstock-", "command": ""}, has=("success",)),
    Sign(types=("response",), equals={"command": ("get_state",)}, has=("data.sessionId", "data.steeringMode")),
    Sign(types=("response",), equals={"command": ("prompt",)}, has=("success",), begins={"data.disposition": ""}),
    Sign(types=("extension_ui_request",), has=("id", "method")),
)

_ALL = everything("It has no permissions: it changes files and runs any command without asking.")

_FILES = (
    "dist/core/agent-session.d.ts",
    "../pi-agent-core/dist/types.d.ts",
    "node_modules/@earendil-works/pi-agent-core/dist/types.d.ts",
)
_PATTERNS = (("", r'\n    type: "([a-z]{1,40}(?:_[a-z]{1,40}){1,6})";'),)

_FEATURES: tuple[Feature, ...] = (
    "resume", "fork", "read", "args", "effort", "system_prompt", "system_prompt_on_resume", "images",
)  # fmt: skip
_TAGS = ("type", "assistantMessageEvent.type", "message.content.type")
_SOURCE = KindSource(files=_FILES, patterns=_PATTERNS)
_ALLOWS: Mapping[Level, Permission] = {
    "read": reads("It reads. It has no other tools."),
    "all": _ALL,
    "own": _ALL,
}

FACTS = AgentFacts(
    routes={
        "server": RouteFacts(
            "pi.server:PiServer",
            "pi",
            terminal=("pi", "--session", "{session_id}"),
            tags=(*_TAGS, "command", "method"),
            source=_SOURCE,
            supports=_FEATURES,
            counts=("max_cost", "max_turns", "max_tokens"),
            proposed="fragment",
            made="diff",
            signs=SERVER_SIGNS,
        ),
        "exec": RouteFacts(
            "pi.exec:Pi",
            "pi",
            terminal=("pi", "--session", "{session_id}"),
            tags=_TAGS,
            source=_SOURCE,
            supports=_FEATURES,
            counts=("max_cost", "max_turns", "max_tokens"),
            proposed="fragment",
            made="diff",
            signs=SIGNS,
        ),
    },
    allows={"server": _ALLOWS, "exec": _ALLOWS},
    install=npm("@earendil-works/pi-coding-agent"),
    tested="1.6.0",
    stream="pi --mode json",
    models=ModelList(arguments=("--list-models",), reader="pi.models:read"),
    efforts=("off", "minimal", "low", "medium", "high", "xhigh"),
    variables=(*ANY_PROVIDER, "PI_"),
    hosts=ANY_HOSTS,
    switches=GOOGLE_CLOUD,
    project_files=ProjectFiles(
        starts=(".pi", SKILLS),
        instructs=(AGENTS_MD, *CLAUDE_FILES.instructs, ".pi/SYSTEM.md", ".pi/APPEND_SYSTEM.md", ".pi/prompts"),
    ),
    state=(
        StateFolder(
            ".pi/agent",
            "PI_CODING_AGENT_DIR",
            settings=(
                "settings*",
                "models*",
                "*.md",
                "bin",
                "extensions",
                "hooks",
                "tools",
                "skills",
                "prompts",
                "mcp.json",
                "npm",
                "git",
            ),
            caches=("models-store.json",),  # a catalogue that names the addresses of models: a later run would obey it
            keys=("auth.json",),
        ),
    ),
)
