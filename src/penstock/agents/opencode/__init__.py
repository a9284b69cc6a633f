"""opencode: its plain command, and its server. Both read the same parts of messages."""
