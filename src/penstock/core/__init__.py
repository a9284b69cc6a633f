"""Bytes to events: framing, decoding, and the normalizer that turns an agent's updates into the events of one run.

Nothing here does input or output, reads a clock, starts a thread or depends on an agent by name.
"""
