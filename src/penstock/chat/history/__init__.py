"""History of a chat: its numbered entries, and all that is computed from them: turns, frames, steps and details.

The package is pure: no store, no clock and no network. The same entries give the same history everywhere.
"""
