"""Tests of the chat's page in a real browser. They run when they are asked for.

With `make test-chat`, or by hand:

    make page && PENSTOCK_CHAT=1 pytest tests/page

The browser is Chromium: `PENSTOCK_CHROMIUM`, or what the path has. `PENSTOCK_SHOTS` names a directory for pictures.
"""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

ASKED = os.environ.get("PENSTOCK_CHAT", "")

if ASKED:
    from chatpage import cast, fuzz
    from chatpage.device import Device, chromium, device
    from chatpage.proxy import Proxy
    from chatpage.server import Server
    from chatpage.thread import Thread
else:
    collect_ignore_glob = ["test_*.py"]  # they import what only the extra `browser` installs

if TYPE_CHECKING:
    from playwright.sync_api import Browser


HERE = Path(__file__).parent
SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
STEP, LONG_STEP, MANY = 6, 12, 12
"""Of the cases of a test, every `STEP`-th runs, or every `LONG_STEP`-th of more than `MANY`; a soak runs all."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out a part of the cases of tests that have many. A test named on the command line runs with all of them."""
    if SOAK or any("::" in word for word in config.args):
        return
    own = [(item, item.nodeid.partition("[")[0]) for item in items if HERE in item.path.parents]
    cases = Counter(test for _, test in own)
    seen: Counter[str] = Counter()
    left: set[pytest.Item] = set()
    for item, test in own:
        if seen[test] % (STEP if cases[test] <= MANY else LONG_STEP):
            left.add(item)
        seen[test] += 1
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a worker."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests of a worker share; each makes chats of its own, and none ends it."""
    folder = tmp_path_factory.mktemp("shared")
    started = Server(folder, stage(folder))
    yield started
    started.end()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Makes servers of a test's own, to be ended, killed, and seen without any chat."""
    started: list[Server] = []

    def make(*, config: Callable[[Path], Path] = stage, **options: Any) -> Server:
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        started.append(Server(folder, config(folder), **options))
        return started[-1]

    yield make
    for each in started:
        each.end()


@pytest.fixture
def devices(
    browser: Browser, own_server: Callable[..., Server], proxies: Callable[[Server], Proxy]
) -> Iterator[Callable[..., Device]]:
    """Makes browsers of people. What goes wrong in one of them fails the test.

    They are closed before the servers and lines that they speak with, whose end they would complain about.
    """
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(device(browser, **options))


@pytest.fixture
def proxies() -> Iterator[Callable[[Server], Proxy]]:
    """Makes lines to a server that can be cut."""
    made: list[Proxy] = []

    def make(target: Server) -> Proxy:
        made.append(Proxy(target.port))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def at(server: Server, devices: Callable[..., Device]) -> Callable[..., Thread]:
    """Opens the page at a new chat with this agent, in a browser that is signed in."""

    def open_chat(agent: str, *, of: Server = server, **options: Any) -> Thread:
        of.gate.unlink(missing_ok=True)
        thread = Thread(devices(**options), of)
        thread.enter(of.chat(agent))
        return thread

    return open_chat


@pytest.fixture
def workshop(at: Callable[..., Thread], own_server: Callable[..., Server]) -> Callable[..., Thread]:
    """Opens a chat with an agent that edits."""
    return lambda agent, **options: at(agent, of=own_server(config=cast.workshop), **options)


@pytest.fixture(scope="session")
def vendor() -> ModuleType:
    """The script that fetches what the page loads."""
    path = Path(__file__).parents[2] / "page" / "vendor.py"
    spec = importlib.util.spec_from_file_location("page_vendor", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="session")
def packages(vendor: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the page's lock file, as npm installs them: it checks the integrity of each."""
    modules: Path = vendor.install(tmp_path_factory.mktemp("packages"), tools=True)
    return modules


def stage(folder: Path) -> Path:
    """The configuration of a server of the tests."""
    hostile, gate = cast.HOSTILE.read_text("utf-8"), folder / "gate"
    more = [
        cast.agent("hostile", "claude", cast.reworded(folder / "hostile", hostile), 2),
        cast.agent("tagged", "claude", cast.reworded(folder / "tagged", cast.TAGGED), 2),
        cast.held("prose", cast.reworded(folder / "prose", cast.PROSE), 60, gate),
        cast.agent("deep", "claude", cast.reworded(folder / "deep", cast.deep()), 3),
        cast.agent("line", "claude", cast.reworded(folder / "line", "word " * 200_000 + "END-OF-REPLY"), 2),
        cast.agent("large", "claude", cast.paced(folder / "large", cast.RECORDINGS / "claude" / "long", 5)),
        cast.agent("lost", "copilot", cast.asking(folder / "asking"), 2),
        cast.held("pondering", cast.RECORDINGS / "claude" / "thinking", 0, gate),
        cast.held("halfway", cast.WORDED, 60, gate),
        cast.held("coding", cast.WORDED, 140, gate),
        cast.parrot("fuzzer", folder / "fuzzer", fuzz.tried().values()),
        cast.parrot("depths", folder / "depths", fuzz.replies().values()),
        *(cast.peer(), cast.commander(), cast.missing()),
    ]
    return cast.config(folder / "penstock.toml", more=more)


@pytest.fixture(scope="session")
def axe(packages: Path) -> str:
    """The source of the scanner, by the page's lock file."""
    return (packages / "axe-core" / "axe.min.js").read_text("utf-8")
