"""Store in PostgreSQL, for several machines.

It needs the extra `cluster`, and is imported only if such a store is named.
"""
