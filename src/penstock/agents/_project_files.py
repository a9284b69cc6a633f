"""Files of a project that agents obey: the type in their facts, and those that several agents obey."""

from __future__ import annotations

import msgspec


class ProjectFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a project that an agent obeys, in whatever directory of it they are.

    A pattern is the end of a path: names as `fnmatch` matches them, with slashes between them. It means a file, or a
    directory with all that is in it; of several that match, the one with more names counts.
    """

    starts: tuple[str, ...] = ()
    """Patterns of what starts a program, sends requests elsewhere or permits something: settings, hooks, servers of
    MCP, plugins, variables. Definitions of skills, commands and sub-agents are among them, as they have hooks and
    permissions too."""
    instructs: tuple[str, ...] = ()
    """Patterns of what is text for the model, and of lists of what it is not to read."""


DOTENV = (".env", ".env.local", ".env.*.local", ".env.development", ".env.production", ".env.test")
"""`ProjectFiles.starts` of programs that take variables from the project. Bun does so for what it has compiled."""

AGENTS_MD = "AGENTS.md"
"""Instructions that most agents read."""

SKILLS = ".agents"
"""Directory with skills that most agents read."""

CLAUDE_FILES = ProjectFiles(
    starts=(".claude", ".mcp.json", ".claude-plugin", ".lsp.json"),
    instructs=("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules"),
)
"""Files of Claude Code; other agents read its skills, agents and instructions."""

RULES_OF_EDITORS = (".cursorrules", ".cursor/rules", ".windsurfrules")
"""Texts that were written for editors, and are read by agents as well."""
