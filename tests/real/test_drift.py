"""`penstock drift` over the installed agents: it reads the kinds of each that has a list, and all are known."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from install import NotInstalled, install, packages, search_path

from penstock.agents import kinds
from penstock.agents.registry import AGENTS
from penstock.cli import drift
from penstock.run import installed

LISTED = [name for name, facts in AGENTS.items() if any(route.source is not None for route in facts.routes.values())]


@pytest.mark.parametrize("name", LISTED)
def test_all_that_an_agent_can_print_is_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each route with a list is read in time, has kinds that are read, and none that is unknown."""
    put_in_path(name, monkeypatch)
    monkeypatch.setattr(drift, "SECONDS", 120.0)  # the first reading of 100 MB may take longer than a person waits
    rows = drift.installed_rows([name])
    assert {row.route for row in rows} == AGENTS[name].routes.keys()
    for row in rows:
        assert row.problem is None, row
        assert row.listed is (AGENTS[name].routes[row.route].source is not None)
        assert not row.unknown, row
        assert row.read or not row.listed
        assert all(row.ignored.values())


def test_the_program_of_opencode_has_all_events_of_its_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found in the program is what its OpenAPI document lists, which takes it too long to write."""
    put_in_path("opencode", monkeypatch)
    path = installed.where("opencode")
    assert path is not None
    said = subprocess.run([path, "generate"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True)

    schemas = json.loads(said.stdout)["components"]["schemas"]
    events = {
        value
        for name, schema in schemas.items()
        if name.startswith("Event")
        for value in schema.get("properties", {}).get("type", {}).get("enum", [])
    }
    source = AGENTS["opencode"].routes["server"].source
    assert source is not None
    assert len(events) > 50
    assert events <= installed.printable(path, source, 60)


def test_every_kind_in_recordings_of_claude_is_in_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is whole: what the recordings have of the program's own messages is in it."""
    put_in_path("claude", monkeypatch)
    path = installed.where("claude")
    source = AGENTS["claude"].routes["exec"].source
    assert path is not None
    assert source is not None
    listed = installed.printable(path, source, 60)
    for kind in kinds.table("claude").routes["exec"].kinds:
        assert any(kind == it or kind.startswith(f"{it}/") for it in listed), kind


def put_in_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the programs of an agent, or skip the test."""
    table = packages()
    started = [route.source.started for route in AGENTS[name].routes.values() if route.source is not None]
    routes = [route for agent in (name, *filter(None, started)) for route in AGENTS[agent].routes.values()]
    needed = [table[it] for it in dict.fromkeys(route.program for route in routes)]
    try:
        for it in needed:
            if it.by_name and not it.is_installed():
                raise NotInstalled(f"{it} has to be named to be installed")
            install(it)
    except NotInstalled as error:
        pytest.skip(str(error))
    monkeypatch.setenv("PATH", search_path(needed))
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
