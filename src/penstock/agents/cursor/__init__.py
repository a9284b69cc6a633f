"""Cursor's agent."""
