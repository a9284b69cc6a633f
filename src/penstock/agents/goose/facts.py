"""Facts about goose."""

from __future__ import annotations

from penstock.agents._facts import ACP_TAGS, AcpQuirks, AgentFacts, Login, RouteFacts, Sign, StateFolder
from penstock.agents._hosts import ANY_PROVIDER as ANY_HOSTS
from penstock.agents._permissions import EVERYTHING, asks, edits, own_settings
from penstock.agents._project_files import AGENTS_MD, CLAUDE_FILES, SKILLS, ProjectFiles
from penstock.agents._variables import ANY_PROVIDER
from penstock.agents.goose.words import CREATED, EDIT_TOOLS, ERRORS, SKIPPED

SIGNS = (
    Sign(types=("message",), has=("message.metadata.userVisible", "message.content", "message.role")),
    Sign(types=("complete",), has=("total_tokens", "cache_read_input_tokens"), lacks=("result",)),
)

FACTS = AgentFacts(
    routes={
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "goose",
            "goose.exec:acp",
            supports=("resume", "ask", "edits", "args", "images", "mcp_config"),
            counts=("max_turns",),
            proposed="fragment",
            made="fragment",
            counts_refused=True,
            tags=ACP_TAGS,
        ),
        "exec": RouteFacts(
            "goose.exec:Goose",
            "goose",
            supports=("args", "system_prompt"),
            counts=("max_turns",),
            proposed="fragment",
            made="fragment",
            signs=SIGNS,
            tags=("type", "message.content.type"),
        ),
    },
    allows={
        "acp": {
            "ask": asks("It asks you before each use of a tool, also of those that only read."),
            "edits": edits("It changes files of the directory without asking. It asks you about everything else."),
            "all": EVERYTHING,
            "own": own_settings("Its own settings decide. Without any it does everything without asking."),
        },
        "exec": {
            "all": EVERYTHING,
            "own": own_settings(
                "It does everything without asking. If its settings require a question, the run ends there."
            ),
        },
    },
    login=Login(("configure",)),
    install="https://github.com/aaif-goose/goose",
    tested="1.52.0",
    stream="goose run --quiet --output-format stream-json -i -",
    variables=(*ANY_PROVIDER, "GOOSE_"),
    hosts=ANY_HOSTS,
    acp=AcpQuirks(
        called="goose",
        announces_running=True,
        modes={"ask": "approve", "edits": "approve", "all": "auto"},
        edit_tools=EDIT_TOOLS,
        created=CREATED.pattern,
        skipped=SKIPPED.pattern,
        sums_usage=False,
        errors=ERRORS,
    ),
    project_files=ProjectFiles(
        starts=(".goose", SKILLS, *CLAUDE_FILES.starts),
        instructs=(AGENTS_MD, ".goosehints", ".gooseignore"),
    ),
    state=(
        StateFolder(
            ".local/share",
            "XDG_DATA_HOME",
            "goose",
            settings=("schedule*", "plugins", "extensions", "skills", "hooks"),
        ),
        StateFolder(".local/state", "XDG_STATE_HOME", "goose"),
        StateFolder(".config", "XDG_CONFIG_HOME", "goose", settings=("*",), writes="lost"),
    ),
)
