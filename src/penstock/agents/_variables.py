"""Environment variables that more than one agent reads: the beginnings of their names."""

from __future__ import annotations

from collections.abc import Mapping

OPENAI = ("OPENAI_",)
GOOGLE = ("GEMINI_", "GOOGLE_")
GOOGLE_CLOUD: Mapping[str, tuple[str, ...]] = {"GOOGLE_GENAI_USE_VERTEXAI": ("CLOUDSDK_",)}
CLAUDE = ("ANTHROPIC_", "CLAUDE_", "DISABLE_", "ENABLE_", "MAX_THINKING_TOKENS", "MCP_", "BASH_", "IS_SANDBOX")
CLAUDE_CLOUDS: Mapping[str, tuple[str, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "CLOUD_ML_REGION", "VERTEX_REGION_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}
CLAUDE_OUTER = (
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
)
ANY_PROVIDER = (
    *("ANTHROPIC_", "AZURE_", "CEREBRAS_", "DEEPSEEK_", "FIREWORKS_", "GEMINI_", "GOOGLE_", "GROQ_", "MISTRAL_"),
    *("MOONSHOT_", "OLLAMA_", "OPENAI_", "OPENROUTER_", "TOGETHER_", "XAI_", "ZAI_"),
)
"""Variables of agents that use any provider for which they find a key."""
