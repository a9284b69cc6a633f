"""An exported chat as one HTML file: no script, no address, nothing that is loaded.

Every text is escaped, and shown as it was written. The policy of the file allows its own style and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape

from penstock.chat.history.export.parts import ExportedStep, TurnToExport, one_line, parts_of

STYLE = """
:root { color-scheme: light dark; --soft: light-dark(#4b5556, #b0b9b7); --line: light-dark(#e2e5e2, #2a2f2f);
  --fill: light-dark(#eff1ef, #202525); --accent: light-dark(#0b656c, #63c2c6) }
body { margin: 0; background: light-dark(#fdfdfc, #141717); color: light-dark(#1a2021, #e6eae8);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere }
main { width: min(44rem, 100% - 2rem); margin: 2.25rem auto }
h1 { margin: 0; font-size: 1.4rem; line-height: 1.3 }
h2, h3 { margin: 0 0 .35rem; color: var(--soft); font-size: .8125rem; font-weight: 500 }
h3 { margin-top: 1.25rem; color: var(--accent) }
header p, .note, .facts, summary, time { color: var(--soft); font-size: .8125rem }
section { margin-top: 1.75rem; padding-top: 1.25rem; border-top: 1px solid var(--line) }
.text { margin: 0; white-space: pre-wrap }
.asked { padding: .6rem 1rem; border-radius: 10px; background: var(--fill) }
.note { margin: .75rem 0 0; padding-left: .75rem; border-left: 2px solid var(--line) }
pre { margin: .35rem 0; padding: .6rem .75rem; overflow-x: auto; border-radius: 6px; background: var(--fill);
  font: .8125rem/1.5 ui-monospace, monospace; white-space: pre-wrap }
details { margin-top: 1rem }
.step { margin: .9rem 0 0; font-size: .9rem }
.step > div { margin: 0 }
.below { margin-left: 1rem; padding-left: .75rem; border-left: 1px solid var(--line) }
code { font: .8125rem/1.5 ui-monospace, monospace }
ul { margin: .35rem 0; padding: 0; list-style: none }
"""

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
"""Content security policy of the file."""


def head(title: str | None, agent: str, cwd: str) -> str:
    """Return the beginning of the file."""
    name = escape(one_line(title) or "Chat")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<h1 dir="auto">{name}</h1>
<p><bdi>{escape(one_line(agent))}</bdi> in <bdi>{escape(one_line(cwd))}</bdi></p>
</header>
"""


def turn(exported: TurnToExport, agent: str) -> str:
    """Return the part of a turn. `agent`: that of the chat."""
    parts = parts_of(exported, agent)
    at = f" <time>{parts.asked_at}</time>" if parts.asked_at else ""
    steps = ""
    if parts.steps:
        count = f"{len(parts.steps)} {'step' if len(parts.steps) == 1 else 'steps'}"
        steps = f"<details><summary>{count}</summary>\n{''.join(map(_step, parts.steps))}</details>\n"
    blocks = [
        f"<section>\n<h2><bdi>{escape(parts.who)}</bdi>{at}</h2>\n",
        _text(parts.prompt, "text asked"),
        _note(f"The steps: {parts.gap}") if parts.gap else "",
        steps,
        f"<h3><bdi>{escape(parts.agent)}</bdi></h3>\n",
        _text(parts.reply, "text"),
        *map(_note, parts.notes),
        "</section>\n",
    ]
    return "".join(blocks)


def end() -> str:
    """Return the end of the file."""
    return "</main>\n</body>\n</html>\n"


def _text(text: str, kind: str) -> str:
    return f'<div class="{kind}" dir="auto">{escape(text)}</div>\n' if text else ""


def _note(text: str) -> str:
    return f'<p class="note" dir="auto">{escape(text)}</p>\n'


def _step(step: ExportedStep) -> str:
    title = f" <code><bdi>{escape(step.title)}</bdi></code>" if step.title else ""
    facts = f' <span class="facts">{escape(", ".join(step.facts))}</span>' if step.facts else ""
    codes = "".join(f"<pre>{escape(code.text)}</pre>\n" for code in step.codes)
    items = [f"<li>{'☑' if is_done else '☐'} <bdi>{escape(text)}</bdi></li>" for text, is_done in step.plan]
    plan = f"<ul>{''.join(items)}</ul>\n" if items else ""
    body = f"<b>{step.kind}</b>{title}{facts}\n{_text(step.text, 'text')}{codes}{plan}"
    for _ in range(step.depth):
        body = f'<div class="below">{body}</div>'
    return f'<div class="step">{body}</div>\n'
