"""The agents that a server of the tests knows: real recordings, played again at their own pace."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
RECORDINGS = TESTS / "recordings"
PLAYER = TESTS / "support" / "scripted.py"
PEER = TESTS / "support" / "acp_peer.py"
CODEX = TESTS / "support" / "codex_peer.py"
COMMANDER = TESTS / "run" / "processes" / "programs" / "commander.py"
PARROT = HERE / "parrot.py"
WORKER = HERE / "worker.py"
HOSTILE = TESTS / "page" / "hostile.markdown"

WORDED = RECORDINGS / "claude" / "text"
"""The recording whose reply takes another text's words; its lines, and when they came, stay."""


ASKED = RECORDINGS / "copilot" / "tools"
"""The recording in which a question takes the place of the first call."""
QUESTION, CHOICES = "Which notes do you mean?", ["The old ones", "The new ones"]


class Role(NamedTuple):
    """An agent of the tests: a recording, and how many times faster than it was it is played."""

    recording: str
    speed: float = 1.0


ROLES = {
    "text": Role("claude/text"),
    "brisk": Role("claude/text", 3),
    "thinking": Role("claude/thinking"),
    "thinktools": Role("claude/thinktools", 2),
    "tools": Role("claude/tools", 2),
    "parallel": Role("claude/parallel", 2),
    "error": Role("claude/err500"),
    "killed": Role("claude/killed_sigterm", 2),
    "whole": Role("claude/text.nopartial", 2),
    "quick": Role("claude/base_for_resume", 20),
    "slow": Role("gemini/killed_sigterm", 2),
    "lasting": Role("gemini/killed_sigterm"),
    "pi-thinking": Role("pi/thinking"),
    "pi-tools": Role("pi/tools"),
    "codex-text": Role("codex/text", 2),
    "codex-thinktools": Role("codex/thinktools"),
    "opencode-tools": Role("opencode/tools", 6),
    "gemini-tools": Role("gemini/tools", 3),
    "qwen-whole": Role("qwen/text.nopartial", 6),
    "copilot-tools": Role("copilot/tools", 2),
    "cline-thinking": Role("cline/thinking", 2),
    "ollama-tools": Role("ollama-synthetic/tools"),
    "limit": Role("pi/maxtok"),
}
"""The agents, by name."""


def expected(role: str) -> dict[str, object]:
    """What a reader must get from an agent's recording."""
    found: dict[str, object] = json.loads((RECORDINGS / ROLES[role].recording / "expected.json").read_text("utf-8"))
    return found


def reply_of(role: str) -> str:
    """The reply of an agent's recording; it is not one of those that are kept as a hash."""
    reply = expected(role)["reply"]
    assert isinstance(reply, str)
    return reply


