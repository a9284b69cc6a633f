"""What the command lines of several agents have in common."""

from __future__ import annotations

from penstock.adapter import Command, Request, encoded, refuse


def option(flag: str, value: str | None) -> tuple[str, ...]:
    """`--flag=value`, in one argument so that no value is read as a flag; nothing where there is no value."""
    return () if value is None else (f"{flag}={value}",)


def piped(request: Request, *argv: str, unset: tuple[str, ...] = ()) -> Command:
    """The command of an agent that reads its prompt from stdin, where no prompt can be taken for a flag."""
    return Command(argv=argv, stdin=encoded(request.prompt), unset=unset)


def granted(
    agent: str, request: Request, *, edits: tuple[str, ...] | None, everything: tuple[str, ...], instead: str = ""
) -> tuple[str, ...]:
    """The agent's own flags for `request.allow`; none for `default`, as the agent comes.

    `edits` is None where the agent knows nothing between `default` and `all`; `instead` then says what it can.

    Raises:
        UsageError: there is no such level.
    """
    if request.allow == "default":
        return ()
    if request.allow == "all":
        return everything
    if edits is None:
        raise refuse(agent, "be allowed edits alone", can=instead)
    return edits


def no_profile(agent: str, request: Request) -> None:
    """Refuse `agent/profile` for an agent that has none.

    Raises:
        UsageError: there is a profile.
    """
    if request.profile is not None:
        raise refuse(agent, f"take the profile {request.profile!r}", can="only ccs has profiles, as in 'ccs/glm'")


def no_fork(agent: str, request: Request, can: str = "it can go on with the session: leave the fork away") -> None:
    """Refuse to branch a conversation with an agent that cannot.

    Raises:
        UsageError: a fork is asked for.
    """
    if request.fork:
        raise refuse(agent, "branch a session", can=can)
