"""The history of a chat: its numbered entries, and what is computed of them: turns, frames, steps and details.

Pure: no store, no clock and no network. The same entries give the same history everywhere.
"""
