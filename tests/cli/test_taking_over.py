"""A server that takes over from a hidden one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.cli.serve.serving import HIDDEN, taking_over
from penstock.run.locks import take


@pytest.mark.slow
def test_the_process_of_a_hidden_server_is_waited_for(tmp_path: Path) -> None:
    """Without its note too: it begins and ends without one, and has the store for as long as it lives."""
    fd = os.open(tmp_path / HIDDEN, os.O_RDWR | os.O_CREAT)
    assert take(fd)
    waits, began = threading.Event(), threading.Event()

    def take_over() -> None:
        with taking_over(tmp_path, waits.set):
            began.set()

    server = threading.Thread(target=take_over)
    server.start()
    try:
        assert waits.wait(60)
        assert not began.is_set()
    finally:
        os.close(fd)
        server.join(60)
    assert began.is_set()
