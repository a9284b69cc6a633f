"""Changes of files that need no question are inside the directory, wherever links lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.run.directory import stays_inside


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A directory with links that lead out of it and into it."""
    (tmp_path / "shop" / "src").mkdir(parents=True)
    (tmp_path / "shop-other").mkdir()
    (tmp_path / "shop" / "out").symlink_to(tmp_path / "shop-other")
    (tmp_path / "shop" / "dangling").symlink_to(tmp_path / "shop-other" / "new.txt")
    (tmp_path / "shop" / "in").symlink_to("src")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "to-shop").symlink_to(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.mark.parametrize(
    "path", ["new.txt", "src/new.txt", "./a/../b.txt", "in/x", "SHOP/new.txt", "TO/new.txt", "..a"]
)
def test_inside(shop: Path, path: str) -> None:
    """Also by a link, by an absolute path, and by a path through a link to the directory itself."""
    path = path.replace("SHOP", str(shop)).replace("TO", str(shop.parent / "to-shop"))
    assert stays_inside(str(shop), [path])
    assert stays_inside(str(shop.parent / "to-shop"), [path])
    assert stays_inside(str(shop), ["a.txt", path])


@pytest.mark.parametrize(
    "path",
    [
        "../new.txt", "src/../../x", "out/new.txt", "dangling", "/etc/passwd", "SHOP-other/x", "SHOP", ".", "",
        "nul\0", "../loop/x", ".git/hooks/pre-commit", "src/.git/config", ".GIT/config", "out/../new.txt",
    ],
)  # fmt: skip
def test_outside(shop: Path, path: str) -> None:
    """One such path among several is enough; what git obeys counts as outside, and so does the directory itself."""
    path = path.replace("SHOP", str(shop))
    assert not stays_inside(str(shop), [path])
    assert not stays_inside(str(shop), ["a.txt", path])


def test_no_path_is_not_inside(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of which nothing is known is asked about; without a directory it is that of this process."""
    assert not stays_inside(str(shop), [])
    monkeypatch.chdir(shop)
    assert stays_inside(None, ["new.txt", os.path.join(shop, "x")])
    assert not stays_inside(None, ["../new.txt"])
