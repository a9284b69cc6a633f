"""The tables of the kinds of lines are those of the recordings, and name what a line is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.agents import kinds
from penstock.agents._facts import STREAM_JSON_TAGS

sys.path.insert(0, str(Path(__file__).parents[1] / "real"))

import kinds as maker  # of tests/real


@pytest.fixture(scope="module")
def tables() -> dict[str, kinds.AgentKinds]:
    """Return the tables as `make kinds` would write them."""
    return maker.tables()


@pytest.mark.slow
def test_the_tables_are_made_from_the_recordings(tables: dict[str, kinds.AgentKinds]) -> None:
    """`make kinds` would change no file, and each kind that is ignored has its reason."""
    assert maker.DOCUMENT.read_text("utf-8") == maker.document(tables), "run `make kinds`"
    for agent, made in tables.items():
        assert (maker.FOLDER / agent / "kinds.json").read_bytes() == maker.encoded(made), f"{agent}: run `make kinds`"


def test_every_reason_is_needed() -> None:
    """No reason is left of a kind that is read by now, or that no recording has."""
    wires: dict[str, set[str]] = {}
    for agent in sorted(file.parent.name for file in maker.FOLDER.glob("*/kinds.json")):
        for route, found in kinds.table(agent).routes.items():
            wires.setdefault(maker.wire_of(agent, route), set()).update(found.reasons)
    assert {wire: set(reasons) for wire, reasons in maker.reasons().items()} == {
        wire: found for wire, found in wires.items() if found
    }


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ({"type": "system", "subtype": "init"}, ["system/init"]),
        ({"type": "stream_event", "event": {"type": "ping"}}, ["stream_event/ping"]),
        ({"type": "user", "message": {"content": [{"type": "text"}, {"type": "x"}]}}, ["user/text", "user/x"]),
        ({"type": "user", "message": {"content": "words"}}, ["user"]),
        ({"type": 3, "message": [1, {"content": {}}]}, []),
        ([], []),
        (None, []),
    ],
)  # fmt: skip
def test_the_names_of_a_line(line: object, names: list[str]) -> None:
    """Scalars are joined; each kind of a list's elements has a name; odd values have none."""
    assert kinds.names_of(line, STREAM_JSON_TAGS) == names


def test_the_names_in_meta() -> None:
    """Keys of two levels are names, and so is the type below them."""
    meta = {"codex": {"threadStatus": {"type": "systemError"}}, "level": "warning"}
    assert [*kinds.names_in_meta(meta)] == ["codex", "codex.threadStatus", "codex.threadStatus/systemError", "level"]


def test_a_table_is_read_only_when_it_is_needed() -> None:
    """Reading a stream that has nothing new loads no table; an agent without recordings has an empty one."""
    code = "import sys, penstock; from penstock.stream import Stream; Stream('claude').close(); " \
        "sys.exit('penstock.agents.kinds' in sys.modules)"  # fmt: skip
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert kinds.table("generic") == kinds.AgentKinds()
