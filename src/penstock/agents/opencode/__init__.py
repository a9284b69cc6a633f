"""opencode: its plain command, and its server. Both have the same parts of messages."""
