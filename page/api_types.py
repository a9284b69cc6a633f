"""Write the page's types of the API, from the server's OpenAPI document: `make page-types`.

The file is committed; a test compares it with the document. Descriptions are left out: the document has them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.chat.web import openapi

TYPES = Path(__file__).resolve().parent.parent / "src" / "penstock" / "chat" / "page" / "types.d.ts"

HEAD = """\
// The types of the API, as the server's OpenAPI document has them. Made by page/api_types.py; do not edit.

declare namespace Api {
"""

PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def generate() -> str:
    """Return the text of the file."""
    document = json.loads(openapi.document())
    schemas = document["components"]["schemas"]
    named = "\n\n".join("\n".join(_interface(name, schema)) for name, schema in sorted(schemas.items()))
    chat, run = (_frames(document, path) for path in ("/api/chats/{chat}/events", "/api/runs/{run}/events"))
    return f"{HEAD}{named}\n\n  type Frame = {chat};\n\n  type RunFrame = {run};\n}}\n"


def _frames(document: dict[str, Any], path: str) -> str:
    answer = document["paths"][path]["get"]["responses"]["200"]
    return _type(answer["content"]["text/event-stream"]["schema"])


def _interface(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"  interface {name} {{"
    for field, kind in schema["properties"].items():
        optional = "" if field in schema["required"] else "?"
        yield f"    {field}{optional}: {_type(kind)};"
    yield "  }"


def _type(schema: dict[str, Any]) -> str:
    """Return the TypeScript type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        # Null last: versions of msgspec differ in the order.
        return " | ".join(sorted((_type(it) for it in schema["anyOf"]), key="null".__eq__))
    if schema.get("type") == "array":
        return f"Array<{_type(schema['items'])}>"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    return PRIMITIVES[schema["type"]] if "type" in schema else "unknown"


if __name__ == "__main__":
    sys.stdout.write(f"{TYPES}\n")
    TYPES.write_text(generate(), encoding="utf-8")
