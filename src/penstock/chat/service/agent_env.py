"""What an agent of a chat finds in its environment: an allow-list, so that no secret of somebody else's comes along.

Each agent gets what programs need, what it reads itself, and what the user names. Keys of other providers stay out: an
agent that finds one may use it where the user pays by subscription.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.agents.claude.exec import OUTER_SESSION

COMMON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TMPDIR", "TMP", "TEMP", "TZ"}
    | {"HOSTNAME", "EDITOR", "VISUAL", "PAGER", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"}
    | {"SSH_AUTH_SOCK", "GNUPGHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "NVM_BIN", "VOLTA_HOME"}
    | {"PNPM_HOME", "BUN_INSTALL", "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "NODE_OPTIONS"}
    | {"NODE_PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"GIT_SSL_CAINFO", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
    | {"http_proxy", "https_proxy", "no_proxy", "all_proxy", "DISABLE_TELEMETRY", "DO_NOT_TRACK", "NO_COLOR"}
)
"""What programs, their tools and the network need. None of these is a key."""

COMMON_PREFIXES = ("LC_", "XDG_")

_CLAUDE = ("ANTHROPIC_", "CLAUDE_", "DISABLE_", "ENABLE_", "MAX_THINKING_TOKENS", "MCP_", "BASH_", "IS_SANDBOX")
_OPENAI = ("OPENAI_",)
_GOOGLE = ("GEMINI_", "GOOGLE_")
_OF_ANY_PROVIDER = (
    *("ANTHROPIC_", "AZURE_", "CEREBRAS_", "DEEPSEEK_", "FIREWORKS_", "GEMINI_", "GOOGLE_", "GROQ_", "MISTRAL_"),
    *("MOONSHOT_", "OLLAMA_", "OPENAI_", "OPENROUTER_", "TOGETHER_", "XAI_", "ZAI_"),
)
"""For agents that speak to whatever provider they find a key of."""

OWN: dict[str, tuple[str, ...]] = {
    "claude": _CLAUDE,
    "ccs": (*_CLAUDE, "CCS_"),
    "codex": (*_OPENAI, "CODEX_", "AZURE_OPENAI_"),
    "gemini": (*_GOOGLE, "CODE_ASSIST_"),
    "qwen": (*_OPENAI, "QWEN_", "DASHSCOPE_"),
    "opencode": (*_OF_ANY_PROVIDER, "OPENCODE_"),
    "pi": (*_OF_ANY_PROVIDER, "PI_"),
    "cline": (*_OF_ANY_PROVIDER, "CLINE_"),
    "cursor": ("CURSOR_",),
    "copilot": ("COPILOT_", "GH_", "GITHUB_TOKEN", "GITHUB_API_URL"),
    "ollama": ("OLLAMA_",),
}
"""The beginnings of the names that each agent reads. An agent that is not known gets `COMMON` alone."""

CLOUDS: dict[str, tuple[str, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "CLOUD_ML_REGION", "VERTEX_REGION_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
    "GOOGLE_GENAI_USE_VERTEXAI": ("CLOUDSDK_",),
}
"""Keys of a cloud, for an agent that was told to use it: the switch, among what the agent reads, and the names."""

NEVER = frozenset(("CLAUDECODE", *OUTER_SESSION))
"""What tells an agent that it runs inside of another one, where it refuses to work, or hangs."""


def environment(
    agent: str, environ: Mapping[str, str], extra: Iterable[str] = (), *, adapter: str | None = None
) -> dict[str, str]:
    """The part of `environ` that this agent is given. `extra` are names that the user adds.

    `adapter` is the known agent that an agent of the configuration behaves as. `PENSTOCK_*` is never passed on,
    whoever names it: Penstock's own secrets are among it.
    """
    own = OWN.get(agent.partition("/")[0]) or OWN.get((adapter or "").partition("/")[0], ())
    for switch, cloud in CLOUDS.items():
        if switch.startswith(own) and own and environ.get(switch, "").lower() not in ("", "0", "false"):
            own = (*own, *cloud)
    prefixes, named = (*COMMON_PREFIXES, *own), COMMON.union(extra)
    return {
        name: value
        for name, value in environ.items()
        if (name in named or name.startswith(prefixes)) and name not in NEVER and not name.startswith("PENSTOCK_")
    }
