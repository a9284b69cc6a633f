"""codex: its plain command, and its app server. Both have the same items, in two spellings."""
