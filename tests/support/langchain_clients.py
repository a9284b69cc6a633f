"""LangChain's chat model for OpenAI's interface, from PyPI, as a process that reads answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from python_packages import installed

PACKAGE = "langchain-openai==1.7.4"
SECONDS = 800
"""Timeout in seconds for all answers, on a machine that is busy."""

PROGRAM = Path(__file__).with_name("langchain_client.py")


def ask(requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the model has after each of these answers."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    words = [sys.executable, "-I", "-S", str(PROGRAM), str(installed(PACKAGE))]
    done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
