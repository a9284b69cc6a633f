"""Facts about cline."""

from __future__ import annotations

from penstock.adapter import ARGUMENT
from penstock.agents._facts import (
    ACP_SOURCE,
    ACP_TAGS,
    AcpQuirks,
    AgentFacts,
    KindSource,
    Login,
    RouteFacts,
    Sign,
    npm,
)
from penstock.agents._permissions import ACP, everything
from penstock.agents._project_files import AGENTS_MD, DOTENV, RULES_OF_EDITORS, SKILLS, ProjectFiles
from penstock.agents._variables import ANY_PROVIDER, GOOGLE_CLOUD

SIGNS = (
    Sign(types=("hook_event",), has=("hookEventName",)),
    Sign(types=("agent_event",), has=("ts", "event")),
    Sign(types=("run_start", "run_aborted"), has=("ts",)),
    Sign(types=("run_result",), has=("ts", "finishReason")),
)

_ALL = everything("It approves everything itself: it changes files and runs any command without asking.")

_PATTERNS = (
    ("", r'"stdout",\{type:"(\w{1,80})"'),
    ("agent_event/", r'event:\{type:"(\w{1,80})"(?:,contentType:"(\w{1,80})")?'),
    ("agent_event/", r'\{type:"(content_\w{1,80})",contentType:"(\w{1,80})"'),
)

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "cline.exec:Cline",
            "cline",
            supports=("args", "effort"),
            counts=("max_cost", "max_turns", "max_tokens"),
            longest=ARGUMENT,
            proposed="fragment",
            made="diff",
            signs=SIGNS,
            tags=("type", "event.type", "event.contentType"),
            source=KindSource(patterns=_PATTERNS),
        ),
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "cline",
            "cline.exec:acp",
            supports=("resume", "read", "ask", "edits", "args"),
            counts=("max_turns",),
            proposed="fragment",
            made="fragment",
            counts_refused=True,
            tags=ACP_TAGS,
            source=KindSource(patterns=ACP_SOURCE),
        ),
    },
    allows={
        "exec": {"all": _ALL, "own": _ALL},
        "acp": ACP,
    },
    login=Login(("auth",)),
    install=npm("cline"),
    tested="3.0.65",
    stream="cline --json",
    efforts=("none", "low", "medium", "high", "xhigh"),
    variables=(*ANY_PROVIDER, "CLINE_"),
    switches=GOOGLE_CLOUD,
    acp=AcpQuirks(
        called="cline",
        errors=((r"Model reached the maximum output token limit before completing the turn$", "length"),),  # of 3.0.65
        marks_no_calls=True,
        exit_line=r"\A\[Command exited with code (-?\d{1,10})\](?:\n|\Z)",
        tool_name="title",
    ),
    project_files=ProjectFiles(
        starts=(".cline", ".clinerules/hooks", SKILLS, "bunfig.toml", *DOTENV),
        instructs=(AGENTS_MD, ".clinerules", ".clineignore", *RULES_OF_EDITORS),
    ),
)
