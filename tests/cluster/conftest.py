"""What the tests with a real PostgreSQL share: a server for all of them, and a database for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import Cluster
from postgres import Server, programs
from slow_network import Proxy


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server; the tests are skipped if PostgreSQL is not installed."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (on Debian and Ubuntu: apt install postgresql)")
    server = Server()
    yield server
    server.close()


@pytest.fixture
def database(server: Server) -> str:
    """The URL of a new database with the tables of the store."""
    return server.database()


@pytest.fixture
def cluster(tmp_path: Path, database: str) -> Iterator[Cluster]:
    """A cluster without machines yet."""
    made = Cluster(tmp_path, database)
    yield made
    made.close()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A network between the store and the server."""
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()
