"""Several machines on one PostgreSQL: their leases and jobs, and the ends of turns whose machine was lost.

Only `cli` imports it, and only if a store in PostgreSQL is named: it needs the extra `cluster`.
"""
