"""Error for a request that an agent does not support, made before anything is started from the facts of its routes.

It names another route of the agent that supports all that is asked, else the agents that do. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.adapter import Feature, Request, unsupported
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.agents._facts import AgentFacts


class FeatureUse(NamedTuple):
    """Use of a feature in a request, and the words for an agent without it."""

    is_used: Callable[[Request], bool]
    what: Callable[[Request], str]
    """Completes "AGENT cannot"."""
    help: str = ""
    """Advice if no other route of the agent has the feature; "": the agents that have it."""


FEATURES: Mapping[Feature, FeatureUse] = {
    "resume": FeatureUse(
        lambda request: request.session_id is not None,
        lambda request: "resume a session",
        "each run is a conversation of its own",
    ),
    "fork": FeatureUse(
        lambda request: request.fork,
        lambda request: "fork a session",
        "leave it out: the session itself can be resumed",
    ),
    "edits": FeatureUse(
        lambda request: request.allow == "edits",
        lambda request: "be allowed edits alone",
    ),
    "args": FeatureUse(
        lambda request: bool(request.args),
        lambda request: f"take the argument {(*request.args, '')[0]!r}",
        "leave it out: the agent is started without arguments",
    ),
}
"""All features; the first one that an agent lacks is reported."""


def support_error(
    agent: str, request: Request, supported: Collection[Feature], agents: Mapping[str, AgentFacts], route: str = ""
) -> UsageError | None:
    """Return the error for the first feature of a request that an agent lacks; None if it supports them all.

    Args:
        agent: its name; it need not be one of `agents`.
        request: the request.
        supported: features that the agent supports on the route.
        agents: the built-in agents.
        route: the route, if it is one of `agents`.
    """
    used = {feature for feature, use in FEATURES.items() if use.is_used(request)}
    lacking = next((feature for feature in FEATURES if feature in used and feature not in supported), None)
    if lacking is None:
        return None
    help = (_help_of_agent(agents[agent], lacking, used, route) if agent in agents else "") or FEATURES[lacking].help
    if not help:
        able = list(_agents_with(used, agents)) or list(_agents_with({lacking}, agents))
        help = f"these agents can: {', '.join(able)}"
    return unsupported(agent, FEATURES[lacking].what(request), can=help)


def _help_of_agent(facts: AgentFacts, lacking: Feature, used: set[Feature], route: str) -> str:
    """Return the routes of an agent that have what the request needs, or its permissions if they are the problem."""
    for wanted in (used, {lacking}):
        others = [f"--route {name}" for name, other in facts.routes.items() if wanted <= set(other.supports)]
        if others:
            return "use " + " or ".join(others)
    if lacking == "edits":
        levels = facts.allows[route]
        return f"by default: {levels['default'].text} With 'all': {levels['all'].text}"
    return ""


def _agents_with(wanted: set[Feature], agents: Mapping[str, AgentFacts]) -> Iterator[str]:
    """Yield the agents that support these features, with a route if their default one does not."""
    for name, facts in agents.items():
        able = [route for route, found in facts.routes.items() if wanted <= set(found.supports)]
        defaults = {facts.default_name(can_answer=can_answer) for can_answer in (True, False)}
        if able and not facts.no_command:
            yield name if defaults <= set(able) else f"{name} --route {able[0]}"
