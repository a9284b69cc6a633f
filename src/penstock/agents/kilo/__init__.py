"""kilo: Kilo Code's command line, which is built on opencode."""
