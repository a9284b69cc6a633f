"""Documents and loops of the data directory, for clients: read while a client watches them, and folded like chats.

This package never starts an agent or writes a document. Stops and messages reach a loop through its inbox. If a user
asks for it, the result of a loop is landed.
"""
