"""What the tests of the gateway share: a gateway, and a page that it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_process import Serve
from served import Gateway, start


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with as many files as a page has to have."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "vendor").mkdir()
    script = (
        '<script type="importmap">{"imports": {"marked": "/vendor/marked.js"}}</script><script src="/app.js"></script>'
    )
    (folder / "index.html").write_text(f"<!doctype html><title>Penstock</title>{script}")
    (folder / "shared.html").write_text(f"<!doctype html><title>A shared chat</title>{script}")
    (folder / "app.js").write_text("// the beginning\nexport {};\n")
    (folder / "sw.js").write_text("// a worker\n")
    (folder / "base.css").write_text("body {}\n")
    (folder / "large.css").write_text("body { color: black; }\n" * 200)
    (folder / "favicon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "vendor" / "marked.js").write_text("export {};\n")
    (folder / "vendor" / "notes.unknown").write_text("nothing for a browser")
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, page: Path) -> Iterator[Gateway]:
    """A gateway that no test ends; each has chats of its own."""
    gateway = start(tmp_path_factory.mktemp("gateway"), page)
    yield gateway
    gateway.close()


@pytest.fixture
def own(tmp_path: Path, page: Path) -> Iterator[Callable[..., Gateway]]:
    """Makes gateways of a test's own; started again in the same folder, one has the same chats."""
    started: list[Gateway] = []

    def make(**options: Any) -> Gateway:
        started.append(start(tmp_path, page, **options))
        return started[-1]

    yield make
    for gateway in started:
        gateway.close()


@pytest.fixture
def serve(tmp_path: Path, page: Path) -> Iterator[Callable[..., Serve]]:
    """Starts `penstock serve`."""
    started: list[Serve] = []

    def start(*flags: str, **options: Any) -> Serve:
        started.append(Serve(tmp_path, page, *flags, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()
