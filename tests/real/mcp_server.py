"""An MCP server on stdio with one tool, `penguin`; it needs nothing but Python."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {"name": "penguin", "description": "Counts penguins", "inputSchema": {"type": "object", "properties": {}}}


def result(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "zoo", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "seven"}]}
    return {}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result(request)}) + "\n")
            sys.stdout.flush()
