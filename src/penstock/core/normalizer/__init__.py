"""Normalizer: turns an agent's updates into the events that `docs/contract.md` promises.

It owns identity, order, snapshots and the end of a run. It does not depend on agents, sinks or clocks.
"""
