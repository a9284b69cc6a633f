"""Rendering of Markdown for a terminal, append-only: markers become styles, and nothing that was written changes."""
