"""Facts about kimi."""

from __future__ import annotations

from penstock.adapter import ARGUMENT
from penstock.agents._facts import AgentFacts, KindSource, Login, RouteFacts, Sign, npm
from penstock.agents._permissions import EVERYTHING
from penstock.agents._project_files import AGENTS_MD, SKILLS, ProjectFiles

SIGNS = (
    Sign(
        types=("system.version", "session.resume_hint", "turn.step.retrying"), equals={"role": ("meta",)}, lacks=("id",)
    ),
)

_META = ("meta/", r'role: "meta",\s{1,20}type: "([\w.]{1,80})"')
_ROLE = ("", r'writeJsonLine\(\{\s{1,20}role: "(\w{1,40})"')
"""Patterns of lines about the run, and of those with what was said."""

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "kimi.exec:Kimi",
            "kimi",
            live=False,
            supports=("resume", "args"),
            counts=("max_turns",),
            longest=ARGUMENT,
            proposed="fragment",
            signs=SIGNS,
            terminal=("kimi", "--session={session_id}"),
            tags=("role", "type"),
            source=KindSource(files=("dist/*.mjs",), patterns=(_META, _ROLE)),
        )
    },
    allows={"exec": {"own": EVERYTHING, "all": EVERYTHING}},
    login=Login(("login",)),
    install=npm("@moonshot-ai/kimi-code"),
    tested="2.1.0",
    stream="kimi --output-format stream-json -p",
    variables=("KIMI_", "MOONSHOT_"),
    project_files=ProjectFiles(starts=(".kimi-code", ".kimi", ".mcp.json", SKILLS), instructs=(AGENTS_MD,)),
)
