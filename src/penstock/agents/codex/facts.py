"""Facts about Codex."""

from __future__ import annotations

from penstock.adapter import Longest
from penstock.agents._facts import (
    ACP_SOURCE,
    ACP_TAGS,
    MIB,
    AcpQuirks,
    AgentFacts,
    KindSource,
    Login,
    OtherOutput,
    RouteFacts,
    Sign,
    StateFolder,
    npm,
)
from penstock.agents._hosts import OPENAI as OPENAI_HOSTS
from penstock.agents._models import ModelList
from penstock.agents._permissions import ACP, asks, edits, everything, reads
from penstock.agents._project_files import AGENTS_MD, SKILLS, ProjectFiles
from penstock.agents._variables import OPENAI

_LONGEST = Longest(MIB, "characters")

EXEC_SIGNS = (
    Sign(types=("thread.started",), has=("thread_id",)),
    Sign(types=("turn.started",), only=True),
    Sign(types=("turn.completed",), has=("usage",)),
    Sign(types=("turn.failed",), has=("error",)),
    Sign(types=("item.started", "item.updated", "item.completed"), has=("item",)),
)
# One side of a dialogue: JSON-RPC without the field for its version.
SERVER_SIGNS = (
    Sign(begins={"method": "item/"}, has=("params.threadId", "params.turnId"), lacks=("jsonrpc",)),
    Sign(begins={"method": ""}, has=("params.thread",), lacks=("jsonrpc",)),
    Sign(has=("result.userAgent", "result.codexHome"), lacks=("jsonrpc",)),
)

_READS = reads("It reads and runs commands, in a read-only sandbox. What needs more fails.")
_ALL = everything("It changes files and runs any command, without a sandbox and without asking.")

FACTS = AgentFacts(
    provider="openai",
    routes={
        "server": RouteFacts(
            "codex.server:CodexServer",
            "codex",
            supports=(
                "resume",
                "fork",
                "read",
                "ask",
                "edits",
                "args",
                "effort",
                "system_prompt",
                "images",
                "schema",
                "mcp_config",
            ),
            counts=("max_turns", "max_tokens"),
            longest=_LONGEST,
            proposed="diff",
            made="diff",
            counts_refused=True,
            signs=SERVER_SIGNS,
            terminal=("codex", "resume", "{session_id}"),
            tags=("method", "params.item.type"),
            source=KindSource(
                schema=("app-server", "generate-json-schema", "--out", "{folder}"),
                files=("ServerNotification.json", "ServerRequest.json"),
                reader="codex.printable:names",
            ),
        ),
        "exec": RouteFacts(
            "codex.exec:Codex",
            "codex",
            live=False,
            supports=("resume", "fork", "read", "edits", "args", "effort", "system_prompt", "images", "schema"),
            counts=("max_turns",),
            longest=_LONGEST,
            proposed="names",
            made="names",
            signs=EXEC_SIGNS,
            terminal=("codex", "resume", "{session_id}"),
            tags=("type", "item.type"),
        ),
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "codex-acp",
            "codex.exec:acp",
            supports=("resume", "read", "ask", "edits", "args", "effort", "system_prompt", "images", "mcp_config"),
            counts=("max_turns",),
            proposed="fragment",
            made="fragment",
            counts_refused=True,
            tags=ACP_TAGS,
            source=KindSource(files=("dist/*.js",), patterns=ACP_SOURCE),
        ),
    },
    allows={
        "server": {
            "read": _READS,
            "ask": asks("It reads and runs commands, in a read-only sandbox. It asks you before it does more."),
            "edits": edits(
                "It changes files and runs commands inside the directory, in a sandbox. It asks before it does more."
            ),
            "all": _ALL,
            "own": asks("Its own settings decide. Without any it reads, in a read-only sandbox, and asks for more."),
        },
        "exec": {
            "read": _READS,
            "edits": edits(
                "It changes files and runs commands inside the directory, in a sandbox. What needs more fails."
            ),
            "all": _ALL,
            "own": reads("It reads, in a read-only sandbox. It cannot ask you: what needs more fails."),
        },
        "acp": {
            **ACP,
            "ask": asks("It reads. It asks you before it changes a file or uses the network."),
            "all": _ALL,
        },
    },
    login=Login(("login",), ("login", "status")),
    install=npm("@openai/codex"),
    tested="0.171.0",
    stream="codex exec --json",
    models=ModelList(arguments=("debug", "models"), reader="codex.models:read"),
    variables=(*OPENAI, "CODEX_", "AZURE_OPENAI_"),
    hosts=OPENAI_HOSTS,
    other_output=OtherOutput(
        beginning="OpenAI Codex v",
        help="This is the plain text of `codex exec` and not an event stream: use `codex exec --json`.",
    ),
    acp=AcpQuirks(
        called="codex",
        errors=(  # of codex-acp 0.16.0, then of 2.6.0
            (r"(?:unexpected status|exceeded retry limit, last status:) ([45]\d\d) ", None),
            (
                r"stream disconnected before completion: Incomplete response returned, reason: max_output_tokens$",
                "length",
            ),
            (r"Incomplete response returned, reason: max_output_tokens$", "length"),
            (r"Selected model is at capacity\b|We.re currently experiencing high demand\b", "overloaded"),
            (r"prompt is too long\b", "context"),
        ),
        marks_sub_agents=True,
        counts="after",
        start_arguments=r"0\.",
    ),
    project_files=ProjectFiles(starts=(".codex", SKILLS), instructs=(AGENTS_MD, "AGENTS.override.md")),
    state=(
        StateFolder(
            ".codex",
            "CODEX_HOME",
            settings=(
                "*.toml",
                ".env",
                "AGENTS*.md",
                "hooks.json",
                "rules",
                "skills",
                "agents",
                "plugins",
                "packages",
            ),
        ),
        # Shells of other sessions, also outside, read the first one as scripts, and find programs in the second one.
        *(StateFolder(".codex", "CODEX_HOME", name, writes="apart") for name in ("shell_snapshots", "tmp")),
    ),
)
