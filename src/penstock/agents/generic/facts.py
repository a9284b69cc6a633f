"""Facts about the reader of streams that no other agent prints."""

from __future__ import annotations

from penstock.agents._facts import AgentFacts, RouteFacts

FACTS = AgentFacts(
    routes={"exec": RouteFacts("generic.adapter:Generic", "")},
    proven=False,
    no_command="configure one: [agents.NAME] command = […]",
)
