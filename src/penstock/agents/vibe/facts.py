"""Facts about vibe."""

from __future__ import annotations

from penstock.agents._facts import ACP_TAGS, AcpQuirks, AgentFacts, KindSource, RouteFacts, StateFolder
from penstock.agents._permissions import ACP, own_settings
from penstock.agents._project_files import AGENTS_MD, SKILLS, ProjectFiles

_PLUGINS = "logs/session/plugins"

_PATTERNS = (("session/update/", r'session_update="([a-z_]{1,80})"'),)

FACTS = AgentFacts(
    routes={
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "vibe-acp",
            "vibe.start:acp",
            supports=("resume", "read", "ask", "edits", "args", "images"),
            counts=("max_turns",),
            proposed="fragment",
            made="fragment",
            counts_refused=True,
            tags=ACP_TAGS,
            source=KindSource(python="mistral_vibe", files=("vibe/acp/**/*.py",), patterns=_PATTERNS),
        ),
    },
    allows={
        "acp": {
            **ACP,
            "own": own_settings("Its own settings decide. Without any it changes files, and asks you about commands."),
        }
    },
    install="pip install mistral-vibe",
    tested="3.0.2",
    variables=("MISTRAL_", "VIBE_"),
    hosts=("api.mistral.ai:443",),
    acp=AcpQuirks(
        called="mistral-vibe",
        modes={"read": "ask", "ask": "ask", "edits": "ask", "all": "auto-approve"},
        errors=((r"Invalid API key", "auth"),),
        sums_usage=False,
        session_totals=True,
        answer_id=r"(?:assistant|reasoning)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    ),
    project_files=ProjectFiles(starts=(".vibe", SKILLS), instructs=(AGENTS_MD,)),
    # A conversation needs the plugins with which it began. vibe runs those that it has unpacked without a check, and
    # their files are links to the ones that it has checked: a confined run that writes any of them plants a program.
    state=(
        StateFolder(".vibe", "VIBE_HOME", "logs/session/unified"),
        StateFolder(".vibe", "VIBE_HOME", _PLUGINS, writes="apart", copied=("blobs", "manifests")),
        StateFolder(".vibe", "VIBE_HOME", settings=("[!l]*", ".env"), writes="lost"),
    ),
)
