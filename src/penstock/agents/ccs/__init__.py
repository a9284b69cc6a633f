"""ccs: Claude Code in front of another model's server."""
