"""Facts about Claude Code."""

from __future__ import annotations

from penstock.adapter import Feature, Longest
from penstock.agents._facts import (
    ACP_SOURCE,
    ACP_TAGS,
    CLAUDE_LIMIT_FLAGS,
    MIB,
    STREAM_JSON_TAGS,
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
from penstock.agents._hosts import ANTHROPIC
from penstock.agents._permissions import ACP, CLAUDE_EXEC, CLAUDE_SERVER
from penstock.agents._project_files import CLAUDE_FILES
from penstock.agents._variables import CLAUDE, CLAUDE_CLOUDS, CLAUDE_OUTER

SIGNS = (
    Sign(types=("system",), has=("claude_code_version",)),
    Sign(types=("system",), has=("uuid", "session_id", "mcp_servers", "permissionMode")),
    # Hooks and states come before the init. Other agents of this wire keep such fields in `data`.
    Sign(types=("system",), has=("uuid", "session_id"), lacks=("data",), differs={"subtype": ("init",)}),
    # A stream that begins in its middle.
    Sign(types=("assistant", "stream_event"), has=("uuid", "session_id"), begins={"message.id": "msg_"}),
    Sign(types=("assistant", "stream_event"), has=("uuid", "session_id"), begins={"event.message.id": "msg_"}),
    Sign(types=("result",), has=("uuid", "total_cost_usd")),
    Sign(types=("result",), has=("uuid", "modelUsage")),
)

SERVER_SIGNS = (Sign(types=("control_response",), has=("response.response.available_output_styles",)),)

_LONGEST = Longest(10 * MIB)
_SOURCE = KindSource(reader="claude.printable:names")
_FEATURES: tuple[Feature, ...] = (
    "resume", "fork", "read", "edits", "args",
    "effort", "system_prompt", "system_prompt_on_resume", "images", "schema", "mcp_config", "allow_tools", "deny_tools",
)  # fmt: skip

FACTS = AgentFacts(
    provider="anthropic",
    routes={
        "server": RouteFacts(
            "claude.server:ClaudeServer",
            "claude",
            supports=(*_FEATURES, "ask"),
            counts=("max_turns", "max_tokens"),
            limit_flags=CLAUDE_LIMIT_FLAGS,
            longest=_LONGEST,
            proposed="fragment",
            made="diff",
            counts_refused=True,
            needs_answers=True,
            signs=SERVER_SIGNS,
            terminal=("claude", "--resume={session_id}"),
            tags=STREAM_JSON_TAGS,
            source=_SOURCE,
        ),
        "exec": RouteFacts(
            "claude.exec:Claude",
            "claude",
            supports=_FEATURES,
            counts=("max_turns", "max_tokens"),
            limit_flags=CLAUDE_LIMIT_FLAGS,
            longest=_LONGEST,
            proposed="fragment",
            made="diff",
            counts_refused=True,
            signs=SIGNS,
            terminal=("claude", "--resume={session_id}"),
            tags=STREAM_JSON_TAGS,
            source=_SOURCE,
        ),
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "claude-agent-acp",
            "claude.exec:acp",
            supports=("resume", "fork", "read", "ask", "edits", "args", "images", "mcp_config"),
            counts=("max_turns",),
            proposed="fragment",
            made="diff",
            counts_refused=True,
            tags=ACP_TAGS,
            source=KindSource(files=("dist/**/*.js",), patterns=ACP_SOURCE),
        ),
    },
    allows={"server": CLAUDE_SERVER, "exec": CLAUDE_EXEC, "acp": ACP},
    login=Login(("auth", "login"), ("auth", "status")),
    install=npm("@anthropic-ai/claude-code"),
    tested="2.1.332",
    stream="claude -p --output-format stream-json --verbose --include-partial-messages",
    efforts=("low", "medium", "high", "xhigh", "max"),
    variables=CLAUDE,
    hosts=(*ANTHROPIC, "platform.claude.com:443"),
    switches=CLAUDE_CLOUDS,
    outer_variables=CLAUDE_OUTER,
    other_output=OtherOutput(
        sign=Sign(types=("result",), equals={"subtype": ("success",)}, has=("session_id",)),
        help="This is the output of `--output-format json`, one JSON value at the end and not an event stream: use "
        "`--output-format stream-json --verbose` (claude; add `--include-partial-messages` for live text).",
    ),
    acp=AcpQuirks(
        called="claude",
        marks_sub_agents=True,
        goes_on=True,
        errors=(
            (r"(?:Failed to authenticate\. )?API Error: ([45]\d\d) ", None),  # of claude-agent-acp 0.49.0 and 0.101.0
            (r"Prompt is too long\b", "context"),
        ),
        ignore_project={"claudeCode": {"options": {"settingSources": ["user"], "additionalDirectories": ["."]}}},
    ),
    project_files=CLAUDE_FILES,
    state=(
        StateFolder(
            ".claude",
            "CLAUDE_CONFIG_DIR",
            settings=(
                "settings*",
                "CLAUDE.md",
                "agents",
                "commands",
                "skills",
                "plugins",
                "hooks",
                "rules",
                "output-styles",
                "workflows",
                "routines",
                "daemon.json",
                "remote-settings*",
                "local",
                ".config.json",  # in place of ~/.claude.json, with MCP servers
                ".claude*.json",  # the same, if a variable names the directory
                "chrome",
                "cowork_plugins",
                "dev-mods",
                "loop.md",
            ),
            caches=(".claude*.json",),
        ),
        # The shells of all its sessions read the first two as scripts; a program outside takes up jobs; and files of
        # the last one have the key with which an editor's tools are called.
        *(
            StateFolder(".claude", "CLAUDE_CONFIG_DIR", name, writes="apart")
            for name in ("shell-snapshots", "session-env", "jobs", "daemon", "ide")
        ),
    ),
)
