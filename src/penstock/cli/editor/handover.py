"""Summary of a conversation for an agent that goes on with it: a part of its first prompt, marked as such."""

from __future__ import annotations

from collections.abc import Sequence

MAX_PROMPTS = 20
"""Number of prompts in a summary: the newest."""
MAX_PROMPT_CHARS = 500
"""Characters of each prompt in a summary."""
MAX_REPLY_CHARS = 4000
"""Characters of the last reply in a summary: its end, where agents say what they have done."""


def summary(agent: str, prompts: Sequence[str], reply: str) -> str:
    """Return the summary of a conversation with an agent. All quoted lines begin with `> `."""
    shown = prompts[-MAX_PROMPTS:]
    left_out = len(prompts) - len(shown)
    parts = [
        f"[Summary by Penstock of an earlier conversation with {agent} in this directory. It is context, and you have "
        "not seen that conversation. Quoted lines begin with >.]",
        "Prompts of the user, the oldest first" + (f" ({left_out} older ones are left out):" if left_out else ":"),
        *(_quoted(_beginning(prompt)) for prompt in shown),
    ]
    if reply.strip():
        parts += [f"Last reply of {agent}:", _quoted(_end(reply.strip()))]
    return "\n\n".join([*parts, "[End of the summary. The prompt of the user follows.]"])


def _beginning(text: str) -> str:
    return text if len(text) <= MAX_PROMPT_CHARS else text[:MAX_PROMPT_CHARS] + " […]"


def _end(text: str) -> str:
    return text if len(text) <= MAX_REPLY_CHARS else "[…] " + text[-MAX_REPLY_CHARS:]


def _quoted(text: str) -> str:
    """Return a text whose every line is marked, so that it cannot look like the end of the summary."""
    return "\n".join(f"> {line}" for line in text.splitlines())
