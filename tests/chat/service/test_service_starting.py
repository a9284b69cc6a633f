"""What an agent of a chat finds when it is started, and whose word it takes to start it so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.config import settings

if TYPE_CHECKING:
    from chat.service.conftest import Home


def test_the_environment_is_allow_listed(home: Home) -> None:
    """The agent finds what it needs, what the user names and what is configured; not Penstock's secrets."""
    recording = home.lines("said", [{"type": "result", "subtype": "success", "is_error": False, "result": "ok"}])
    script = f'env -0 > "{home.folder}/env"; pwd > "{home.folder}/pwd"; cat "{recording}"'
    home.configure("tells", ["/bin/sh", "-c", script], 'adapter = "claude"\n[agents.tells.env]\nOWN = "configured"')
    environ = {
        "PATH": "/usr/bin:/bin",
        "PENSTOCK_TOKEN": "secret",
        "SECRET": "x",
        "MINE": "y",
        "ANTHROPIC_API_KEY": "k",
    }

    async def chat() -> None:
        async with home.service(environ=environ, extra_env=["MINE"]) as service:
            made = await service.create(agent="tells")
            await service.prompt(made.id, "hi")
            (view,) = await home.settled(service, made.id)
            assert view.message == "ok"

    asyncio.run(chat())
    pairs = (home.folder / "env").read_text().rstrip("\0").split("\0")
    found = dict(pair.split("=", 1) for pair in pairs)
    assert (found["OWN"], found["MINE"], found["ANTHROPIC_API_KEY"]) == ("configured", "y", "k")
    assert "SECRET" not in found
    assert sorted(name for name in found if name.startswith("PENSTOCK_")) == ["PENSTOCK_DEPTH", "PENSTOCK_RUN"]
    assert (home.folder / "pwd").read_text().strip() == str(home.work.resolve())


def test_a_projects_own_file_starts_nothing_unasked(home: Home) -> None:
    """What a `penstock.toml` says of how agents are started counts once its directory is trusted."""
    project = home.work / "project"
    project.mkdir()
    text = home.config_file.read_text()
    (project / "penstock.toml").write_text(text)
    found = settings.load({}, str(project))

    async def chat() -> None:
        async with home.service(config=found) as service:
            assert [it.available for it in service.agents.listed() if it.name == "scripted"] == [False]
            made = await service.create(agent="scripted")
            await service.prompt(made.id, "1")
            (view,) = await home.settled(service, made.id)
            assert view.outcome == "error"
            assert f"trust the directory {project}" in (view.reason or "")
            assert "--trust" not in (view.reason or "")  # which penstock serve has not
            assert home.asked() == []
            await service.places.trust(project)
            assert [it.available for it in service.agents.listed() if it.name == "scripted"] == [True]
            await service.prompt(made.id, "2")
            assert (await home.settled(service, made.id))[1].outcome == "ok"
            assert home.asked() == ["2"]

    asyncio.run(chat())


def test_a_directory_that_became_a_link_is_not_worked_in(home: Home) -> None:
    """A chat's directory is looked at anew for each turn: one that leads out of the roots by now is refused."""
    outside, inside = home.folder / "outside", home.work / "inside"
    outside.mkdir()
    inside.mkdir()

    async def chat() -> None:
        async with home.service() as service:
            await service.places.trust(inside)
            made = await service.create(cwd=inside)
            inside.rmdir()
            inside.symlink_to(outside)
            await service.prompt(made.id, "hi")
            (view,) = await home.settled(service, made.id)
            assert view.outcome == "error"
            assert "root" in (view.reason or "")
            assert home.asked() == []

    asyncio.run(chat())
