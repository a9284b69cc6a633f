"""Error for a request that an agent does not support, made before anything is started from the facts of its routes.

It names another route of the agent that supports all that is asked, else the agents that do. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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


def _field(name: str, what: str, help: str = "") -> FeatureUse:
    """Return the use of a feature that is one field of a request."""
    return FeatureUse(lambda request: bool(getattr(request, name)), lambda request: what, help)


FEATURES: Mapping[Feature, FeatureUse] = {
    "resume": _field("session_id", "resume a session", "each run is a conversation of its own"),
    "fork": _field("fork", "fork a session", "leave it out: the session itself can be resumed"),
    "read": FeatureUse(lambda request: request.allow == "read", lambda request: "be kept from changing anything"),
    "ask": FeatureUse(lambda request: request.allow == "ask", lambda request: "ask before it changes something"),
    "edits": FeatureUse(lambda request: request.allow == "edits", lambda request: "be allowed edits alone"),
    "args": FeatureUse(
        lambda request: bool(request.args),
        lambda request: f"take the argument {(*request.args, '')[0]!r}",
        "leave it out: the agent is started without arguments",
    ),
    "effort": _field("effort", "be given a level of effort (--effort)"),
    "system_prompt": _field("system_prompt", "be given more instructions than its own (--system-prompt)"),
    "system_prompt_on_resume": FeatureUse(
        lambda request: request.system_prompt is not None and request.session_id is not None,
        lambda request: "be given more instructions in a resumed conversation (--system-prompt)",
        "put them into the prompt, or begin a new conversation",
    ),
    "images": _field("images", "be sent an image (--file)"),
    "schema": _field("schema", "reply by a JSON Schema (--schema)"),
    "mcp_config": _field("mcp_config", "be given MCP servers for one run (--mcp-config)"),
    "allow_tools": _field("allow_tools", "be allowed single tools (--allow-tool)"),
    "deny_tools": _field("deny_tools", "be denied single tools (--deny-tool)"),
    "max_cost": _field("max_cost", "be stopped at a cost, because it does not report its cost during a run"),
    "max_tokens": _field(
        "max_tokens", "be stopped at a number of tokens, because it does not report them during a run"
    ),
    "max_turns": _field("max_turns", "be stopped at a number of turns, because it does not report them during a run"),
}
"""All features; the first one that an agent lacks is reported."""

_OF_ONE_AGENT: frozenset[Feature] = frozenset(
    {"resume", "fork", "read", "ask", "edits", "args", "system_prompt_on_resume"}
)
"""Features for which another agent is not a replacement: its sessions, arguments and permissions are different ones."""


LEVELS: Collection[Feature] = ("read", "ask", "edits")
"""Levels of permission that not every route can keep."""

LIMIT_FLAGS: Mapping[Feature, str] = {
    "max_cost": "--max-cost",
    "max_turns": "--max-turns",
    "max_tokens": "--max-tokens",
}
"""Flags of the limits that another limit may replace."""


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
        return _effort_error(agent, request.effort, agents)
    facts = agents.get(agent)
    help = "" if facts is None else _routes_with(used, facts)
    if not help and lacking in LIMIT_FLAGS:
        help = _other_limits(facts, route)
    if not help and not used & _OF_ONE_AGENT:
        help = _agents_with(used, agents)
    if not help and facts is not None:
        help = _routes_with({lacking}, facts) or (_permissions(facts, route) if lacking in LEVELS else "")
    help = help or FEATURES[lacking].help or _agents_with({lacking}, agents)
    return unsupported(agent, FEATURES[lacking].what(request), can=help)


def _effort_error(agent: str, effort: str | None, agents: Mapping[str, AgentFacts]) -> UsageError | None:
    """Return the error for a level of effort that an agent does not have: some programs ignore such a level."""
    levels = agents[agent].efforts if agent in agents else ()
    if effort is None or not levels or effort in levels:
        return None
    return UsageError(f"{agent} has no level of effort {effort!r}", expected="one of " + ", ".join(levels))


def _other_limits(facts: AgentFacts | None, route: str) -> str:
    """Return the advice to use another limit of an agent on its route."""
    features = facts.routes[route].features if facts is not None else frozenset[Feature]()
    others = [flag for limit, flag in LIMIT_FLAGS.items() if limit in features]
    return "use " + " or ".join((*others, "--timeout"))


def _routes_with(wanted: set[Feature], facts: AgentFacts) -> str:
    """Return the advice to use another route of an agent; "" if none has these features."""
    others = [f"--route {name}" for name, other in facts.routes.items() if wanted <= other.features]
    return "use " + " or ".join(others) if others else ""


def _permissions(facts: AgentFacts, route: str) -> str:
    own, everything = (facts.allows[route][level].text for level in ("own", "all"))
    return own if own == everything else f"by its own default: {own} With --allow all: {everything}"


def _agents_with(wanted: set[Feature], agents: Mapping[str, AgentFacts]) -> str:
    """Return the agents that have these features, with a route if their default one has not; "" if there are none."""
    able = []
    for name, facts in agents.items():
        routes = [route for route, found in facts.routes.items() if wanted <= found.features]
        defaults = facts.defaults
        if routes and not facts.no_command:
            able.append(name if defaults <= set(routes) else f"{name} --route {routes[0]}")
    return f"these agents can: {', '.join(able)}" if able else ""
