"""The store of the chats: the protocol, the embedded store in SQLite, and a suite that checks any store.

It keeps bytes and rows, and knows nothing of agents, turns at work or requests.
"""
