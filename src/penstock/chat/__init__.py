"""The chat: its event log. What shows it in a browser comes on top of that."""
