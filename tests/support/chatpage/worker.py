"""A scripted agent that prints the wire of Qwen Code, and edits a file only if its flags allow that.

The prompt says what to do: `edit`, `delegate`, or any other words, after which it edits. With `--acp` it speaks ACP,
and asks before its edit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import acp
from acp import helpers, schema

SESSION = "30102500-f571-4536-9b07-5035f0e6e1c5"
INIT = {"type": "system", "subtype": "init", "cwd": "/tmp/demo", "qwen_code_version": "0.15.10", "model": "scripted"}
NEW = "new <img src=x onerror=alert(1)> \u202etext\n" + "".join(f"line {number}\n" for number in range(40))
MODES = schema.SessionModeState(
    current_mode_id="default", available_modes=[schema.SessionMode(id="default", name="Ask before all")]
)
OPTIONS = [
    schema.PermissionOption(option_id="once", name="Yes, once", kind="allow_once"),
    schema.PermissionOption(option_id="never", name="No", kind="reject_once"),
]
EDIT = {"file_path": "README.md", "old_string": "# Demo\nold line\n", "new_string": f"# Demo\n{NEW}"}


def main() -> None:
    """Print one turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--approval-mode", default="default")
    parser.add_argument("--resume")
    parser.add_argument("--acp", action="store_true")
    options, _ = parser.parse_known_args()
    if options.acp:
        dialogue: Any = Dialogue()
        asyncio.run(acp.run_agent(dialogue, use_unstable_protocol=True))
        return
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


class Dialogue:
    """The same agent over ACP: it knows the session of the wire, and edits `README.md` of its directory."""

    client: Any
    is_resumed = False

    def on_connect(self, conn: Any) -> None:
        """The client, to speak to it."""
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """What it can do: it loads sessions."""
        return schema.InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=schema.AgentCapabilities(load_session=True)
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """A new session."""
        return schema.NewSessionResponse(session_id=SESSION, modes=MODES)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """The session of an earlier turn."""
        self.is_resumed = session_id == SESSION
        return schema.LoadSessionResponse(modes=MODES)

    async def set_session_mode(self, mode_id: str, session_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """It has one mode, which asks."""
        return schema.SetSessionModeResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        """Ask for the edit, and say what became of it."""
        path = str(Path.cwd() / "README.md")
        diff = [helpers.tool_diff_content(path, EDIT["new_string"], EDIT["old_string"])]
        fields: Any = {"kind": "edit", "content": diff, "locations": [schema.ToolCallLocation(path=path)]}
        call = helpers.start_tool_call("c1", "Edit README.md", status="pending", **fields)
        await self.client.session_update(session_id=session_id, update=call)
        asked = await self.client.request_permission(
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(tool_call_id="c1", title="Edit README.md", **fields),
            options=OPTIONS,
        )
        is_allowed = getattr(asked.outcome, "option_id", None) == "once"
        status: Any = "completed" if is_allowed else "failed"
        await self.client.session_update(session_id=session_id, update=helpers.update_tool_call("c1", status=status))
        text = f"The file is edited, resumed {self.is_resumed}." if is_allowed else "I could not edit it."
        await self.client.session_update(session_id=session_id, update=helpers.update_agent_message_text(text))
        return schema.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    main()
