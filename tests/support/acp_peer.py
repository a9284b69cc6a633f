"""A small agent, made with the protocol's own Python package: what Penstock says has to suit it.

Run as a program it speaks ACP on its stdin and stdout. The prompt tells it what to do.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from typing import Any

import acp
from acp import helpers, schema

MODES = schema.SessionModeState(
    current_mode_id="ask",
    available_modes=[schema.SessionMode(id="ask", name="Ask"), schema.SessionMode(id="yolo", name="Yolo")],
)
OPTIONS = [
    schema.PermissionOption(option_id="always", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="once", name="Yes, once", kind="allow_once"),
    schema.PermissionOption(option_id="never", name="No", kind="reject_once"),
]
KNOWN = "known-session"
EDITED = "# Demo\nnew <img src=x onerror=alert(1)> \u202etext\n" + "".join(f"line {number}\n" for number in range(40))
SCRIPT = "set -e\nfor file in *; do\n  rm -- \u202e$file\ndone"


def blocks_as_text(prompt: list[Any]) -> str:
    """The blocks of a prompt as JSON; the files of links are read, and data are counted."""
    found: list[dict[str, Any]] = []
    for block in prompt:
        made = {"type": block.type}
        if block.type == "text":
            made["text"] = block.text
        elif block.type == "image":
            made |= {"mime_type": block.mime_type, "data": block.data}
        elif block.type == "resource_link":
            made |= {"name": block.name, "size": os.path.getsize(block.uri.removeprefix("file://"))}
        found.append(made)
    return json.dumps(found)


class Peer:
    """The agent. It knows one old session."""

    def __init__(self) -> None:
        self.mode = "ask"
        self.cancelled = asyncio.Event()
        self.client: Any = None

    def on_connect(self, conn: Any) -> None:
        """The client, to speak to it."""
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """What it can do: it loads sessions and forks them."""
        sessions = schema.SessionCapabilities(fork=schema.SessionForkCapabilities())
        return schema.InitializeResponse(
            protocol_version=1,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=sessions,
                prompt_capabilities=schema.PromptCapabilities(image="--images" in sys.argv),
            ),
            agent_info=schema.Implementation(name="peer", version="0.1"),
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """A session whose id tells the working directory."""
        return schema.NewSessionResponse(session_id=f"new-in-{cwd.rsplit('/', 1)[-1]}", modes=MODES)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """The old session, with its history before and, as some do, after the answer."""
        self._know(session_id)
        await self._say(session_id, helpers.update_user_message_text("an old prompt"))
        await self._say(session_id, helpers.update_agent_message_text("an old reply"))
        self.late = asyncio.create_task(self._say_late(session_id))
        return schema.LoadSessionResponse(modes=MODES)

    async def _say_late(self, session_id: str) -> None:
        for number in range(3):
            await asyncio.sleep(0)
            await self._say(session_id, helpers.update_agent_message_text(f"old text {number}"))

    async def fork_session(self, cwd: str, session_id: str, **_: Any) -> schema.ForkSessionResponse:
        """A branch of the old session."""
        self._know(session_id)
        return schema.ForkSessionResponse(session_id=f"fork-of-{session_id}", modes=MODES)

    def _know(self, session_id: str) -> None:
        if session_id != KNOWN:
            raise acp.RequestError.resource_not_found(session_id)

    async def set_session_mode(self, mode_id: str, session_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """Another permission mode."""
        self.mode = mode_id
        return schema.SetSessionModeResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """The client wants no more."""
        self.cancelled.set()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        """Do what the prompt says."""
        words = prompt[0].text
        stop: Any = "end_turn"
        if words == "permission":
            await self._permission(session_id)
        elif words == "edit":
            await self._edit(session_id)
        elif words == "script":
            await self._script(session_id)
        elif words == "wait":
            await self._say(session_id, helpers.update_agent_message_text("waiting"))
            await self.cancelled.wait()
            stop = "cancelled"
        elif words == "work":
            call = helpers.start_tool_call("w1", "Sleep", kind="execute", status="in_progress")
            await self._say(session_id, call)
            await self.cancelled.wait()
            stop = "cancelled"
        elif words == "build":
            await self._build(session_id)
            stop = "cancelled"
        elif words == "files":
            await self._files(session_id)
        elif words.startswith("blocks"):
            await self._say(session_id, helpers.update_agent_message_text(blocks_as_text(prompt)))
        elif words == "fail":
            raise acp.RequestError.internal_error({"details": "nothing works today"})
        else:
            for part in (words[:3], words[3:]):
                await self._say(session_id, helpers.update_agent_message_text(part))
        usage = schema.Usage(input_tokens=10, output_tokens=4, cached_read_tokens=5, total_tokens=19)
        return schema.PromptResponse(stop_reason=stop, usage=usage)

    async def _permission(self, session_id: str) -> None:
        call = helpers.start_tool_call("c1", "Remove all", kind="delete", status="pending", raw_input={"path": "/all"})
        await self._say(session_id, call)
        if self.mode == "yolo":
            answer = "nobody"
        else:
            request = schema.ToolCallUpdate(tool_call_id="c1", title="Remove all", kind="delete")
            asked = await self.client.request_permission(session_id=session_id, tool_call=request, options=OPTIONS)
            answer = getattr(asked.outcome, "option_id", asked.outcome.outcome)
        status: Any = "failed" if answer in ("never", "cancelled") else "completed"
        await self._say(session_id, helpers.update_tool_call("c1", status=status, raw_output=f"asked: {answer}"))
        await self._say(session_id, helpers.update_agent_message_text(f"asked: {answer}"))

    async def _edit(self, session_id: str) -> None:
        """Ask before a file is edited, with the text before and after."""
        content = [helpers.tool_diff_content("/shop/README.md", EDITED, "# Demo\nold line\n")]
        fields: Any = {"kind": "edit", "content": content}
        call = helpers.start_tool_call("e1", "Edit README.md", status="pending", **fields)
        await self._say(session_id, call)
        await self._ask(session_id, schema.ToolCallUpdate(tool_call_id="e1", title="Edit README.md", **fields))

    async def _script(self, session_id: str) -> None:
        """Ask before a command of many lines is run."""
        fields: Any = {"kind": "execute", "raw_input": {"command": SCRIPT}}
        await self._say(session_id, helpers.start_tool_call("x1", "Clean up", status="pending", **fields))
        await self._ask(session_id, schema.ToolCallUpdate(tool_call_id="x1", title="Clean up", **fields))

    async def _build(self, session_id: str) -> None:
        """Follow a plan, and run a command that prints while it works, until it is stopped."""
        steps: Any = [("Read it", "completed"), ("Build <b>it</b>", "in_progress"), ("Test it", "pending")]
        entries = [helpers.plan_entry(text, status=status) for text, status in steps]
        await self._say(session_id, helpers.update_plan(entries))
        fields: Any = {"kind": "execute", "status": "in_progress", "raw_input": {"command": "make all"}}
        await self._say(session_id, helpers.start_tool_call("b1", "make all", **fields))
        for number in range(200):
            if self.cancelled.is_set():
                break
            update = helpers.update_tool_call("b1")
            update.field_meta = {"terminal_output_delta": {"data": f"line {number} <b>\u202e\x1b[31mred\n"}}
            await self._say(session_id, update)
            await asyncio.sleep(0.05)
        await self.cancelled.wait()

    async def _ask(self, session_id: str, call: schema.ToolCallUpdate) -> None:
        asked = await self.client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
        answer = getattr(asked.outcome, "option_id", asked.outcome.outcome)
        status: Any = "failed" if answer in ("never", "cancelled") else "completed"
        await self._say(session_id, helpers.update_tool_call(call.tool_call_id, status=status))
        await self._say(session_id, helpers.update_agent_message_text(f"asked: {answer}"))

    async def _files(self, session_id: str) -> None:
        """Ask for what no client offered."""
        codes = []
        for asked in (
            self.client.read_text_file(session_id=session_id, path="/x"),
            self.client.write_text_file(session_id=session_id, path="/x", content=""),
            self.client.create_terminal(session_id=session_id, command="true"),
            self.client.ext_method("made/up", {}),
        ):
            try:
                await asked
            except acp.RequestError as error:
                codes.append(str(error.code))
        await self._say(session_id, helpers.update_agent_message_text(" ".join(codes)))

    async def _say(self, session_id: str, update: Any) -> None:
        await self.client.session_update(session_id=session_id, update=update)


async def serve(connection: socket.socket | None = None) -> None:
    """Speak until the client has gone: over a socket, else on stdin and stdout."""
    peer: Any = Peer()
    if connection is None:
        await acp.run_agent(peer, use_unstable_protocol=True)
        return
    reader, writer = await asyncio.open_connection(sock=connection)
    await acp.run_agent(peer, writer, reader, use_unstable_protocol=True)
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve())
