"""The normalizer: an agent's updates in, the events that `docs/contract.md` promises out.

It owns identity, order, snapshots and the end of a run; it knows no agent, no sink and no clock.
"""
