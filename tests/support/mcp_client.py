"""The official client of MCP for Python, with `penstock mcp`.

    mcp_client.py FOLDER MODE CALLS COMMAND…

CALLS is a file with those of `ask_agent`, as JSON; the output is a line of JSON about all of them.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from mcp import Client, StdioServerParameters


async def main(mode: Any, calls: list[dict[str, Any]], command: list[str]) -> None:
    """Ask for the tools, and for each of the turns."""
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    results = []
    async with Client(server, mode=mode) as client:
        tools = sorted(tool.name for tool in (await client.list_tools()).tools)
        for call in calls:
            progress: list[str] = []

            async def note(done: float, total: float | None, message: str | None, kept: list[str] = progress) -> None:
                kept.append(message or "")

            result = await client.call_tool("ask_agent", call, progress_callback=note)
            text = "".join(block.text for block in result.content if block.type == "text")
            facts = result.structured_content or {}
            results.append({"text": text, "is_error": bool(result.is_error), "facts": facts, "progress": len(progress)})
        version = client.protocol_version
    sys.stdout.write(json.dumps({"version": version, "tools": tools, "results": results}) + "\n")


asyncio.run(main(sys.argv[2], json.loads(Path(sys.argv[3]).read_bytes()), sys.argv[4:]))
