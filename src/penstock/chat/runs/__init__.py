"""Documents and loops of the data directory, for clients: read while somebody watches, and folded as chats are.

Nothing here starts an agent or writes a document; a loop is stopped and written to through its inbox. The result of a
loop is landed if a user asks for it.
"""
