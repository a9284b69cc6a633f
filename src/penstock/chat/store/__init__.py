"""Store of the chats: the protocol, the embedded store in SQLite, and a suite that checks any store.

It keeps bytes and rows, and is independent of agents, running turns and requests.
"""
