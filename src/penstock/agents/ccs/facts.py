"""Facts about ccs. It prints the wire of the program that it starts, so no line identifies it; the user names it."""

from __future__ import annotations

from penstock.adapter import Feature, Longest
from penstock.agents._facts import CLAUDE_LIMIT_FLAGS, MIB, STREAM_JSON_TAGS, AgentFacts, KindSource, RouteFacts, npm
from penstock.agents._permissions import CLAUDE_EXEC, CLAUDE_SERVER
from penstock.agents._project_files import CLAUDE_FILES
from penstock.agents._variables import CLAUDE, CLAUDE_CLOUDS

_LONGEST = Longest(10 * MIB)
_FEATURES: tuple[Feature, ...] = (
    "resume", "fork", "read", "edits", "args", "effort", "images", "schema", "mcp_config", "allow_tools", "deny_tools",
)  # fmt: skip
"""Features of claude, without instructions: ccs adds some of its own, and claude uses only the last ones."""

FACTS = AgentFacts(
    routes={
        "server": RouteFacts(
            "ccs.server:CcsServer",
            "ccs",
            supports=(*_FEATURES, "ask"),
            counts=("max_turns", "max_tokens"),
            limit_flags=CLAUDE_LIMIT_FLAGS,
            longest=_LONGEST,
            proposed="fragment",
            made="diff",
            counts_refused=True,
            needs_answers=True,
            tags=STREAM_JSON_TAGS,
            source=KindSource(started="claude"),
        ),
        "exec": RouteFacts(
            "ccs.exec:Ccs",
            "ccs",
            supports=_FEATURES,
            counts=("max_turns", "max_tokens"),
            limit_flags=CLAUDE_LIMIT_FLAGS,
            longest=_LONGEST,
            proposed="fragment",
            made="diff",
            counts_refused=True,
            tags=STREAM_JSON_TAGS,
            source=KindSource(started="claude"),
        ),
    },
    allows={"server": CLAUDE_SERVER, "exec": CLAUDE_EXEC},
    install=npm("@kaitranntt/ccs"),
    tested="7.79.1",
    efforts=("low", "medium", "high", "xhigh", "max"),
    profiles=True,
    variables=(*CLAUDE, "CCS_"),
    switches=CLAUDE_CLOUDS,
    project_files=CLAUDE_FILES,
)
