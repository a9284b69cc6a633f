"""Sinks: events to text and bytes, each with `render(events)` and `close()`.

A sink never repairs or reorders events, writes nowhere itself, and knows no agent.
"""
