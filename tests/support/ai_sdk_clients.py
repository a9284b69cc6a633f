"""The AI SDK's own chat in each of its versions, from npm, as processes that read streams or speak with a gateway."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npm_packages import SECONDS, installed

VERSIONS = {5: "5.0.277", 6: "6.0.326", 7: "7.0.173"}
PROGRAM = Path(__file__).with_name("ai_sdk_client.mjs")


def ask(major: int, requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the chat of a version has after each of these requests."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    words = ["node", str(PROGRAM), str(installed(f"ai@{VERSIONS[major]}"))]
    done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def text_of(message: dict[str, Any]) -> str:
    """The text of the last step that has some."""
    steps = [""]
    for part in message["parts"]:
        if part["type"] == "step-start":
            steps.append("")
        elif part["type"] == "text":
            steps[-1] += part["text"]
    return next((step for step in reversed(steps) if step), "")
