"""What the command lines of several agents have in common."""

from __future__ import annotations

from penstock.adapter import Command, Request, encoded


def option(flag: str, value: str | None) -> tuple[str, ...]:
    """`--flag=value`, in one argument so that no value is read as a flag; nothing where there is no value."""
    return () if value is None else (f"{flag}={value}",)


def piped(request: Request, *argv: str, unset: tuple[str, ...] = ()) -> Command:
    """The command of an agent that reads its prompt from stdin, where no prompt can be taken for a flag."""
    return Command(argv=argv, stdin=encoded(request.prompt), unset=unset)


def granted(request: Request, *, edits: tuple[str, ...] = (), everything: tuple[str, ...]) -> tuple[str, ...]:
    """The agent's own flags for `request.allow`; none for `default`, as the agent comes."""
    return {"default": (), "edits": edits, "all": everything}[request.allow]
