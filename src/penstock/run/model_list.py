"""Models that an agent's program lists without a run. It is started as for a run, in the same environment.

It works in an empty directory of its own in the data directory. Agents read settings in the directories above theirs,
which others can write if one of them is `/tmp`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.agents import registry
from penstock.agents._models import AgentModel, ModelList
from penstock.config.data import data_path
from penstock.config.settings import Config
from penstock.run.launch import Launch, plan
from penstock.run.planted import Record
from penstock.run.process import stdout_of
from penstock.run.spec import RunSpec

ASK_SECONDS = 20.0
"""Timeout in seconds of a list for a server: an agent that fetches its list needs some 14 at its first start."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of a list: one with the instructions of each model has almost 1 MB."""
FOLDER = "models"
"""Directory of the data directory in which the programs work."""


def models_of(
    spec: RunSpec, config: Config, data: Path, is_stopped: Callable[[], bool], seconds: float | None = None
) -> list[AgentModel]:
    """Return the models that the agent of a run lists; none if it has no such command, or prints no list in time.

    The prompt, the directory and the level of the spec are not used. Nothing is left running. `seconds` is the time
    that it has, by default `ASK_SECONDS`.

    Raises:
        UsageError: the agent may not be started, or not be confined as the configuration asks.
        AgentNotFound: its program is not installed.
        TransportError: no process can be started.
        OSError: the directory cannot be made.
    """
    facts = registry.AGENTS.get(spec.agent)
    if facts is None or facts.models is None:
        return []
    folder = data / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="asked-", dir=folder, ignore_cleanup_errors=True) as place:
        cwd = Path(place) / "empty"
        cwd.mkdir()
        around = msgspec.structs.replace(spec.surroundings, caches=str(Path(place) / "caches"))
        asked = msgspec.structs.replace(spec, prompt="…", ask=True, allow="own", cwd=str(cwd), surroundings=around)
        most = ASK_SECONDS if seconds is None else seconds
        output = _output_of(plan(asked, config), facts.models, config, is_stopped, most)
    read: Callable[[bytes], list[AgentModel]] = registry.load(facts.models.reader)
    return read(output)


def _output_of(
    launch: Launch, listing: ModelList, config: Config, is_stopped: Callable[[], bool], seconds: float
) -> bytes:
    more = (config.agent(launch.agent).command or ())[1:]  # the words of a configured program
    argv = (launch.command.argv[launch.command.program], *more, *listing.arguments)
    watched = launch.confinement.watched
    record = Record(str(data_path()), watched) if watched is not None else None
    has_left = False
    try:
        output, has_left = stdout_of(
            argv,
            launch.env,
            launch.cwd,
            seconds=seconds,
            max_bytes=MAX_BYTES,
            confinement=launch.confinement.words,
            is_stopped=is_stopped,
        )
        return output
    finally:
        if record is not None and has_left:
            record.close()
        elif record is not None:
            record.settle()
