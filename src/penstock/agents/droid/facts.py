"""Facts about droid."""

from __future__ import annotations

from penstock.agents._facts import AgentFacts, KindSource, RouteFacts, Sign, npm
from penstock.agents._permissions import EVERYTHING, own_settings
from penstock.agents._project_files import AGENTS_MD, SKILLS, ProjectFiles
from penstock.agents._variables import ANY_PROVIDER

SIGNS = (
    Sign(types=("system",), has=("session_id", "reasoning_effort"), lacks=("uuid", "permissionMode", "data")),
    Sign(types=("message",), has=("session_id", "id", "role", "text"), lacks=("content",)),
    Sign(types=("reasoning",), has=("session_id", "id", "text")),
    Sign(types=("tool_call", "tool_result"), has=("session_id", "messageId", "toolId")),
    Sign(types=("completion",), has=("session_id", "finalText")),
    Sign(types=("error",), has=("session_id", "source", "timestamp")),
)

_LINE = r"\{type:\"(\w{1,40})\"(?:,(?:role|subtype):\"(\w{1,40})\")?,[^;`]{0,400}?\bsession_id:"
"""Regular expression of an object that is printed as a line: it names the session."""

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "droid.exec:Droid",
            "droid",
            live=False,
            supports=(
                "resume",
                "fork",
                "args",
                "effort",
                "system_prompt",
                "system_prompt_on_resume",
                "deny_tools",
            ),
            counts=("max_turns",),
            proposed="fragment",
            made="diff",
            signs=SIGNS,
            terminal=("droid", "--resume", "{session_id}"),
            tags=("type", "subtype", "role"),
            source=KindSource(patterns=(("", _LINE),)),
        )
    },
    allows={
        "exec": {
            "all": EVERYTHING,
            "own": own_settings(
                "It reads, and runs commands that the model itself calls harmless. Any other command ends the run."
            ),
        }
    },
    install=npm("droid"),
    tested="0.225.2",
    stream="droid exec --output-format stream-json",
    variables=(*ANY_PROVIDER, "FACTORY_", "DROID_"),
    project_files=ProjectFiles(
        starts=(".factory", ".agent", SKILLS),
        instructs=(
            *(AGENTS_MD, "Agents.md", "agents.md", "CLAUDE.md", "Claude.md"),
            *("DESIGN.md", "Design.md", "design.md"),
        ),
    ),
)
