"""Facts about the reader of streams that no other agent prints."""

from __future__ import annotations

from penstock.agents._facts import AgentFacts, RouteFacts

_READ_ONLY = "it reads what another program prints"

FACTS = AgentFacts(
    routes={"exec": RouteFacts("generic.adapter:Generic", "", cannot={"resume": _READ_ONLY, "fork": _READ_ONLY})},
    proven=False,
    no_command="configure one: [agents.NAME] command = […]",
)
