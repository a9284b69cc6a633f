"""Facts about Ollama, a server of models with no agent behind it."""

from __future__ import annotations

from penstock.agents._facts import AgentFacts, RouteFacts, Sign

_ALONE = "each run is a conversation of its own"
_DONE = {"done": (True, False)}

SIGNS = (
    Sign(equals=_DONE, begins={"model": ""}, has=("message",)),
    Sign(equals=_DONE, begins={"model": ""}, has=("response",)),
    # How a server that failed ends: nothing else, with no type, prints this and no more.
    Sign(begins={"error": ""}, only=True),
)

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "ollama.exec:Ollama",
            "",
            cannot={"fork": _ALONE, "resume": _ALONE, "args": "it is asked over HTTP, with no flags"},
            signs=SIGNS,
        )
    },
    install="see https://ollama.com/download",
    proven=False,
    variables=("OLLAMA_",),
)
