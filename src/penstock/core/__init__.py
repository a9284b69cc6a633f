"""Bytes to events: framing, decoding, and the normalizer that turns an agent's updates into the events of one run.

Nothing here does input or output, reads a clock, starts a thread or knows an agent by name.
"""
