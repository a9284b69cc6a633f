"""Addresses of the providers of models, for `AgentFacts.hosts`.

To each, the newest version of an agent sends prompts, or it refreshes its login there. Places where anybody can publish
something, such as github.com, are left out: a run that reaches these alone should have no way to pass on files.
"""

ANTHROPIC = ("api.anthropic.com:443",)
OPENAI = ("api.openai.com:443", "auth.openai.com:443", "chatgpt.com:443")
GOOGLE = (
    *("generativelanguage.googleapis.com:443", "cloudcode-pa.googleapis.com:443"),
    *("aiplatform.googleapis.com:443", "oauth2.googleapis.com:443"),
)
COPILOT = ("*.githubcopilot.com:443",)
ANY_PROVIDER = (*ANTHROPIC, *OPENAI, *GOOGLE, *COPILOT, "openrouter.ai:443", "api.mistral.ai:443")
"""Addresses of the providers that an agent for many models offers by itself."""
