"""Turns of a chat: the decisions about them, one after another, the run of one, and those whose run is lost."""
