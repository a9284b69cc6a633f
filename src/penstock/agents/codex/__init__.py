"""codex: its plain command, and its app server. Both read the same items, in two spellings."""
