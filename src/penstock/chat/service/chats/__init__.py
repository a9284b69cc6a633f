"""The chats in this process: which there are, what can be asked of one, its place in lists, search and heartbeats."""
