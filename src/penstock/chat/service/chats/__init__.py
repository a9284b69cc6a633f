"""The chats in this process: all chats, the requests to one, its view in lists, search and heartbeats."""
