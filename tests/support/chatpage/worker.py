"""A scripted agent that prints the wire of Qwen Code, and edits a file only if its flags allow that.

The prompt says what to do: `edit`, `delegate`, or any other words, after which it edits.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

SESSION = "30102500-f571-4536-9b07-5035f0e6e1c5"
INIT = {"type": "system", "subtype": "init", "cwd": "/tmp/demo", "qwen_code_version": "0.15.10", "model": "scripted"}
NEW = "new <img src=x onerror=alert(1)> \u202etext\n" + "".join(f"line {number}\n" for number in range(40))
EDIT = {"file_path": "README.md", "old_string": "# Demo\nold line\n", "new_string": f"# Demo\n{NEW}"}


def main() -> None:
    """Print one turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--approval-mode", default="default")
    parser.add_argument("--resume")
    options, _ = parser.parse_known_args()
    prompt = sys.stdin.read().strip()
    emit(INIT)
    if prompt == "delegate":
        delegate()
    else:
        edit(options.approval_mode != "default", f"resumed {options.resume == SESSION}")


def edit(is_allowed: bool, resumed: str) -> None:
    """Edit a file, or say that it was denied."""
    message("text", text="I will edit the file.")
    message("tool_use", id="c1", name="edit", input=EDIT)
    result("c1", "Edited." if is_allowed else "This needs approval.", failed=not is_allowed)
    reply(f"The file is edited, {resumed}." if is_allowed else "I could not edit it.", denied=not is_allowed)


def delegate() -> None:
    """Let a sub-agent work, which goes on while the main agent does."""
    message("text", text="I will ask a sub-agent.")
    message("tool_use", id="p1", name="agent", input={"description": "look around", "prompt": "Look."})
    message("tool_use", id="c1", name="run_shell_command", input={"command": "sleep 1"})
    message("tool_use", parent="p1", id="s1", name="read_file", input={"file_path": "inner.txt"})
    result("c1", "slept")
    result("s1", "the inner file", parent="p1")
    message("text", text="Meanwhile I look too.")
    message("tool_use", id="c2", name="run_shell_command", input={"command": "ls"})
    message("tool_use", parent="p1", id="s2", name="run_shell_command", input={"command": "echo inner"})
    result("s2", "inner", parent="p1")
    result("c2", "README.md")
    result("p1", "The sub-agent looked.")
    reply("All looked.")


def emit(line: dict[str, Any]) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps({"session_id": SESSION, "uuid": SESSION, **line}) + "\n")
    sys.stdout.flush()


def message(kind: str, parent: str | None = None, **block: Any) -> None:
    """Print a message of the model."""
    content = [{"type": kind, **block}]
    body = {"type": "message", "role": "assistant", "model": "scripted", "content": content, "stop_reason": None}
    emit({"type": "assistant", "parent_tool_use_id": parent, "message": {"id": SESSION, **body}})


def result(call: str, text: str, parent: str | None = None, *, failed: bool = False) -> None:
    """Print the result of a call."""
    block = {"type": "tool_result", "tool_use_id": call, "is_error": failed, "content": text}
    emit({"type": "user", "parent_tool_use_id": parent, "message": {"role": "user", "content": [block]}})


def reply(text: str, *, denied: bool = False) -> None:
    """Print the reply and the end."""
    message("text", text=text)
    denials = [{"tool_name": "edit", "tool_use_id": "c1", "tool_input": EDIT}] if denied else []
    emit({"type": "result", "subtype": "success", "is_error": False, "result": text, "permission_denials": denials})


if __name__ == "__main__":
    main()
