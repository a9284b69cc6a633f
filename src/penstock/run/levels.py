"""Choice of the level of permission and of the route of a run, from what was asked for and who can answer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.agents.support import FEATURES

if TYPE_CHECKING:
    from penstock.adapter import Allow, Level, Request
    from penstock.agents._facts import AgentFacts


def with_level(
    facts: AgentFacts | None, asked: Allow, request: Request, route: str | None, *, can_answer: bool
) -> tuple[Level, str | None]:
    """Return the level of a run and its route.

    By default an agent asks where somebody can answer, if it can be made to on the route that was asked for, or on one
    that supports all of the request. Otherwise its own default holds.

    Args:
        facts: facts of a built-in agent; None for any other, of which a level may mean anything: its own default holds
            unless one is asked for.
        asked: the level that was asked for, by a flag or the configuration.
        request: the request, without a level.
        route: the route that was asked for; None: the best one.
        can_answer: whether somebody can answer the agent's questions.
    """
    if facts is None:
        return ("own" if asked == "default" else asked), route
    if asked != "default":
        return asked, route or _route(facts, asked, request, can_answer=can_answer)
    if can_answer:
        for name in (route,) if route is not None else facts.asking:
            if "ask" in facts.allows.get(name, {}) and _supports(facts, name, "ask", request):
                return "ask", name
    return "own", route or facts.default_name(can_answer=can_answer)


def _route(facts: AgentFacts, level: Level, request: Request, *, can_answer: bool) -> str:
    """Return the best route that can keep a level; if none can, the default one, which rejects the request."""
    default = facts.default_name(can_answer=can_answer)
    able = [name for name in dict.fromkeys((default, *facts.routes)) if level in facts.allows.get(name, {})]
    whole = [name for name in able if _supports(facts, name, level, request)]
    return default if default in able else next(iter(whole or able), default)


def _supports(facts: AgentFacts, route: str, level: Level, request: Request) -> bool:
    leveled = replace(request, allow=level)
    return {feature for feature, use in FEATURES.items() if use.is_used(leveled)} <= facts.routes[route].features
