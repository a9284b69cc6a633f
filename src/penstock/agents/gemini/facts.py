"""Facts about Gemini CLI."""

from __future__ import annotations

from penstock.adapter import Longest
from penstock.agents._facts import (
    ACP_SOURCE,
    ACP_TAGS,
    MIB,
    AcpQuirks,
    AgentFacts,
    KindSource,
    OtherOutput,
    RouteFacts,
    Sign,
    StateFolder,
    npm,
)
from penstock.agents._hosts import GOOGLE as GOOGLE_HOSTS
from penstock.agents._permissions import ACP, EVERYTHING, edits, reads
from penstock.agents._project_files import AGENTS_MD, DOTENV, SKILLS, ProjectFiles
from penstock.agents._variables import GOOGLE, GOOGLE_CLOUD

SIGNS = (
    Sign(types=("init",), has=("session_id", "model")),
    Sign(types=("message",), has=("timestamp", "role", "content")),
    Sign(types=("tool_use",), has=("tool_name", "tool_id")),
    Sign(types=("tool_result",), has=("tool_id", "status")),
    Sign(types=("result",), has=("stats", "status")),
)

_FILES = ("bundle/*.js",)
_READS = reads("It reads. Tools that change files or run commands are not offered to the model.")

FACTS = AgentFacts(
    provider="gcp.gemini",
    routes={
        "exec": RouteFacts(
            "gemini.exec:Gemini",
            "gemini",
            supports=("resume", "read", "edits", "args"),
            counts=("max_turns",),
            longest=Longest(8 * MIB),
            proposed="fragment",
            made="fragment",
            signs=SIGNS,
            terminal=("gemini", "--resume={session_id}"),
            tags=("type",),
            source=KindSource(files=_FILES, patterns=(("", r'JsonStreamEventType\d?\["\w{1,40}"\] = "(\w{1,80})"'),)),
        ),
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "gemini",
            "gemini.exec:acp",
            supports=("resume", "read", "ask", "edits", "args", "images", "mcp_config"),
            counts=("max_turns",),
            proposed="diff",
            made="diff",
            counts_refused=True,
            resume_warning="gemini loses a conversation that is resumed over ACP in the minute in which it began; "
            "--route exec resumes it at any time",
            loses_sessions=True,
            tags=ACP_TAGS,
            source=KindSource(files=_FILES, patterns=ACP_SOURCE),
        ),
    },
    allows={
        "exec": {
            "read": _READS,
            "edits": edits("It changes files. Commands are not offered to the model."),
            "all": EVERYTHING,
            "own": _READS,
        },
        "acp": ACP,
    },
    install=npm("@google/gemini-cli"),
    tested="0.61.0",
    stream="gemini --output-format stream-json",
    variables=(*GOOGLE, "CODE_ASSIST_"),
    hosts=GOOGLE_HOSTS,
    switches=GOOGLE_CLOUD,
    other_output=OtherOutput(
        sign=Sign(has=("response", "stats")),
        help="This is the output of `--output-format json`, one JSON object at the end and not an event stream: "
        "use `--output-format stream-json` (gemini).",
    ),
    acp=AcpQuirks(
        called="gemini",
        marks_sub_agents=True,
        tool_name="id",
        whole_texts=True,
        status_remark=r"\[MODE_UPDATE\] \S+",
        command_status=False,
    ),
    project_files=ProjectFiles(
        starts=(".gemini", SKILLS, *DOTENV), instructs=("GEMINI.md", AGENTS_MD, ".geminiignore", ".aiexclude")
    ),
    state=(
        StateFolder(
            ".gemini",
            settings=(
                "settings.json",
                "*.md",
                ".env",
                "extensions",
                "skills",
                "policies",
                "agents",
                "commands",
                "trusted*",
                "acknowledgments",
                "bin",
            ),
        ),
        # Programs that it downloads, and repositories with copies of files, whose settings git obeys.
        *(StateFolder(".gemini", "", name, writes="apart") for name in ("tmp/bin", "history")),
    ),
)
