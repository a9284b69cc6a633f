"""Text of a new document."""

from __future__ import annotations

import json
import uuid

_APPEND = """\
---
agent_doc_session: {id}
agent_doc_format: append
{agent}---

# {title}

## User

"""

_TEMPLATE = """\
---
agent_doc_session: {id}
agent_doc_format: template
{agent}---

# {title}

## Status

<!-- agent:status patch=replace -->
<!-- /agent:status -->

## Exchange

<!-- agent:exchange patch=append -->

<!-- /agent:exchange -->

## Queue

<!-- agent:queue -->
<!-- /agent:queue -->
"""


def new_document(title: str, agent: str | None, *, template: bool = False) -> str:
    """Return the text of a new document with an id of its own: in append format, or with components."""
    text = _TEMPLATE if template else _APPEND
    line = f"agent: {json.dumps(agent, ensure_ascii=False)}\n" if agent else ""
    return text.format(id=uuid.uuid4(), agent=line.replace('"', "") if agent and agent.isalnum() else line, title=title)
