"""Turns of a chat: decisions about them, the loop that runs them, the run of one, and turns whose run is lost."""
