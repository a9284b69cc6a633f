"""The store of the chats: what a store must do (`protocol`), the one in a SQLite file (`sqlite`), the check for others.

It keeps entries and gives them back; it does not know what they mean.
"""
