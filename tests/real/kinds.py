"""Write the kinds of lines that the recordings have into `kinds.json` of each agent: `python tests/real/kinds.py`.

A kind is *read* if the reader of its route makes an update of one of its lines, and *ignored* if it makes none; then
`ignored.toml` has the reason, and in its tables `unseen.*` those of the kinds that the programs can print beyond that.
"""

from __future__ import annotations

import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from install import packages

from penstock.agents import kinds, registry
from penstock.agents.kinds import AgentKinds, RouteKinds, State
from penstock.core.decoding import Decoded, Decoder
from penstock.updates import Unknown

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "recordings"
FOLDER = HERE.parents[1] / "src" / "penstock" / "agents"
REASONS = HERE / "ignored.toml"


class Place(NamedTuple):
    """Route of an agent, with the folder of a recording of it."""

    agent: str
    route: str
    folder: Path


class Seen(dict[str, Any]):
    """Object that notes which of its keys are read."""

    def __init__(self, fields: dict[str, Any], read: set[str], path: str = "") -> None:
        super().__init__({key: self._wrapped(key, value, read, path) for key, value in fields.items()})
        self.read, self.path = read, path

    @staticmethod
    def _wrapped(key: str, value: Any, read: set[str], path: str) -> Any:
        return Seen(value, read, f"{path}{key}.") if isinstance(value, dict) else value

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, and note its key if it is there."""
        if key in self:
            self.read.add(self.path + key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(self.path + key)
        return super().__getitem__(key)


def places() -> Iterator[Place]:
    """Yield all recordings of real agents, with the routes that they are of."""
    for file in sorted(RECORDINGS.glob("*/*/input.ndjson")):
        folder = file.parent
        name = folder.parent.name
        if name == "acp":
            yield Place(folder.name.rpartition("-")[0], "acp", folder)
        elif not name.endswith("-synthetic"):
            agent, _, rest = name.partition("-")
            yield Place(agent, "server" if rest.startswith("server") else "exec", folder)


class Found:
    """Kinds of one route, as its recordings are read."""

    def __init__(self) -> None:
        self.versions: set[str] = set()
        self.kinds: dict[str, State] = {}
        self.meta: set[str] = set()
        self.meta_read: set[str] = set()

    def add(self, place: Place) -> None:
        """Read one recording."""
        facts = registry.AGENTS[place.agent].routes[place.route]
        adapter = registry.load(facts.reader)()
        decoder, any_line = Decoder(adapter.wire), Decoder(Any)
        version = msgspec.json.decode((place.folder / "expected.json").read_bytes()).get("version")
        self.versions |= {version} if version else set()
        for line in (place.folder / "input.ndjson").read_bytes().split(b"\n"):
            try:
                self._line(adapter, any_line.fast(line), decoder.fast(line), facts.tags)
                continue
            except msgspec.DecodeError:
                pass
            for plain, event in zip(any_line.slow(line), decoder.slow(line), strict=True):
                if isinstance(plain, Decoded) and isinstance(event, Decoded):
                    self._line(adapter, plain.event, event.event, facts.tags)

    def _line(self, adapter: Any, plain: Any, event: Any, tags: tuple[str, ...]) -> None:
        names = kinds.names_of(plain, tags)
        if "params.update.sessionUpdate" in tags:
            for meta in kinds.metas(plain):
                self.meta.update(kinds.names_in_meta(meta))
            event = _watched(plain, self.meta_read)
        updates = adapter.read(event)
        state: State | None = None
        if any(not isinstance(update, Unknown) for update in updates):
            state = "read"
        elif not updates:
            state = "ignored"
        for name in names if state is not None else ():
            if self.kinds.get(name) != "read":
                self.kinds[name] = state  # type: ignore[assignment]

    def table(self, agent: str, route: str, reasons: dict[str, str], unseen: dict[str, str]) -> RouteKinds:
        """Return the table of the route.

        Raises:
            SystemExit: a kind is ignored without a reason.
        """
        ignored = sorted(kind for kind, state in self.kinds.items() if state == "ignored")
        missing = [kind for kind in ignored if kind not in reasons]
        if missing:
            raise SystemExit(f"{REASONS.name} has no reason for {agent} {route}: {', '.join(missing)}")
        meta: dict[str, State] = {}
        for name in sorted(self.meta):
            meta[name] = "read" if name.partition("/")[0] in self.meta_read else "ignored"
        return RouteKinds(
            versions=tuple(sorted(self.versions)),
            kinds=dict(sorted(self.kinds.items())),
            reasons={kind: reasons[kind] for kind in ignored},
            unseen={kind: reason for kind, reason in unseen.items() if kind not in self.kinds},
            meta=meta,
        )


def _watched(value: Any, read: set[str]) -> Any:
    """Return plain data whose `_meta` objects note which of their keys are read."""
    if isinstance(value, dict):
        return {
            key: Seen(item, read) if key == "_meta" and isinstance(item, dict) else _watched(item, read)
            for key, item in value.items()
        }
    return [_watched(item, read) for item in value] if isinstance(value, list) else value


def tables() -> dict[str, AgentKinds]:
    """Return the tables of all agents that have recordings."""
    found: dict[str, dict[str, Found]] = defaultdict(lambda: defaultdict(Found))
    for place in places():
        found[place.agent][place.route].add(place)
    known, beyond = reasons(), unseen()
    made = {}
    for agent, routes in sorted(found.items()):
        wires = {route: wire_of(agent, route) for route in routes}
        made[agent] = AgentKinds(
            live(agent),
            {
                route: it.table(agent, route, known.get(wires[route], {}), _of_route(beyond, agent, route))
                for route, it in sorted(routes.items())
            },
        )
    return made


def reasons() -> dict[str, dict[str, str]]:
    """Return the reasons of `ignored.toml`, by wire."""
    return {wire: table for wire, table in tomllib.loads(REASONS.read_text("utf-8")).items() if wire != "unseen"}


def unseen() -> dict[str, dict[str, str]]:
    """Return the reasons of `ignored.toml` for kinds that no recording has: by agent, or by agent and
    route, `acp` for all on that route."""
    found: dict[str, dict[str, str]] = tomllib.loads(REASONS.read_text("utf-8")).get("unseen", {})
    return found


def _of_route(tables: dict[str, dict[str, str]], agent: str, route: str) -> dict[str, str]:
    return tables.get("acp" if route == "acp" else f"{agent}-{route}") or tables.get(agent, {})


def wire_of(agent: str, route: str) -> str:
    """Return the table of `ignored.toml` for a route."""
    return "acp" if route == "acp" else {"ccs": "claude", "qwen": "claude", "kilo": "opencode"}.get(agent, agent)


def live(agent: str) -> dict[str, str]:
    """Return the versions of the agent's programs that the tests run, by program."""
    table = packages()
    programs = dict.fromkeys(route.program for route in registry.AGENTS[agent].routes.values())
    return {program: table[program].version for program in programs if program in table}


