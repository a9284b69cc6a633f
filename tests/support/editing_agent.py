"""An agent that really changes files, and reports what it did on the wire of Claude Code.

The prompt is JSON: `{"write": {"a.py": "text"}, "run": "a command", "hold": "a file to wait for"}`, each as wanted. It
writes the files, then runs the command, then waits, and replies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SESSION = "4ea1ae76-dc7b-42b3-84c4-f5a681059724"


def main() -> None:
    """Do what the prompt says."""
    asked: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    emit({"type": "system", "subtype": "init", "cwd": os.getcwd(), "session_id": SESSION, "model": "scripted"})
    for number, (name, text) in enumerate(asked.get("write", {}).items()):
        write(f"c{number}", Path(name).absolute(), text)
    if "run" in asked:
        call("r", "Bash", {"command": asked["run"]})
        out = subprocess.run(asked["run"], shell=True, capture_output=True, text=True, check=False).stdout
        result("r", out, {"stdout": out, "stderr": "", "interrupted": False})
    while "hold" in asked and not Path(asked["hold"]).exists():
        time.sleep(0.01)
    message({"type": "text", "text": "Done."})
    emit({"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": SESSION})


def write(id: str, path: Path, text: str) -> None:
    """Write a file."""
    before = path.read_bytes().decode() if path.exists() else None
    call(id, "Write", {"file_path": str(path), "content": text})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    facts = {"type": "create" if before is None else "update", "filePath": str(path), "content": text}
    result(id, "Written.", {**facts, "originalFile": before, "structuredPatch": []})


def call(id: str, name: str, given: dict[str, Any]) -> None:
    """Print a call."""
    message({"type": "tool_use", "id": id, "name": name, "input": given})


def message(part: dict[str, Any]) -> None:
    """Print a message of one part."""
    said = {"id": f"m{part.get('id', '')}", "type": "message", "role": "assistant", "content": [part]}
    emit({"type": "assistant", "message": said, "parent_tool_use_id": None, "session_id": SESSION})


def result(id: str, text: str, details: dict[str, Any]) -> None:
    """Print the result of a call."""
    part = {"tool_use_id": id, "type": "tool_result", "content": text, "is_error": False}
    said = {"role": "user", "content": [part]}
    emit({"type": "user", "message": said, "session_id": SESSION, "tool_use_result": details})


def emit(line: dict[str, Any]) -> None:
    """Print a line."""
    os.write(1, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    main()
