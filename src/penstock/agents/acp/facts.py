"""Facts about the Agent Client Protocol, by which Penstock runs any program that supports it."""

from __future__ import annotations

from penstock.agents._facts import AgentFacts, RouteFacts, Sign
from penstock.agents._permissions import ACP

SIGNS = (
    Sign(
        equals={"jsonrpc": ("2.0",), "method": ("session/update", "session/request_permission")},
        has=("params.sessionId",),
    ),
    # The answer to the first request.
    Sign(equals={"jsonrpc": ("2.0",)}, has=("result.protocolVersion", "result.agentCapabilities")),
)

FACTS = AgentFacts(
    routes={
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "",
            supports=("resume", "fork", "read", "ask", "edits", "args", "images", "mcp_config"),
            counts=("max_turns",),
            proposed="fragment",
            made="fragment",
            counts_refused=True,
            signs=SIGNS,
        )
    },
    allows={"acp": ACP},
    install="any program with ACP on its stdio",
    no_command="name one: acp:'PROGRAM --acp'",
)
