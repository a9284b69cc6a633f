"""AG-UI's own agent over HTTP in two versions, from npm, as processes that read streams or speak with a gateway."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npm_packages import SECONDS, installed

VERSIONS = ("1.0.0", "0.0.59")
PROGRAM = Path(__file__).with_name("agui_client.mjs")


def ask(version: str, requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the agent of a version has after each of these requests."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    words = ["node", str(PROGRAM), str(installed(f"@ag-ui/client@{version}"))]
    done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def reply_of(messages: list[dict[str, Any]]) -> str:
    """The text of the last message of the agent itself that has some."""
    own = (it for it in messages if it["role"] == "assistant" and "subagentRunId" not in it)
    return next((it["content"] for it in reversed([*own]) if it.get("content")), "")
