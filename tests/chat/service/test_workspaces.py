"""Directories that agents may work in: roots, links, trust."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.chat.errors import Invalid, OutsideRoots, UntrustedDirectory
from penstock.chat.service.agents.workspaces import MAX_RECENT, Workspace, Workspaces
from penstock.errors import UsageError

if TYPE_CHECKING:
    from chat.conftest import StoreFile


class Ground:
    """A root with a directory in it, one outside, and links between them."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outside = folder / "root", folder / "outside"
        self.inside = self.root / "in" / "side"
        for path in (self.inside, self.outside, folder / "root-2"):
            path.mkdir(parents=True)
        (self.root / "out").symlink_to(self.outside)
        (self.root / "back").symlink_to(self.inside)
        (self.root / "loop").symlink_to(self.root / "loop")
        (self.root / "file").touch()
        (folder / "link").symlink_to(self.root)
        self.link = folder / "link"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """Some directories."""
    return Ground(tmp_path)


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("{root}/out", OutsideRoots),
        ("{root}/../outside", OutsideRoots),
        ("{root}/in/../../outside", OutsideRoots),
        ("{root}-2", OutsideRoots),
        ("{root}-3", OutsideRoots),
        ("/", OutsideRoots),
        ("/no/such/place", OutsideRoots),
        ("{root}/nothing", Invalid),
        ("{root}/file", Invalid),
        ("{root}/loop", Invalid),
        ("in/side", Invalid),
        ("", Invalid),
        ("~", Invalid),
        ("{root}/a\0b", Invalid),
        ("{root}/\ud800", Invalid),
        ("{root}/" + "x" * 300, Invalid),
        ("/" + "x" * 5000, Invalid),
    ],
)
def test_what_is_not_below_a_root_is_refused(
    place: StoreFile, ground: Ground, path: str, refusal: type[UsageError]
) -> None:
    """By whatever name: dots, links, another directory with the same beginning, what is no directory."""

    async def use() -> None:
        async with await place.open() as log:
            spaces = Workspaces([ground.root], log, await log.list_directories(), lambda: 1)
            with pytest.raises(refusal):
                spaces.find(path.replace("{root}", str(ground.root)))
            with pytest.raises(refusal):
                await spaces.trust(path.replace("{root}", str(ground.root)))
            assert spaces.listed([])[1] == []

    asyncio.run(use())


def test_links_are_the_directories_that_they_lead_to(place: StoreFile, ground: Ground) -> None:
    """A root, a directory in it and its trust are the same by all of their names."""

    async def use() -> None:
        async with await place.open() as log:
            spaces = Workspaces([ground.link, ground.root], log, await log.list_directories(), lambda: 1)
            assert spaces.roots == [ground.root.resolve()]
            assert spaces.find(None) == ground.root.resolve()
            for name in (ground.inside, ground.root / "back", ground.link / "in" / "side", f"{ground.root}/in/./side/"):
                assert spaces.find(name) == ground.inside.resolve()
            await spaces.trust(ground.root / "back")
            assert spaces.require(ground.inside) == ground.inside.resolve()

    asyncio.run(use())


def test_trust_is_asked_once_and_kept(place: StoreFile, ground: Ground) -> None:
    """It holds for this directory alone, and over a restart; a link that leads elsewhere later is not trusted."""

    async def use() -> None:
        async with await place.open() as log:
            spaces = Workspaces([ground.root], log, await log.list_directories(), lambda: 7)
            with pytest.raises(UntrustedDirectory) as told:
                spaces.require(ground.root / "in")
            assert str(ground.root / "in") in str(told.value)
            trusted = await spaces.trust(ground.root / "in")
            assert trusted == Workspace(str(ground.root / "in"), True)
            spaces = Workspaces([ground.root], log, await log.list_directories(), lambda: 8)
            spaces.require(ground.root / "in")
            for other in (ground.inside, ground.root):
                with pytest.raises(UntrustedDirectory):
                    spaces.require(other)
            ground.inside.rmdir()
            (ground.root / "in").rmdir()
            (ground.root / "in").symlink_to(ground.root)
            with pytest.raises(UntrustedDirectory):
                spaces.require(ground.root / "in")

    asyncio.run(use())


def test_trust_that_another_node_has_kept(place: StoreFile, ground: Ground) -> None:
    """A chat can be begun as soon as the directory is trusted, at whichever node that was done."""

    async def use() -> None:
        async with await place.open() as log:
            here, other = (Workspaces([ground.root], log, [], lambda: 7) for _ in range(2))
            with pytest.raises(UntrustedDirectory):
                await here.require_now(ground.inside)
            await other.trust(ground.inside)
            with pytest.raises(UntrustedDirectory):
                here.require(ground.inside)
            assert await here.require_now(ground.inside) == ground.inside
            assert here.require(ground.inside) == ground.inside

    asyncio.run(use())


def test_directories_are_listed(place: StoreFile, ground: Ground) -> None:
    """The roots, then those used, then those trusted, none twice, none outside, and not too many."""

    async def use() -> None:
        time = iter(range(100))
        async with await place.open() as log:
            spaces = Workspaces([ground.root], log, await log.list_directories(), lambda: next(time))
            for number in range(MAX_RECENT + 2):
                (ground.root / str(number)).mkdir()
                await spaces.trust(ground.root / str(number))
            used = [
                str(ground.inside),
                str(ground.root),
                str(ground.root / "3"),
                str(ground.outside),
                str(ground.inside),
            ]
            roots, recent = spaces.listed(used)
            assert roots == [Workspace(str(ground.root), False)]
            names = [ground.inside, *(ground.root / str(number) for number in (3, 11, 10, 9, 8, 7, 6, 5, 4))]
            assert recent == [Workspace(str(path), path != ground.inside) for path in names]

    asyncio.run(use())


@pytest.mark.parametrize("roots", [["nothing"], ["file"], ["loop"]])
def test_roots_have_to_be_directories(place: StoreFile, ground: Ground, roots: list[Any]) -> None:
    """With a root that is no directory, nothing starts."""

    async def use() -> None:
        async with await place.open() as log:
            with pytest.raises(UsageError):
                Workspaces([ground.root / name for name in roots], log, await log.list_directories(), lambda: 1)

    asyncio.run(use())
