"""Facts about GitHub Copilot's command line."""

from __future__ import annotations

from penstock.adapter import Feature
from penstock.agents._facts import ACP_TAGS, AcpQuirks, AgentFacts, Login, RouteFacts, Sign, StateFolder, npm
from penstock.agents._hosts import COPILOT
from penstock.agents._permissions import ACP, DENIED, EVERYTHING, edits, reads
from penstock.agents._project_files import AGENTS_MD, CLAUDE_FILES, SKILLS, ProjectFiles

SIGNS = (
    Sign(types=("*.*",), has=("data.", "id", "timestamp")),
    Sign(types=("result",), has=("exitCode", "sessionId")),
)

_FEATURES: tuple[Feature, ...] = (
    "resume", "read", "edits", "args", "effort", "images", "mcp_config", "allow_tools", "deny_tools",
)  # fmt: skip

_READS = reads("It reads. Its tools that change files or run commands are denied.")

FACTS = AgentFacts(
    routes={
        "exec": RouteFacts(
            "copilot.exec:Copilot",
            "copilot",
            supports=_FEATURES,
            counts=("max_turns",),
            proposed="fragment",
            made="diff",
            counts_refused=True,
            signs=SIGNS,
            terminal=("copilot", "--resume={session_id}"),
            tags=("type",),
        ),
        "acp": RouteFacts(
            "acp.dialogue:Acp",
            "copilot",
            "copilot.exec:acp",
            supports=(*_FEATURES, "ask"),
            counts=("max_turns",),
            proposed="fragment",
            made="diff",
            counts_refused=True,
            tags=ACP_TAGS,
        ),
    },
    allows={
        "exec": {
            "read": _READS,
            "edits": edits(
                "It changes files, also by commands that only write a file (`echo x > f`). Other commands are denied."
            ),
            "all": EVERYTHING,
            "own": DENIED,
        },
        "acp": {**ACP, "read": _READS},
    },
    login=Login(("login",)),
    install=npm("@github/copilot"),
    tested="1.0.102",
    stream="copilot --output-format json",
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    variables=("COPILOT_", "GH_", "GITHUB_TOKEN", "GITHUB_API_URL"),
    hosts=(*COPILOT, "api.github.com:443"),
    acp=AcpQuirks(
        start_arguments=".*",
        called="copilot",
        errors=(  # of 1.0.102
            (r"Error: Authentication failed with provider at ", "auth"),
            (
                r"Error: Failed to get response from the AI model; retried \d+ times "
                r"\(total retry wait time: [\d.]+ seconds\) Last error: ([45]\d\d) ",
                None,
            ),
        ),
        announces_running=True,
        counts="before",
        exit_line=r"(?:\A|(?<=\n))<shellId: \S+ completed with exit code (-?\d{1,10})>\s*\Z",
        levelled_remarks=True,
    ),
    project_files=ProjectFiles(
        starts=(
            *(
                f".github/{name}"
                for name in ("agents", "skills", "hooks", "extensions", "copilot", "lsp.json", "mcp.json")
            ),
            ".copilot",
            ".vscode/mcp.json",
            SKILLS,
            *CLAUDE_FILES.starts,
        ),
        instructs=(
            *(f".github/{name}" for name in ("copilot-instructions.md", "instructions", "prompts")),
            AGENTS_MD,
            "GEMINI.md",
            *CLAUDE_FILES.instructs,
        ),
    ),
    state=(
        StateFolder(
            ".copilot",
            "COPILOT_HOME",
            settings=(
                "config*",
                "settings*",
                "mcp-config*",
                "*.md",
                "agents",
                "hooks",
                "skills",
                "installed-plugins",
                "lsp-config*",
                "permissions-config*",
                "extensions",
                "instructions",
            ),
            caches=("config.json", "settings.json.lock"),
        ),
        # Later versions of itself, and keys with which an editor's tools are called.
        *(StateFolder(".copilot", "COPILOT_HOME", name, writes="apart") for name in ("pkg", "ide")),
    ),
)
