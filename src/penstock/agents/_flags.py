"""Helpers for the command lines of several agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.adapter import Command, JsonFile, Limit, McpConfig, Request, encoded


def option(flag: str, value: str | None) -> tuple[str, ...]:
    """Return `--flag=value` as one argument, so that no value is read as a flag; nothing if there is no value."""
    return () if value is None else (f"{flag}={value}",)


def path_of(file: JsonFile | McpConfig | None, prefix: str = "") -> str | None:
    """Return the path of a file of the request after `prefix`; None if there is no file."""
    return None if file is None else prefix + file.path


def each(flag: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return the flag once for each value."""
    return tuple(f"{flag}={value}" for value in values)


def piped(request: Request, *argv: str, env: Mapping[str, str] | None = None, unset: tuple[str, ...] = ()) -> Command:
    """Return the command of an agent that reads its prompt from stdin, so that no prompt is read as a flag."""
    return Command(argv=argv, stdin=encoded(request.prompt), env=dict(env or {}), unset=unset)


def granted(
    request: Request,
    *,
    read: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    edits: tuple[str, ...] = (),
    everything: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the agent's own flags for `request.allow`; none for `own`, which leaves the agent as it is."""
    return {"own": (), "read": read, "ask": ask, "edits": edits, "all": everything}[request.allow]


def limits(request: Request, flags: Mapping[Limit, str]) -> tuple[str, ...]:
    """Return the agent's own flags for the limits of the request."""
    values = ((flag, getattr(request, limit)) for limit, flag in flags.items())
    return tuple(f"{flag}={value}" for flag, value in values if value is not None)
