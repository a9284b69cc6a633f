"""Sinks turn events into something for a reader. They give back text, and never open, repair or wait for anything."""
