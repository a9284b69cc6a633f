"""Facts about Cursor's command line."""

from __future__ import annotations

from penstock.agents._facts import AgentFacts, RouteFacts, Sign
from penstock.agents._permissions import everything, own_settings
from penstock.agents._project_files import AGENTS_MD, RULES_OF_EDITORS, SKILLS, ProjectFiles

SIGNS = (
    Sign(types=("system",), equals={"subtype": ("init",)}, has=("session_id", "permissionMode"), lacks=("uuid",)),
    Sign(types=("system",), equals={"subtype": ("background_shell_timeout",)}, lacks=("uuid",)),
    Sign(types=("assistant",), has=("timestamp_ms",)),
    Sign(types=("assistant",), has=("model_call_id",)),
    Sign(types=("result",), has=("session_id", "duration_api_ms"), lacks=("uuid", "exitCode", "stats")),
    Sign(types=("tool_call",), has=("call_id", "tool_call")),
    Sign(types=("thinking", "connection"), has=("subtype", "session_id")),
    Sign(types=("interaction_query",), has=("query_type",)),
    Sign(types=("retry",), has=("attempt", "session_id")),
)

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "cursor.exec:Cursor",
            "cursor-agent",
            tags=("type", "subtype"),
            supports=("resume", "args"),
            counts=("max_turns",),
            made="diff",
            signs=SIGNS,
        )
    },
    allows={
        "exec": {
            "all": everything("It does everything that its own settings do not forbid, without asking."),
            "own": own_settings("It does what its own settings allow. It cannot ask you: commands are denied."),
        }
    },
    install="curl https://cursor.com/install -fsS | bash",
    proven=False,
    stream="cursor-agent -p --output-format stream-json --stream-partial-output",
    variables=("CURSOR_",),
    project_files=ProjectFiles(
        starts=(".cursor", ".mcp.json", SKILLS),
        instructs=(AGENTS_MD, "CLAUDE.md", ".cursorignore", *RULES_OF_EDITORS),
    ),
)
