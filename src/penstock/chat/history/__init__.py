"""History of a chat: its numbered entries, and the turns, frames, steps and details computed from them.

The package is pure: no store, no clock and no network. The same entries give the same history everywhere.
"""