BEGIN, END = "<!-- make kinds: begin -->\n", "<!-- make kinds: end -->"
DOCUMENT = HERE.parents[1] / "docs" / "agents" / "README.md"


def document(made: dict[str, AgentKinds]) -> str:
    """Return the page of the agents with the table of versions."""
    rows = [
        f"| {agent} | `{route}` | {', '.join(it.versions)} | {len(it.kinds)} | {_live(agent, route, found)} |"
        for agent, found in made.items()
        for route, it in found.routes.items()
    ]
    head = (
        "| agent | route | versions in recordings | kinds of lines | version in live tests |\n|---|---|---|---|---|\n"
    )
    text = DOCUMENT.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + head + "\n".join(rows) + "\n\n" + END + rest.partition(END)[2]


def _live(agent: str, route: str, found: AgentKinds) -> str:
    return found.live.get(registry.AGENTS[agent].routes[route].program, "–")


def encoded(made: AgentKinds) -> bytes:
    """Return a table as the bytes of its file."""
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def main() -> None:
    """Write the tables of all agents."""
    found = tables()
    DOCUMENT.write_text(document(found), "utf-8")
    for agent, made in found.items():
        (FOLDER / agent / "kinds.json").write_bytes(encoded(made))
        counts = ", ".join(f"{route} {len(it.kinds)}" for route, it in made.routes.items())
        sys.stdout.write(f"{agent}: {counts}\n")


if __name__ == "__main__":
    main()
