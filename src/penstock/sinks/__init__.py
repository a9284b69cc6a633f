"""Sinks: events to text and bytes, each with `render(events)` and `close()`.

A sink never repairs or reorders events, does no output itself, and does not depend on any agent.
"""