def reworded(folder: Path, text: str) -> Path:
    """A recording in this folder: a real one whose reply is this text, in as many pieces, at the same times."""
    lines = [json.loads(line) for line in (WORDED / "input.ndjson").read_bytes().splitlines()]
    pieces = [line for line in lines if line.get("event", {}).get("delta", {}).get("type") == "text_delta"]
    size = -(-len(text) // len(pieces))
    for number, line in enumerate(pieces):
        line["event"]["delta"]["text"] = text[number * size : (number + 1) * size]
    for line in lines:
        if line["type"] == "assistant":
            line["message"]["content"] = [{"type": "text", "text": text}]
        elif line["type"] == "result":
            line["result"] = text
    return _recording(folder, lines, WORDED)


def asking(folder: Path) -> Path:
    """A recording in this folder: a real one in which the agent asks, and nobody can answer while it runs."""
    lines = [json.loads(line) for line in (ASKED / "input.ndjson").read_bytes().splitlines()]
    at = next(number for number, line in enumerate(lines) if line["type"] == "tool.execution_start")
    asked = {"requestId": "q1", "question": QUESTION, "choices": CHOICES}
    lines[at] = {"type": "user_input.requested", "data": asked}
    return _recording(folder, lines, ASKED)


def _recording(folder: Path, lines: list[Any], like: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "input.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (folder / "times").write_bytes((like / "times").read_bytes())
    return folder


def agent(name: str, adapter: str, recording: Path, speed: float = 1.0, *more: str) -> str:
    """The part of the configuration that makes it an agent; `more` is for the player."""
    command = [sys.executable, "-S", str(PLAYER), str(recording), f"--speed={speed}", *more]
    command += ["--model={model}", "--resume={session_id}"]
    return _table(name, adapter=adapter, command=command)


def held(name: str, recording: Path, piece: int, gate: Path) -> str:
    """The same for one of claude's that waits before this piece of its text until the file `gate` is there."""
    lines = (recording / "input.ndjson").read_bytes().splitlines()
    number = [number for number, line in enumerate(lines, 1) if b'"text_delta"' in line][piece]
    return agent(name, "claude", recording, 4, f"--hold={number}:{gate}")


def parrot(name: str, folder: Path, texts: Iterable[str]) -> str:
    """The same for one of claude's that replies with these texts, one in each turn."""
    for number, text in enumerate(texts):
        reworded(folder / str(number), text)
    command = [sys.executable, "-S", str(PARROT), str(folder), "--model={model}", "--resume={session_id}"]
    return _table(name, adapter="claude", command=command)


def peer(name: str = "peer") -> str:
    """The part of the configuration for an agent that asks, and waits for the answer."""
    return _table(name, protocol="acp", command=[sys.executable, str(PEER)])


def commander(name: str = "commander") -> str:
    """The part of the configuration for an agent that asks whether it may run each line of its prompt."""
    return _table(name, protocol="acp", command=[sys.executable, str(COMMANDER), "--resumes"])


def workshop(folder: Path) -> Path:
    """The configuration of a server whose agents edit: one in the place of Qwen Code's program, and one that asks.

    By Qwen Code's own default it does not ask: it reads, and what needs a permission is denied.
    """
    worker = _table("qwen", command=[sys.executable, str(WORKER)])
    own = '[run]\nallow = "own"\n'
    return config(folder / "penstock.toml", roles=["quick"], more=[worker, peer(), own])


def stand_in(name: str) -> str:
    """The part of the configuration that puts a program into the place of an agent's own."""
    return _table(name, command=[sys.executable, str(WORKER)])


def codex(folder: Path) -> str:
    """The part of the configuration that puts a small app server into the place of codex's.

    Its turns end once `gate` is in the folder, and it reads messages while `ears` is there.
    """
    flags = (f"--{name}={folder / name}" for name in ("did", "gate", "ears"))
    return _table("codex", command=[sys.executable, "-S", str(CODEX), *flags])


def missing(name: str = "missing") -> str:
    """The part of the configuration for an agent that is not there."""
    return _table(name, adapter="claude", command=["/nowhere/at-all", "--json"])


def config(path: Path, roles: Iterable[str] = ROLES, more: Iterable[str] = ()) -> Path:
    """A configuration with these roles as its agents, and what `agent`, `peer` and `missing` gave."""
    parts = []
    for name in roles:
        role = ROLES[name]
        parts.append(agent(name, str(expected(name)["agent"]), RECORDINGS / role.recording, role.speed))
    path.write_text("\n".join([*parts, *more]), "utf-8")
    return path


def _table(name: str, **values: object) -> str:
    # A list of texts is written the same in JSON and in TOML.
    return f"[agents.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


TAGGED = """\
<think>First a SECRET plan.</think>The reply begins.

<tool_call>
{"name": "bash", "arguments": {"command": "echo SECRET"}}
</tool_call>

It goes on, and says what `<think>` means:

```xml
<think>in a fence</think>
```

<function_calls><invoke name="bash">SECRET</invoke></function_calls>The end.
"""
"""A reply of a model whose thoughts and calls nobody parses. What is SECRET is not shown."""

PROSE = (TESTS.parent / "docs" / "turns.md").read_text("utf-8")
"""A real text of Markdown: headings, code, tables, lists."""


def deep() -> str:
    """Markdown that is hard on whoever reads it: deep, wide, and never closed."""
    lists = "\n".join("  " * depth + f"- item {depth}" for depth in range(150))
    table = "\n".join("|" + "|".join(f" {row}.{column} " for column in range(60)) + "|" for row in range(150))
    table = table.replace("\n", "\n|" + "---|" * 60 + "\n", 1)
    marks = "\n\n".join(mark * 3000 for mark in ("*", "[", "_", "~", "`", ">", "(", "<", "![", "\\", "|"))
    return f"{lists}\n\n{'>' * 200} quoted\n\n{table}\n\n{marks}\n\n```\nEND-OF-REPLY"


def paced(folder: Path, recording: Path, seconds: float) -> Path:
    """A recording in this folder: one that has no times, as a reply that takes so long."""
    lines = [json.loads(line) for line in (recording / "input.ndjson").read_bytes().splitlines()]
    made = _recording(folder, lines, WORDED)
    (made / "times").write_text("".join(f"{seconds * n / len(lines):.4f}\n" for n in range(len(lines))), "ascii")
    return made
