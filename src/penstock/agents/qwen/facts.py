"""Facts about Qwen Code."""

from __future__ import annotations

from penstock.adapter import Feature, Longest
from penstock.agents._facts import (
    ACP_SOURCE,
    ACP_TAGS,
    MIB,
    STREAM_JSON_TAGS,
    AcpQuirks,
    AgentFacts,
    KindSource,
    OtherOutput,
    RouteFacts,
    Sign,
    StateFolder,
    npm,
)
from penstock.agents._permissions import ACP, DENIED, EVERYTHING
from penstock.agents._project_files import AGENTS_MD, DOTENV, SKILLS, ProjectFiles
from penstock.agents._variables import OPENAI
from penstock.agents.qwen.result_frame import FRAME_END, FRAME_START

SIGNS = (
    Sign(types=("system",), has=("qwen_code_version",)),
    Sign(types=("system",), equals={"subtype": ("init",)}, has=("permission_mode",)),
    Sign(types=("result",), has=("uuid",), lacks=("total_cost_usd", "modelUsage", "exitCode")),
)

_FEATURES: tuple[Feature, ...] = (
    "resume", "read", "args", "system_prompt", "system_prompt_on_resume",
    "schema", "mcp_config", "allow_tools", "deny_tools",
)  # fmt: skip

_FILES = ("*.js", "chunks/*.js")

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "qwen.exec:Qwen",
            "qwen",
            supports=_FEATURES,
            counts=("max_turns",),
            limit_flags={"max_turns": "--max-session-turns"},
            longest=Longest(8 * MIB),
            proposed="fragment",
            made="fragment",
            signs=SIGNS,
            terminal=("qwen", "--resume={session_id}"),
            tags=STREAM_JSON_TAGS,
            source=KindSource(files=_FILES, patterns=(("system/", r'emitSystemMessage\(\s{0,20}"(\w{1,80})"'),)),
        ),
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "qwen",
            "qwen.exec:acp",
            supports=(
                "resume",
                "read",
                "ask",
                "edits",
                "args",
                "system_prompt",
                "system_prompt_on_resume",
                "mcp_config",
                "allow_tools",
                "deny_tools",
            ),
            counts=("max_turns", "max_tokens"),
            proposed="fragment",
            made="diff",
            counts_refused=True,
            tags=ACP_TAGS,
            source=KindSource(files=_FILES, patterns=ACP_SOURCE),
        ),
    },
    allows={
        "exec": {
            "read": DENIED,
            "all": EVERYTHING,
            "own": DENIED,
        },
        "acp": ACP,
    },
    install=npm("@qwen-code/qwen-code"),
    tested="0.24.4",
    stream="qwen --output-format stream-json --include-partial-messages",
    variables=(*OPENAI, "QWEN_", "DASHSCOPE_"),
    hosts=(
        *("chat.qwen.ai:443", "portal.qwen.ai:443", "dashscope.aliyuncs.com:443", "dashscope-intl.aliyuncs.com:443"),
        "*.dashscope.aliyuncs.com:443",
    ),
    acp=AcpQuirks(
        start_arguments=".*",
        called="qwen",
        private_methods=("qwen/",),
        status_remark=r'Background (?:agent|shell|task) ".*" (?:completed|failed|cancelled|was cancelled|stopped)\.',
        whole_texts=True,
        exit_line=FRAME_END,
        frame=FRAME_START,
        command_status=False,
        own_model_ids=True,
    ),
    other_output=OtherOutput(
        help="This is the output of `--output-format json`, one JSON list at the end and not an event stream: "
        "use `--output-format stream-json` (qwen).",
    ),
    project_files=ProjectFiles(
        starts=(".qwen", SKILLS, ".lsp.json", *DOTENV), instructs=("QWEN.md", AGENTS_MD, ".qwen/rules", ".qwenignore")
    ),
    state=(
        StateFolder(
            ".qwen",
            settings=(
                "settings.json",
                "*.md",
                ".env",
                "extensions",
                "skills",
                "agents",
                "commands",
                "workflows",
                "output-styles",
                "channels",
                "trusted*",
                "mcpApprovals*",
            ),
            caches=("output-language.md",),  # instructions: the language of its replies
        ),
        # Programs that it downloads, later versions of itself, repositories with copies of files, whose settings git
        # obeys, and keys with which an editor's tools are called.
        *(StateFolder(".qwen", "", name, writes="apart") for name in ("bin", "updates", "history", "ide")),
    ),
)
