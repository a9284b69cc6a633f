"""Facts about Ollama, a server of models without an agent."""

from __future__ import annotations

from typing import get_args

from penstock.adapter import Level
from penstock.agents._facts import AgentFacts, Permission, RouteFacts, Sign

_DONE = {"done": (True, False)}

SIGNS = (
    Sign(equals=_DONE, begins={"model": ""}, has=("message",)),
    Sign(equals=_DONE, begins={"model": ""}, has=("response",)),
    # The end of a server that failed: nothing else prints a line with this field alone and no type.
    Sign(begins={"error": ""}, only=True),
)

_NO_TOOLS = Permission("answers", "Only answers", "The model has no tools: it changes nothing and runs nothing.")

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "ollama.exec:Ollama",
            "",
            supports=("read", "ask", "edits", "effort", "images", "schema"),
            signs=SIGNS,
        )
    },
    allows={"exec": dict.fromkeys(get_args(Level), _NO_TOOLS)},
    install="see https://ollama.com/download",
    proven=False,
    efforts=("low", "medium", "high"),
    variables=("OLLAMA_",),
)
