"""Claude Code and ccs."""
