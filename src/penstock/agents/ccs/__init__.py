"""ccs: Claude Code before another model's server."""
